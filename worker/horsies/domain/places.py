"""The place in the user's code that an error is about: where something was defined, or where an exception arose."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from itertools import islice
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import SourceLocation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_NOT_THE_USERS: Final = ("horsies.", "pydantic.", "importlib.")
_NEVERTHELESS: Final = ("horsies.demo.",)
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_MAX_LINES_ABOVE_DEF: Final = 100


def calling_place() -> SourceLocation | None:
    """The nearest expression on the stack outside the engine."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe() does the same
    while frame is not None and not _is_the_users(frame):
        frame = frame.f_back
    return None if frame is None else _place(frame.f_code, frame.f_lasti, frame.f_lineno)


def raising_place(error: BaseException) -> SourceLocation | None:
    """Return where `error` arose: the innermost line of the user's code, or else of the imported library."""
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        return SourceLocation(error.filename, error.lineno, error.offset or None)
    found: SourceLocation | None = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        is_library = code.co_filename.startswith((*_INSTALLED, "<frozen "))
        if _is_the_users(step.tb_frame) and not (found is not None and is_library):
            found = _place(code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found


def signature_place(fn: Callable[..., object]) -> SourceLocation | None:
    """The `def` of a function, below its decorators; None for callables without code."""
    start = SourceLocation.of_function(fn)
    if start is None or not start.source.lstrip().startswith("@"):
        return start
    for line in range(start.line, start.line + _MAX_LINES_ABOVE_DEF):
        if linecache.getline(start.file, line).lstrip().startswith(("def ", "async def ")):
            return SourceLocation(start.file, line)
    return start


def _is_the_users(frame: FrameType) -> bool:
    module = f"{frame.f_globals.get('__name__', '')}."
    return not module.startswith(_NOT_THE_USERS) or module.startswith(_NEVERTHELESS)


def _place(code: CodeType, instruction: int, line: int) -> SourceLocation:
    positions = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    first, last, start, end = positions
    if first != line or start is None or end is None:
        return SourceLocation(code.co_filename, line)
    source = linecache.getline(code.co_filename, line).encode()
    columns = [len(source[:offset].decode(errors="ignore")) + 1 for offset in (start, end)]
    return SourceLocation(code.co_filename, line, columns[0], columns[1] if last == first else None)
