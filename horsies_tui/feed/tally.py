"""Counts the rows of a filter in parts, because a single read would take 25 ms on a table with a million rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from horsies_tui.feed.pace import DataAge, ReadPace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies.views.counts import StateCounts
    from horsies_tui.feed.pace import Rhythm

PartT = TypeVar("PartT")
CountsT = TypeVar("CountsT", bound="StateCounts")

MOST_TURNS: Final = 100
"""Most turns per part, which count half a million to a million rows."""


class Tally(ReadPace, Generic[PartT, CountsT]):
    """A count in parts. Each turn counts the next part that may have changed, or continues an incomplete part.

    Counts are published once all parts are known. During a recount, a part keeps its old count until the new one has
    reached as far.
    """

    def __init__(self, rhythm: Rhythm, parts: Sequence[PartT]) -> None:
        super().__init__(rhythm)
        self._failed = False
        self.ask(parts)

    def ask(self, parts: Sequence[PartT]) -> None:
        """Count the rows of these filters, which must not overlap."""
        self.parts = parts
        self._stale = set(range(len(self.parts)))
        self._known: dict[int, CountsT] = {}
        self._going: dict[int, tuple[CountsT, int]] = {}
        self._ages = [DataAge() for _ in self.parts]
        self._index = -1
        self.unanswered.clear()
        self.renew()

    @property
    def part(self) -> PartT:
        """Return the part to count in this turn."""
        return self.parts[self._index]

    @property
    def rest(self) -> Any:
        """Return the place at which this turn continues; None for the beginning."""
        return self._going[self._index][0].rest if self._index in self._going else None

    @property
    def is_complete(self) -> bool:
        return len(self._known) == len(self.parts)

    @property
    def counts(self) -> CountsT | None:
        """Return the sum of all parts; None until all are known."""
        if not self.is_complete:
            return None
        known = [*self._known.values()]
        reached = [counts.reached for counts in known if counts.reached is not None]
        states = {state: number for counts in known for state, number in counts.states.items()}
        return replace(known[0], states=states, reached=max(reached, default=None), rest=None)

    def mark(self, now: float) -> None:
        for age in self._ages:
            age.mark(now)
        self.dirty = True
        self._stale = set(range(len(self.parts)))

    def renew(self) -> None:
        super().renew()
        self._stale = set(range(len(self.parts)))

    def distrust(self) -> None:
        super().distrust()
        self.unanswered = set(range(len(self.parts)))

    def begin(self, now: float) -> None:
        if not self._stale and not self._going:
            self._stale = set(range(len(self.parts)))  # the age is that of all parts, so all are due
        wanted = self._stale | set(self._going) if self.is_complete else set(range(len(self.parts))) - set(self._known)
        self._index = min((index for index in wanted if index > self._index), default=min(wanted))
        if self._index not in self._going:
            self._stale.discard(self._index)
        self.age = self._ages[self._index]
        super().begin(now)

    def add(self, counts: CountsT) -> None:
        """Add the counts of this turn to its part."""
        before, turns = self._going.pop(self._index, (None, 0))
        so_far = counts if before is None else before + counts
        known = self._known.get(self._index)
        if so_far.rest is not None and turns < MOST_TURNS:
            self._going[self._index] = so_far, turns + 1
        farther = known is None or (known.rest is not None and so_far.total.number >= known.total.number)
        if farther or self._index not in self._going:
            self._known[self._index] = so_far

    def end(self, now: float, *, done: bool, was_blocked: bool = False) -> None:
        self._failed = not done
        self.unanswered.discard(self._index)
        if not done and self._index >= 0:  # other parts may have been requested since it began
            self._stale.add(self._index)
            self.unanswered.add(self._index)
        super().end(now, done=done, was_blocked=was_blocked)
        self.dirty = bool(self._stale or self._going)

    @property
    def earliest_at(self) -> float:
        """Return the earliest time of the next turn, so that all parts are recounted within two ticks."""
        if self._began is None:
            return 0.0
        turn_s = 2 * self._rhythm.tick_s / max(len(self.parts), 2)
        return self._began + max(turn_s, self._cost * self._rhythm.slow_factor)

    def is_overdue(self, now: float, *, told: bool) -> bool:
        """Return whether a part is overdue. An incomplete part is not, because its count is shown as such."""
        return self.is_complete and any(
            self._is_too_old(age, now, told=told) for part, age in enumerate(self._ages) if part not in self._going
        )

    def due_at(self, *, told: bool) -> float:
        if not self.is_complete and not self._failed:
            return 0.0
        return super().due_at(told=told)
