"""The place in the user's code where a node or a workflow was defined, for error messages."""

from __future__ import annotations

import sys
from typing import Final

from horsies.domain.errors import SourceLocation

_OURS: Final = ("horsies.workflow.", "horsies.task.", "horsies.app")


def calling_place() -> SourceLocation | None:
    """The nearest line on the stack outside this package."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe() is the same with a name of its own
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else SourceLocation(frame.f_code.co_filename, frame.f_lineno)
