"""Says so when tasks wait that this worker does not know: a deploy that is not finished, or a name misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.run.loops import Wake
from horsies.store.statements import statement

if TYPE_CHECKING:
    from horsies.run.claimer import ClaimRules
    from horsies.run.events import Events
    from horsies.store.lane import Lane


class Strangers:
    """They stay PENDING, for a worker that knows them. Each name is told once."""

    name = "strangers"
    interval_s = 60.0
    step_timeout_s = 20.0

    def __init__(self, rules: ClaimRules, lane: Lane, events: Events) -> None:
        self.wake = Wake()
        self._rules = rules
        self.lane = lane
        self._events = events
        self._told: set[str] = set()

    async def step(self) -> None:
        known = [*self._rules.sync_names, *self._rules.async_names]
        async with self.lane.turn() as connection:
            rows = await connection.fetch(statement("unknown_names"), list(self._rules.queues), known)
        for row in rows:
            if row["task_name"] not in self._told:
                self._told.add(row["task_name"])
                self._events.warn(
                    "unknown task",
                    task=row["task_name"],
                    waiting=row["waiting"],
                    help="no task of that name is registered here; it stays PENDING for a worker that has it",
                )
