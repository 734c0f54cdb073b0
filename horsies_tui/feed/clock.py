"""The database's time, told without asking it: ages on the screen must not depend on the clock of this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where all of the console takes its time from."""

    def monotonic(self) -> float:
        """Seconds, for intervals."""

    def now(self) -> datetime:
        """The database's time, as far as it is known."""

    @property
    def offset_s(self) -> float:
        """How far the database's clock is ahead of this machine's."""

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        """The database said `told` at some moment between two of `monotonic`."""


class DatabaseClock:
    """Ticks with this machine and is set by the database's answers."""

    def __init__(self) -> None:
        self._zero = datetime.now(UTC) - timedelta(seconds=time.monotonic())

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return self._zero + timedelta(seconds=time.monotonic())

    @property
    def offset_s(self) -> float:
        return (self.now() - datetime.now(UTC)).total_seconds()

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        # Moved no further than the answer proves: half a round trip guessed anew each time would make ages tremble.
        earliest, latest = told - timedelta(seconds=answered), told - timedelta(seconds=asked)
        self._zero = min(max(self._zero, earliest), latest)


@dataclass
class FrozenClock:
    """Stands still until it is told to move: for pictures and tests."""

    at: datetime
    seconds: float = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return self.at + timedelta(seconds=self.seconds)

    @property
    def offset_s(self) -> float:
        return 0.0

    def advance(self, seconds: float) -> None:
        self.seconds += seconds

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        """What a database says does not move it."""
