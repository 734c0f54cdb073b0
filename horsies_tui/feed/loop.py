"""The base of all feeds: one task that reads when a read is due, as long as a screen shows the data."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from horsies_tui.feed.status import FeedFailure, LinkDown, Refused, SlowRead, sentence_with_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies_tui.feed.link import Link
    from horsies_tui.feed.status import LinkStatus

T = TypeVar("T")

_SUPERSEDED_AFTER_S: Final = 0.25
"""Cancelling a statement takes a connection of its own, so a read younger than this is awaited instead."""
_FIRST_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 5.0


class Feed(ABC):
    """Reads only between `start` and `stop`.

    A step that fails, because the database refused it or because of a bug, is reported to the link, whose status names
    it, and is repeated with growing pauses; `ctrl+r` repeats it at once.
    """

    NAME: ClassVar[str]
    """The name of the view that the feed serves."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._error: str | None = None
        self._slow_s: float | None = None
        self._reading: asyncio.Future[Any] | None = None
        self._reading_since = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._frozen = False
        self._refusal: Refused | None = None
        self._read_at: datetime | None = None
        self._retry_at, self._retry_pause_s = 0.0, _FIRST_RETRY_S
        self._subscriptions: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start reading; a screen is shown. After `stop` it continues with the data it had."""
        if self._task is None:
            link = self._link
            self._subscriptions = [
                link.on_dirty(self._on_dirty),
                link.on_status(self._on_status),
                link.on_retry(self._retry_now),
            ]
            self._on_dirty("", "")
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop reading; no screen shows the data."""
        if self._task is not None:
            for end in self._subscriptions:
                end()
            self._task.cancel()
            self._task = None
            self._link.report(self, None)

    def freeze(self, on: bool) -> None:
        """Read only what is newly requested; or resume and read what has changed meanwhile."""
        self._frozen = on
        if not on:
            self._on_dirty("", "")
        elif self._reading is not None:
            self._reading.cancel()  # its answer would be of a later moment than the one the view says it stands at
        self._wake.set()

    @abstractmethod
    def _on_dirty(self, channel: str, payload: str) -> None:
        """A notification; two empty texts: some may have been missed."""

    @abstractmethod
    def _due_at(self) -> float | None:
        """When `_step` is to be called, by the loop's clock; None: not until woken."""

    @abstractmethod
    async def _step(self) -> None:
        """Read what is due and publish it."""

    async def _read(self, ask: Callable[[Connection], Awaitable[T]]) -> T | None:
        """None: the read failed, see `_error` and `_slow_s`, or it was superseded."""
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
            self._error, self._refusal = error.message, error
            return None
        except LinkDown:
            return None  # the status cell reports it
        finally:
            self._reading = None
        took = self._now() - self._reading_since
        self._read_at = self._link.clock.now()
        self._error, self._slow_s = None, took if took > self._link.patience.slow_s else None
        return answer

    def _supersede(self) -> None:
        """Cancel the current read; its result is no longer needed."""
        if self._reading is not None and self._now() - self._reading_since > _SUPERSEDED_AFTER_S:
            self._reading.cancel()

    def _on_status(self, _status: LinkStatus) -> None:
        self._wake.set()

    async def _run(self) -> None:
        task = asyncio.current_task()
        # A cancelled read may still end as slow or with its answer; the feed's own stop must not be lost then.
        while task is not None and not task.cancelling():
            try:
                due = self._next_at()
                if due is not None and due <= self._now():
                    self._refusal = None
                    await self._step()
                    if self._refusal is not None:
                        self._failed(self._refusal)
                    continue
                if self._link.status.is_up and self._now() >= self._retry_at:
                    self._came_through()
            except Exception as error:  # noqa: BLE001 - a feed that ended here would leave LIVE above old rows
                self._failed(error)
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    def _next_at(self) -> float | None:
        if not self._link.status.is_up:
            return None
        return self._retry_at if self._retry_at > self._now() else self._due_at()

    def _failed(self, error: Exception) -> None:
        """Report the failure, and read everything again after a pause."""
        now, lacks = self._link.clock.now(), self._link.status.lacks
        # Missing tables are no failure of a feed that has shown nothing yet: the view itself reports what is missing.
        if self._read_at is not None or not any(lack in str(error) for lack in lacks):
            self._link.report(self, FeedFailure(self.NAME, sentence_with_place(error), self._read_at or now))
        self._retry_at = self._now() + self._retry_pause_s
        self._retry_pause_s = min(2 * self._retry_pause_s, _LONGEST_RETRY_S)
        self._on_dirty("", "")

    def _came_through(self) -> None:
        """All reads are done and none failed."""
        if self._retry_pause_s > _FIRST_RETRY_S:
            self._retry_pause_s = _FIRST_RETRY_S
            self._link.report(self, None)

    def _retry_now(self) -> None:
        self._retry_at, self._retry_pause_s = 0.0, min(self._retry_pause_s, 2 * _FIRST_RETRY_S)
        self._wake.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
