"""The order of tasks that a claim had to search for, because the first tasks of its queue cannot run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies.lifecycle.claiming import ClaimedTask, TupleId

_HOLDS_S = 0.02
"""How long the tasks that a search has found may be claimed by the claims that follow.

If many tasks that cannot run stand before those that can, each claim would search: 0.05 ms, 0.005 ms for each name.
"""
_SPARE = 16
"""How many more tasks a claim is given than it wants: other workers may have claimed the first of them."""
_BLOCKED_S = 1.0
"""How long claims search at once after one had to.

The statement that stores an outcome and claims does not search by itself, so each end of a task would need another
claim: 0.75 times the rate, measured behind 200 000 tasks of unknown names.
"""


@dataclass(slots=True)
class _Searched:
    at: float
    found: Sequence[TupleId]
    """The tasks that come after those that were claimed."""
    found_at: float


class ClaimOrder:
    """The finds of the last search, by queue and kind of task."""

    def __init__(self) -> None:
        self._searched: dict[tuple[str, bool], _Searched] = {}

    def following(self, queue: str, limit: int, *, is_async: bool) -> Sequence[TupleId] | None:
        """Return what to pass to a claim of at most `limit` tasks: the tasks that come next.

        None: it begins with the first tasks of the queue. An empty one: it searches at once.
        """
        if not self._searched:
            return None
        searched, now = self._searched.get((queue, is_async)), time.monotonic()
        if searched is None or now - searched.at > _BLOCKED_S:
            return None
        return searched.found[: limit + _SPARE] if now - searched.found_at <= _HOLDS_S else []

    def remember(
        self, queue: str, following: Sequence[TupleId] | None, claimed: list[ClaimedTask], *, is_async: bool
    ) -> None:
        """Keep what a claim has found that was given `following`."""
        after = next((task.after for task in claimed if task.after is not None), None)
        if after is None and not self._searched:
            return  # as for nearly every claim
        known, now = self._searched.pop((queue, is_async), None), time.monotonic()
        last = max((task.number for task in claimed if task.number is not None), default=None)
        if after is not None:
            self._searched[queue, is_async] = _Searched(now, after, now)
        elif known is not None and following and last is not None:
            if known.found[: len(following)] == following:  # otherwise another claim was answered meanwhile
                known.found = known.found[last:]
            self._searched[queue, is_async] = known

    def expire(self) -> None:
        """A task was enqueued that may come before those that were found."""
        for searched in self._searched.values():
            searched.found_at = float("-inf")
