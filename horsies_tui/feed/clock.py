"""The database's time, estimated without a query, so that ages on the screen do not depend on this machine's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class ConsoleClock(Protocol):
    """The source of all times in the console."""

    def monotonic(self) -> float:
        """Seconds, for intervals."""

    def now(self) -> datetime:
        """The estimated time of the database."""

    @property
    def offset_s(self) -> float:
        """Seconds by which the database's clock is ahead of this machine's."""

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        """The database reported the time `told` at some moment between these two values of `monotonic`."""


class DatabaseClock:
    """Runs with this machine's monotonic clock and is corrected by the database's answers."""

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
        # Moved only as far as the answer proves: a fresh guess of half a round trip each time would make ages jitter.
        earliest, latest = told - timedelta(seconds=answered), told - timedelta(seconds=asked)
        self._zero = min(max(self._zero, earliest), latest)


@dataclass
class FrozenClock:
    """Stands still until it is advanced; for screenshots and tests."""

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
        """Ignored: the clock is fixed."""
