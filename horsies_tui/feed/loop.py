"""What all feeds share: one task that reads when something is due, while somebody wants it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from horsies_tui.feed.status import LinkDown, Refused, SlowRead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.store.connect import Connection
    from horsies_tui.feed.link import Link
    from horsies_tui.feed.status import LinkStatus

T = TypeVar("T")

_SUPERSEDED_AFTER_S: Final = 0.25
"""To end a statement takes a connection of its own: a quick one is rather waited for."""


class Feed(ABC):
    """Nothing is read before `start` and after `stop`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._error: str | None = None
        self._slow_s: float | None = None
        self._reading: asyncio.Future[Any] | None = None
        self._reading_since = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._subscriptions: list[Callable[[], None]] = []

    def start(self) -> None:
        """A screen wants it. Again after `stop`: with what was shown before."""
        if self._task is None:
            self._subscriptions = [self._link.on_dirty(self._on_dirty), self._link.on_status(self._on_status)]
            self._on_dirty("", "")
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(_not_in_silence)

    def stop(self) -> None:
        """No screen wants it: nothing is read."""
        if self._task is not None:
            for end in self._subscriptions:
                end()
            self._task.cancel()
            self._task = None

    @abstractmethod
    def _on_dirty(self, channel: str, payload: str) -> None:
        """A notification; two empty texts: some may have been missed."""

    @abstractmethod
    def _due_at(self) -> float | None:
        """When `_step` is to be called, by the loop's clock; None: not until woken."""

    @abstractmethod
    async def _step(self) -> None:
        """Read what is due, and publish it."""

    async def _read(self, ask: Callable[[Connection], Awaitable[T]]) -> T | None:
        """None: it did not come through, which `_error` and `_slow_s` explain, or something newer is wanted."""
        self._reading_since = self._now()
        self._reading = reading = asyncio.ensure_future(self._link.read(ask))
        try:
            answer = await reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return None
        except SlowRead as error:
            self._slow_s = error.waited_s
            return None
        except Refused as error:
            self._error = error.message
            return None
        except LinkDown:
            return None  # the status cell says so
        finally:
            self._reading = None
        took = self._now() - self._reading_since
        self._error, self._slow_s = None, took if took > self._link.patience.slow_s else None
        return answer

    def _supersede(self) -> None:
        """What is being read is not wanted any more."""
        if self._reading is not None and self._now() - self._reading_since > _SUPERSEDED_AFTER_S:
            self._reading.cancel()

    def _on_status(self, _status: LinkStatus) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            due = self._due_at() if self._link.status.is_up else None
            if due is not None and due <= self._now():
                await self._step()
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _not_in_silence(task: asyncio.Task[None]) -> None:
    """A mistake of ours reaches the loop's exception handler at once, not when the task is collected."""
    if not task.cancelled():
        task.result()
