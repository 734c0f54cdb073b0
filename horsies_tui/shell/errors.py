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


class ErrorSheet(Sheet[None]):
    DEFAULT_CSS = "ErrorSheet Static { height: auto; margin-bottom: 1; }"

    def __init__(self, errors: Iterable[ErrorLine], glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._errors = list(errors)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet") as sheet:
            sheet.border_title = "Last errors"
            sheet.border_subtitle = "esc closes"
            if not self._errors:
                yield Static("Nothing has gone wrong in this session.")
            for error in reversed(self._errors):
                times = f" ({error.times} times, last at this time)" if error.times > 1 else ""
                yield Static(self._glyphs.text(f"{error.at}  {error.text}{times}"), markup=False)
