"""`!`: the last errors, newest first, each with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.widgets import Static

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

    DEFAULT_CSS = "ErrorSheet Static { height: auto; }"

    def __init__(self, errors: Iterable[ErrorLine], glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._lines = Static(self._text(errors), markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet") as sheet:
            sheet.border_title = "Last errors"
            sheet.border_subtitle = "esc closes"
            yield self._lines

    def show(self, errors: Iterable[ErrorLine]) -> None:
        self._lines.update(self._text(errors))

    def _text(self, errors: Iterable[ErrorLine]) -> str:
        lines = [f"{error.at}  {error.text}{error.again}\n" for error in errors]
        return self._glyphs.text("\n".join(reversed(lines)) or "Nothing has gone wrong in this session.")
