"""`!`: the last errors, newest first, each with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll

from horsies_tui.widgets.plain import Lines, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult

    from horsies_tui.look.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """An error message, its time, and how often it occurred in a row."""

    at: str
    text: str
    times: int = 1

    @property
    def again(self) -> str:
        return f" ({self.times} times, last at this time)" if self.times > 1 else ""


class ErrorSheet(Sheet[None]):
    """Errors that occur while it is open appear in it: the first view that fails is seldom the only one."""

    def __init__(self, errors: Iterable[ErrorLine], glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._lines = Lines(glyphs, *_lines_of(errors))

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet") as sheet:
            entitle(sheet, self._glyphs, "Last errors", "esc closes")
            yield self._lines

    def show(self, errors: Iterable[ErrorLine]) -> None:
        self._lines.show(*_lines_of(errors))


def _lines_of(errors: Iterable[ErrorLine]) -> list[str]:
    """Each error with an empty line after it."""
    lines = [line for error in errors for line in ("", f"{error.at}  {error.text}{error.again}")]
    return lines[::-1] or ["Nothing has gone wrong in this session."]
