"""Counts under a filter, read a part at a time: together they would take 25 ms of a table with a million rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views import TaskCounts, count_parts
from horsies_tui.feed.pace import Pace

if TYPE_CHECKING:
    from horsies.query import TaskParameters
    from horsies.views.counts import Rest
    from horsies_tui.feed.pace import Rhythm


MOST_TURNS: Final = 100
"""Of one part, after which counting stops: half a million to a million rows."""


class Tally(Pace):
    """Each turn reads the next part that may have changed, or more of one that is not counted to its end.

    Nothing is told before all parts are known. What was counted farthest is told until it is counted as far again.
    """

    def __init__(self, rhythm: Rhythm, parameters: TaskParameters) -> None:
        super().__init__(rhythm)
        self._failed = False
        self.ask(parameters)

    def ask(self, parameters: TaskParameters) -> None:
        """Count what matches these from now on."""
        self._parts = count_parts(parameters)
        self._stale = set(range(len(self._parts)))
        self._known: dict[int, TaskCounts] = {}
        self._going: dict[int, tuple[TaskCounts, int]] = {}
        self._index = -1
        self.renew()

    @property
    def part(self) -> TaskParameters:
        """What to count in this turn."""
        return self._parts[self._index]

    @property
    def rest(self) -> Rest | None:
        """Where this turn goes on; None where it begins."""
        return self._going[self._index][0].rest if self._index in self._going else None

    @property
    def is_complete(self) -> bool:
        return len(self._known) == len(self._parts)

    @property
    def counts(self) -> TaskCounts | None:
        """Of all parts."""
        if not self.is_complete:
            return None
        known = self._known.values()
        reached = [counts.reached for counts in known if counts.reached is not None]
        return TaskCounts(
            {state: number for counts in known for state, number in counts.states.items()},
            max(reached, default=None),
            next((counts.in_table for counts in known), None),
        )

    def mark(self) -> None:
        super().mark()
        self._stale = set(range(len(self._parts)))

    def renew(self) -> None:
        super().renew()
        self._stale = set(range(len(self._parts)))

    def begin(self, now: float) -> None:
        super().begin(now)
        if not self._stale and not self._going:
            self._stale = set(range(len(self._parts)))  # read again because of its age: that is the age of all parts
        wanted = self._stale | set(self._going) if self.is_complete else set(range(len(self._parts))) - set(self._known)
        self._index = min((index for index in wanted if index > self._index), default=min(wanted))
        if self._index not in self._going:
            self._stale.discard(self._index)

    def tell(self, counts: TaskCounts) -> None:
        """The counts of this turn's part, or of what was left of it."""
        before, turns = self._going.pop(self._index, (None, 0))
        so_far = counts if before is None else before + counts
        known = self._known.get(self._index)
        if so_far.rest is not None and turns < MOST_TURNS:
            self._going[self._index] = so_far, turns + 1
        farther = known is None or (known.rest is not None and so_far.total.number >= known.total.number)
        if farther or self._index not in self._going:
            self._known[self._index] = so_far

    def end(self, now: float, *, done: bool) -> None:
        self._failed = not done
        if not done:
            self._stale.add(self._index)
        super().end(now, done=not self._stale and not self._going)

    def due_at(self, *, told: bool) -> float:
        if not self.is_complete and not self._failed:
            return 0.0
        return super().due_at(told=told)
