"""The database's time, estimated without a query, and the deadline of a read."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from horsies.store.connect import Connection


class ConsoleClock(Protocol):
    """The source of all times in the console."""

    def monotonic(self) -> float:
        """Return seconds of a monotonic clock, for intervals."""

    def now(self) -> datetime:
        """Return the estimated time of the database."""

    @property
    def offset_s(self) -> float:
        """Return the seconds by which the database's clock is ahead of this machine's."""

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        """Correct the estimate: the database reported the time `told` between these two values of `monotonic`."""


class DatabaseClock:
    """A clock that runs with this machine's monotonic clock and is corrected by the database's answers."""

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
        # Corrected only as far as the answer proves; adding half a round trip each time would make ages jitter.
        earliest, latest = told - timedelta(seconds=answered), told - timedelta(seconds=asked)
        self._zero = min(max(self._zero, earliest), latest)


@dataclass
class FrozenClock:
    """A clock for screenshots and tests, which stands still until it is advanced."""

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
        """Ignore the time of the database."""


class Watch:
    """Terminates a connection after `limit_s`.

    Cancelling the task is not enough, because ending its transaction would wait for the same server.
    """

    def __init__(
        self,
        connection: Connection,
        limit_s: float,
        *,
        slow_after_s: float | None = None,
        on_slow: Callable[[float], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._began = self._loop.time()
        self._timers = [self._loop.call_later(limit_s, self._give_up)]
        if slow_after_s is not None and on_slow is not None:
            self._timers.append(self._loop.call_later(slow_after_s, on_slow, slow_after_s))
        self.gave_up = False

    @property
    def passed_s(self) -> float:
        return self._loop.time() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for timer in self._timers:
            timer.cancel()

    def _give_up(self) -> None:
        self.gave_up = True
        self._connection.terminate()
