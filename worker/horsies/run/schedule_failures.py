"""Schedules that could not be sent: tried again at a rising interval, and logged as rarely."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horsies.run.events import Events

_LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class _Failure:
    error: str
    count: int
    until: float


class ScheduleFailures:
    """A schedule whose row the database rejects, or whose workflow cannot be built, fails at each tick: its errors
    would fill the log, and its builds would delay others."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._failures: dict[str, _Failure] = {}

    def waits(self, name: str) -> bool:
        failure = self._failures.get(name)
        return failure is not None and time.monotonic() < failure.until

    def add(self, name: str, error: str) -> None:
        """It failed once more. Logged at once if the error is another one, later at failures 2, 4, 8 and so on."""
        before = self._failures.get(name)
        count = before.count + 1 if before is not None and before.error == error else 1
        pause_s = min(2.0 ** (count - 1), _LONGEST_PAUSE_S)
        self._failures[name] = _Failure(error, count, time.monotonic() + pause_s)
        if count & (count - 1) == 0:
            self._events.schedule_failed(name, error, count, pause_s)

    def forget(self, name: str) -> None:
        self._failures.pop(name, None)
