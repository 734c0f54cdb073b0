"""Suppressed sends: importing a module must not send a task."""

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
    """Suppress all sends in this block. Other threads can send: a web process may be starting a worker here."""
    before = _importing.set(True)
    try:
        yield
    finally:
        _importing.reset(before)


def are_sends_suppressed() -> bool:
    """Return whether such a block around the caller, or TASKLIB_SUPPRESS_SENDS=1, suppresses sends."""
    return _importing.get() or os.environ.get("TASKLIB_SUPPRESS_SENDS") == "1"
