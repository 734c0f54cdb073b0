"""The line above a list: number of matching rows by state, total, and whether the list follows new rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rich.cells import cell_len
from textual.message import Message

from horsies.views import Count
from horsies_tui.look.glyphs import cut
from horsies_tui.look.lines import Span, width_of
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import count
from horsies_tui.widgets.line_view import EndsLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events

    from horsies.views import TaskCounts, WorkflowCounts
    from horsies.views.counts import StateCounts
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans

CountsT = TypeVar("CountsT", bound="StateCounts")

ORDER: Final = (
    "RUNNING",
    "CLAIMED",
    "PENDING",
    "RETRY",
    "FAILED",
    "INTERRUPTED",
    "EXPIRED",
    "CANCELLED",
    "COMPLETED",
)
_GAP: Final = 2
_BRIEF_BELOW: Final = 100


class _Way(NamedTuple):
    """A way to write a state and its number."""

    words: bool
    space: int
    """Number of blanks between the sign and the number."""
    gap: int
    """Number of blanks after the number."""


_WAYS: Final = (_Way(words=True, space=1, gap=2), _Way(words=False, space=1, gap=2), _Way(words=False, space=0, gap=1))


@dataclass(frozen=True, slots=True)
class CountsText:
    """The content of the line. `words` are right-aligned: the sort order, how far back was searched, FOLLOW."""

    counts: TaskCounts | WorkflowCounts | None = None
    counting: bool = True
    """True while missing counts are being read."""
    filtered: bool = False
    since: str = ""
    """The time back to which rows were counted; empty if all were counted."""
    shown: int = 0
    """Number of rows in the list. The shown count is at least this number."""
    words: tuple[str, ...] = ()
    loud: str = ""
    """The last word, in bold, which says whether the list follows new rows."""


def of_rows(counts: CountsT, states: Iterable[str]) -> CountsT:
    """Return the counts of these rows, which are newer than the counts that were read if the list is complete."""
    return replace(counts, states={state: Count(number) for state, number in Counter(states).items()}, reached=None)


class CountsLine(EndsLine):
    """The counts line. While the filter stays the same, the column of a number may grow but not shrink."""

    @dataclass
    class StateChosen(Message):
        """A state was clicked."""

        state: str

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        order: Sequence[str] = ORDER,
        things: str = "tasks",
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        """Create the line; `order` is the order of the states."""
        super().__init__(glyphs, self._ends, id=id)
        self._order = order
        self._things = things
        self._tally = CountsText()
        self._slots: dict[str, int] = {}
        self._chip_ends: list[tuple[int, str]] = []

    def show(self, tally: CountsText) -> None:
        if tally.counts is None:
            self._slots = {}
        self._tally = tally
        self._redraw()

    def _ends(self, width: int) -> tuple[Spans, Spans]:
        right = self._right(width)
        return self._left(width - width_of(right) - _GAP), right

    def _left(self, room: int) -> Spans:
        """Return the counts with the names of the states if all fit, otherwise as many signs with numbers as fit."""
        counts = self._tally.counts
        found = counts.states if counts is not None else {}
        for state in self._order:
            if state in found or state in self._slots:
                self._slots[state] = max(self._slots.get(state, 1), cell_len(counted(found.get(state))))
        for way in _WAYS:
            chips = {state: self._chip(state, found.get(state), way) for state in self._order if state in self._slots}
            if sum(map(width_of, chips.values())) <= room:
                break
        line: Spans = ()
        self._chip_ends = []
        for state, chip in chips.items():
            if width_of(line) + width_of(chip) > room:
                break
            line += chip
            self._chip_ends.append((width_of(line), state))
        return line

    def _chip(self, state: str, number: Count | None, way: _Way) -> Spans:
        text = counted(number)
        words = f" {state.lower()}" if way.words else ""
        tone = state_tone(state) if number is not None else None
        sign = self._glyphs.state(state) + " " * way.space
        return (Span(f"{sign}{text}{words}", tone), Span(" " * (self._slots[state] - cell_len(text) + way.gap)))

    def _right(self, width: int) -> Spans:
        tally = self._tally
        brief = width < _BRIEF_BELOW
        parts = [self._matching(brief=brief), *tally.words]
        loud = f"{' · ' if any(parts) else ''}{tally.loud}" if tally.loud else ""
        words = self._glyphs.text(" · ".join(filter(None, parts)))
        room = max(width - cell_len(loud), 0)
        return (Span(cut(words, room, self._glyphs)), Span(self._glyphs.text(loud), Tone.STRONG))

    def _matching(self, *, brief: bool) -> str:
        counts = self._tally.counts
        if counts is None:
            return f"counting{self._glyphs.ellipsis}" if self._tally.counting else ""
        in_table = None if counts.in_table is None else count(counts.in_table)
        if not self._tally.filtered:
            # The estimate dates from the server's last ANALYZE, so it is shown only if not all rows were counted.
            if in_table is None or not counts.total.at_least:
                return f"{counted(counts.total)} {self._things}"
            return f"~{in_table} {self._things}" if brief else f"about {in_table} in table"
        least = Count(max(counts.total.number, self._tally.shown), counts.total.at_least)
        if counts.in_table is not None and counts.in_table < least.number:
            in_table = None  # avoids `49 of 46`, since the estimate may be outdated
        if brief:
            return f"{counted(least)} of ~{in_table}" if in_table else f"{counted(least)} match"
        # "at least" and the time back to which rows were counted, because a plus sign alone is not clear.
        match = f"at least {count(least.number)}" if least.at_least else counted(least)
        bound = f", counted back to {self._tally.since}" if self._tally.since else ""
        table = f" · about {in_table} in table" if in_table else ""
        return f"{match} match{bound}{table}"

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and (state := next((state for end, state in self._chip_ends if at.x < end), None)):
            self.post_message(self.StateChosen(state))


def counted(number: Count | None) -> str:
    """Format a count; None is shown as zero."""
    return "0" if number is None else count(number.number, at_least=number.at_least)
