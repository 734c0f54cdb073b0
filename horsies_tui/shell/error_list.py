"""The list of the last errors (key `!`), newest first, each with its time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from textual.containers import VerticalScroll

from horsies_tui.feed.status import place_of, sentence_with_place
from horsies_tui.widgets.plain import Lines, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult

    from horsies_tui.look.damage import Damage
    from horsies_tui.look.glyphs import Glyphs

MOST_ERRORS: Final = 50


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """An error message, its time, and how often it occurred in a row."""

    at: str
    text: str
    times: int = 1

    @property
    def again(self) -> str:
        return f" ({self.times} times, last at this time)" if self.times > 1 else ""


class ErrorLog:
    """The last errors of this session."""

    def __init__(self) -> None:
        self.lines: deque[ErrorLine] = deque(maxlen=MOST_ERRORS)
        self._places: set[str] = set()
        """Places in the code at which drawing has failed."""

    def add(self, at: str, text: str) -> None:
        last = self.lines[-1] if self.lines else None
        if last is not None and last.text == text:
            self.lines[-1] = replace(last, at=at, times=last.times + 1)
        else:
            self.lines.append(ErrorLine(at, text))

    def words_for(self, damage: Damage) -> str | None:
        """Return the message for a failed draw; None if a draw has failed at the same place in the code before."""
        place = f"{type(damage.error).__name__} {place_of(damage.error)}"
        if place in self._places:
            return None
        self._places.add(place)
        return f"{damage.text}: {sentence_with_place(damage.error)}"


class ErrorSheet(Sheet[None]):
    """The sheet that lists the errors. It is updated while it is open, because several views often fail together."""

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
    """Return the lines of all errors, with an empty line between them."""
    lines = [line for error in errors for line in ("", f"{error.at}  {error.text}{error.again}")]
    return lines[::-1] or ["No errors in this session."]
