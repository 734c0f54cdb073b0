"""A time limit for requests on a connection that also holds when the server does not answer at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from horsies.store.connect import Connection


class Watch:
    """Terminates the connection after `limit_s`.

    Cancelling the task is not enough: ending the transaction would wait for the same silent server again.
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
