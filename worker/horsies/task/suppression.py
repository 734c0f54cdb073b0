"""When nothing may be sent: a module must not send a task each time it is imported."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_importing: ContextVar[bool] = ContextVar("importing", default=False)


@contextmanager
def sends_suppressed() -> Iterator[None]:
    """Nothing that runs in this block sends. Other threads go on: a web process may be starting a worker here."""
    before = _importing.set(True)
    try:
        yield
    finally:
        _importing.reset(before)


def are_sends_suppressed() -> bool:
    """By such a block around us, or by TASKLIB_SUPPRESS_SENDS=1."""
    return _importing.get() or os.environ.get("TASKLIB_SUPPRESS_SENDS") == "1"
