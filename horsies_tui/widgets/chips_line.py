"""The summary line above a short list: the number of rows in each state, and facts about all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies_tui.look.glyphs import cut
from horsies_tui.look.lines import Span, width_of, words
from horsies_tui.widgets.line_view import EndsLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans
    from horsies_tui.look.tones import Tone

_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Chip:
    """One piece of the summary. `brief` is its short text, used if not all pieces fit."""

    text: str
    brief: str
    tone: Tone | None


class ChipsLine(EndsLine):
    """The summary line. Problems come first, and the texts are shortened if they do not fit."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(glyphs, self._ends, id=id)
        self._chips: Sequence[Chip] = ()
        self._words: Sequence[str] = ()

    def show(self, chips: Sequence[Chip], at_right: Sequence[str]) -> None:
        """Show these pieces, and `at_right` at the right end, the most important first."""
        self._chips, self._words = chips, at_right
        self._redraw()

    def _ends(self, width: int) -> tuple[Spans, Spans]:
        left = self._left(self._chips, brief=False)
        if width_of(left) > width:
            left = self._left(self._chips, brief=True)
        if width_of(left) > width:
            left = self._left(self._chips[:1], brief=True)
        return left, (Span(self._right(width - width_of(left) - _GAP)),)

    def _left(self, chips: Sequence[Chip], *, brief: bool) -> Spans:
        spans: list[Span] = []
        for chip in chips:
            spans += [Span("   ")] if spans else []
            spans.append(words(chip.brief if brief else chip.text, chip.tone, self._glyphs))
        return tuple(spans)

    def _right(self, room: int) -> str:
        text = ""
        for word in self._words:
            longer = f"{text} {self._glyphs.dot} {word}" if text else word
            if len(longer) > room:
                break
            text = longer
        return cut(self._glyphs.text(text), max(room, 0), self._glyphs)
