"""Waits until rows are final: woken by notifications, and polling because these may be missed."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from horsies.store.connect import is_transient
from horsies.store.pool import CONNECTION_ERRORS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from horsies.store.listener import Listener

_POLL_S = 5.0
_POLL_WITHOUT_NOTIFICATIONS_S = 0.2
# A restarted server is back within this time; a caller that waits longer for a result should get the error.
_TIMEOUT_S = 15.0
_SHORTEST_READ_S, _MAX_READ_S = 2.0, 10.0
# Every session that listens to task_done receives every task of the database, 20 000 times a second under full load. So
# the listener is stopped when there are no waits, but not between two calls in a row.
_LINGER_S = 10.0


class Awaited(Protocol):
    """A row that a caller waits for."""

    @property
    def is_final(self) -> bool: ...


AwaitedT = TypeVar("AwaitedT", bound=Awaited)


class Waiting(Generic[AwaitedT]):
    """All waits of one process for one kind of rows; the first that does not end at once starts the listener.

    The listener is shared: its owner closes it, and calls `wake_all` when it has a gap.
    """

    def __init__(
        self, read: Callable[[str], Awaitable[AwaitedT | None]], listener: Listener | None, channel: str
    ) -> None:
        """Take the channel that announces ids of final rows; no listener if a pooler would swallow notifications."""
        self._read = read
        self._listener = listener
        self._channel = channel
        self._starting: asyncio.Task[None] | None = None
        self._listens = False
        self._unlistening: asyncio.TimerHandle | None = None
        self._waiters: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def until_final(self, row_id: str, timeout_s: float | None) -> AwaitedT | None:
        """The row, final unless the time ran out (0: one read); None if there is none.

        Errors of the database are waited out too, for as long as a restart takes; then they are raised.
        """
        clock = asyncio.get_running_loop().time
        deadline = math.inf if timeout_s is None else clock() + timeout_s
        failing_since: float | None = None
        with self._registered(row_id) as wake:
            while True:
                wake.clear()
                try:
                    found = await self._read_within(row_id, deadline - clock())
                except CONNECTION_ERRORS as error:
                    failing_since = failing_since or clock()
                    if not is_transient(error) or clock() >= min(deadline, failing_since + _TIMEOUT_S):
                        raise
                else:
                    failing_since = None
                    if found is None or found.is_final or clock() >= deadline:
                        return found
                self._listen()
                healthy = self._listens and self._listener is not None and self._listener.healthy
                poll_s = _POLL_S if healthy and failing_since is None else _POLL_WITHOUT_NOTIFICATIONS_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(poll_s, deadline - clock())):
                        await wake.wait()

    def close(self) -> None:
        if self._unlistening is not None:
            self._unlistening.cancel()

    def wake_all(self) -> None:
        """Make all waits read their rows: notifications may have been missed."""
        for waiters in self._waiters.values():
            for wake in waiters:
                wake.set()

    async def _read_within(self, row_id: str, left_s: float) -> AwaitedT | None:
        # So even the shortest wait gets an answer, and even the longest one notices a server that gives none.
        limit = min(max(left_s, _SHORTEST_READ_S), _MAX_READ_S)
        try:
            async with asyncio.timeout(limit):
                return await self._read(row_id)
        except TimeoutError:
            raise TimeoutError(f"the database did not answer within {limit:g} s") from None

    @contextmanager
    def _registered(self, row_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the row may be final."""
        wake = asyncio.Event()
        self._waiters[row_id].add(wake)
        try:
            yield wake
        finally:
            self._waiters[row_id].discard(wake)
            if not self._waiters[row_id]:
                del self._waiters[row_id]
            if not self._waiters and self._listens and self._unlistening is None:
                self._unlistening = asyncio.get_running_loop().call_later(_LINGER_S, self._stop_listening)

    def _listen(self) -> None:
        if self._unlistening is not None:
            self._unlistening.cancel()
            self._unlistening = None
        if self._listener is None or self._listens:
            return
        self._listens = True
        self._listener.add(self._channel, self._wake)
        if self._starting is None:  # not awaited: until it is done, the wait polls
            self._starting = asyncio.get_running_loop().create_task(self._listener.start())

    def _stop_listening(self) -> None:
        self._unlistening = None
        if self._listener is not None and not self._waiters:
            self._listener.remove(self._channel, self._wake)
            self._listens = False

    def _wake(self, row_id: str) -> None:
        for wake in self._waiters.get(row_id, ()):
            wake.set()
