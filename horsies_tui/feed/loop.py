"""The base of all feeds: one task that runs a feed's reads when they are due, while a screen shows the data."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from horsies_tui.feed.status import FeedFailure, LinkDown, SlowRead, StatementRefused, sentence_with_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from dataclasses import Field
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.pace import ReadPace
    from horsies_tui.feed.recorded import Playback, SnapshotPart
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.feed.tally import Tally

_SUPERSEDED_AFTER_S: Final = 0.25
"""Age from which a superseded read is cancelled. A younger one is awaited, because cancelling opens a connection."""
_FIRST_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 5.0


class FeedSnapshot(Protocol):
    """The base of snapshots, the frozen dataclasses that feeds publish.

    An optional field `slow_s` is the duration of a slow last read (None if it was quick); `now` is the database's time
    when the snapshot was published.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def loading(self) -> bool:
        """True until all requested data have been read."""

    @property
    def error(self) -> str | None:
        """The error of the last read, on one line; the data are then from the read before."""


T = TypeVar("T")
RequestT = TypeVar("RequestT")
SnapshotT = TypeVar("SnapshotT", bound=FeedSnapshot)


def _always(*_: str) -> bool:
    return True


@dataclass
class FeedRead:
    """One kind of read of a feed. If several are due, the one that has been due for longest runs first."""

    name: str
    run: Callable[[], Awaitable[bool]]
    """Reads and publishes; returns False if it failed or was superseded, and is still due."""
    pace: ReadPace
    """Determines when the read is due: after a change, at an interval, or at once on request."""
    on: Callable[[str, str], bool] = _always
    """Returns whether a notification (channel, payload) may mean a change of its data."""
    wanted: Callable[[], bool] = _always
    """Returns whether the screen needs its data now."""
    due: Callable[[], float] | None = None
    """Returns the time at which it is due, if that does not depend on its pace alone."""
    not_before: float = 0.0

    def due_at(self, *, told: bool) -> float:
        return max(self.pace.due_at(told=told) if self.due is None else self.due(), self.not_before)


class Feed(Generic[SnapshotT]):
    """A feed reads between `start` and `stop`. Subclasses declare `_reads` and the methods for their view's requests.

    A step that fails, through the database or a bug, is reported to the link, shown in its status, and retried with
    growing pauses; `ctrl+r` retries it at once.
    """

    NAME: ClassVar[str]
    """Name of the view that the feed serves."""

    _reads: tuple[FeedRead, ...]

    def __init__(self, link: DatabaseLink, publish: Callable[[SnapshotT], None], empty: SnapshotT) -> None:
        self._link = link
        self.snapshot = self._empty = empty
        self._publish_to = publish
        self._fields = frozenset(field.name for field in fields(empty))
        self._error: str | None = None
        self._slow_s: float | None = None
        self._reading: asyncio.Future[Any] | None = None
        self._reading_since = 0.0
        self._asked_s = 0.0
        """How long the reads of this step have used the connection, without the time they waited for it."""
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._frozen = False
        self._refusal: StatementRefused | None = None
        self._noted = ""
        """The replay's message about this feed."""
        self._read_at: datetime | None = None
        self._answered: bool | None = None
        """True if the reads of this step were answered; None if there were none or their answers are not needed."""
        self._read_from: dict[str, datetime] = {}
        """Time of the data that each read published last, by the name of the read."""
        self._late: dict[str, datetime] = {}
        """Time of the data still shown for each read whose last answer was not in time, by the name of the read."""
        self._step_began: float | None = None
        self._retry_at, self._retry_pause_s = 0.0, _FIRST_RETRY_S
        self._subscriptions: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start reading for a screen that is shown. After `stop`, the previous data are kept."""
        if self._task is None:
            link = self._link
            self._subscriptions = [
                link.on_dirty(self._on_dirty),
                link.on_status(self._on_status),
                link.on_retry(self._retry_now),
            ]
            self._on_dirty("", "")
            self._late.clear()
            link.freshness.attend(self)
            playback = link.playback
            run = self._run() if playback is None else self._replay(playback)
            self._task = asyncio.get_running_loop().create_task(run)
            if link.tape is not None:
                link.tape.watch(self)

    def stop(self) -> None:
        """Stop reading, because no screen shows the data."""
        if self._task is not None:
            for end in self._subscriptions:
                end()
            self._task.cancel()
            self._task = self._step_began = None
            self._link.freshness.leave(self)
            if self._link.tape is not None:
                self._link.tape.unwatch(self)

    def freeze(self, on: bool) -> None:
        """Freeze: read only new requests. Otherwise resume, and read what has changed in the meantime."""
        self._frozen = on
        if not on:
            self._on_dirty("", "")
        elif self._reading is not None:
            self._reading.cancel()  # its answer would be newer than the time at which the view was frozen
        self._wake.set()

    def refresh(self) -> None:
        """Read everything again at once."""
        for read in self._reads:
            read.pace.renew()
        self._wake.set()

    def distrust(self) -> None:
        """Treat all data as outdated until they are read again, because they came from a standby that lagged."""
        self._late |= self._read_from
        self.refresh()
        for read in self._reads:
            read.pace.distrust()

    def parts(self) -> Iterable[SnapshotPart]:
        """Return the parts of the snapshot to record for the current request. A replay shows only these parts."""
        return ()

    # For subclasses.

    def _query(
        self,
        request: Callable[[], RequestT],
        ask: Callable[[Connection, RequestT], Awaitable[T | None]],
        put: Callable[[T], Mapping[str, Any]],
    ) -> Callable[[], Awaitable[bool]]:
        """Return a read of the current request; `put` turns its answer into changes of the snapshot.

        The answer is dropped if it is None, or if the request has changed by then.
        """

        async def run() -> bool:
            requested = request()
            answer = await self._read(lambda conn: ask(conn, requested))
            if answer is None or request() != requested:
                return False
            self._publish(**put(answer))
            return True

        return run

    def _counting(
        self, tally: Tally[Any, Any], count: Callable[[Connection, Any, Any], Awaitable[Any]]
    ) -> Callable[[], Awaitable[bool]]:
        """Return a read that runs the next turn of a tally and publishes its `counts`."""

        async def run() -> bool:
            parts, part, rest = tally.parts, tally.part, tally.rest
            counts = await self._read(lambda conn: count(conn, part, rest))
            if counts is not None and parts is tally.parts:
                tally.add(counts)
                self._publish(counts=tally.counts)
            return counts is not None

        return run

    def _publish(self, **changes: Any) -> None:
        """Change the snapshot, and publish it if it differs."""
        if "slow_s" in self._fields:
            changes["slow_s"] = self._slow_s
        snapshot = replace(self.snapshot, error=self._error, **changes)
        if snapshot != self.snapshot:
            self.snapshot = replace(snapshot, now=self._link.clock.now()) if "now" in self._fields else snapshot
            self._publish_to(self.snapshot)

    def _has_all(self) -> bool:
        """Return whether all requested data have been read; a frozen feed then reads nothing."""
        return not self.snapshot.loading

    def _on_dirty(self, channel: str, payload: str) -> None:
        """Handle a notification. If both texts are empty, some may have been missed."""
        if not channel:
            self.refresh()
            return
        for read in self._reads:
            if read.on(channel, payload):
                if not read.pace.dirty:
                    self._wake.set()
                read.pace.mark(self._now())

    def _due_at(self) -> float | None:
        """Return the time of the next `_step`, by the event loop's clock; None to wait for a wake-up."""
        due = None if self._frozen and self._has_all() else self._most_due()
        return None if due is None else due[0]

    async def _step(self) -> None:
        """Run the read that has been due the longest."""
        due = self._most_due()
        if due is not None:
            await self._perform(due[1])

    @property
    def is_read(self) -> bool:
        """True if no read is due. Screenshots wait for this."""
        due = self._most_due()
        return due is None or due[0] > self._now()

    def _most_due(self) -> tuple[float, FeedRead] | None:
        told = self._link.listens
        wanted = [(read.due_at(told=told), read) for read in self._reads if read.wanted()]
        return min(wanted, key=itemgetter(0), default=None)

    @property
    def late_since(self) -> datetime | None:
        """The time of the oldest data that are shown although newer ones are due; None: all are as they should be."""
        wanted = {read.name: read for read in self._reads if read.wanted()}
        times = [since for name, since in self._late.items() if name in wanted]
        if not self._frozen:
            told, now = self._link.listens, self._now()
            put_off = [name for name, read in wanted.items() if read.pace.is_overdue(now, told=told)]
            times += [self._read_from[name] for name in put_off if name in self._read_from]
        began = self._step_began
        if began is not None and self._now() - began > self._link.patience.slow_s:
            times.append(self._read_at or self._link.clock.now())
        return min(times, default=None)

    async def _perform(self, read: FeedRead) -> bool:
        pace, began, self._asked_s = read.pace, self._now(), 0.0
        pace.begin(began)
        late = self._late.get(read.name)
        done = await self._dated(read.name, read.run())
        # Waiting for a lock does not burden the server, so the read is repeated soon.
        was_blocked = self._answered is False and bool(self._link.status.blockers)
        pace.end(began + self._asked_s, done=done, was_blocked=was_blocked)
        if late is not None and pace.unanswered:
            self._late.setdefault(read.name, late)  # the answer was that of another part
        self._publish()
        return done

    async def _dated(self, name: str, reading: Awaitable[T]) -> T:
        """Await a read, and note the time of its data and whether newer data are late."""
        self._answered = None
        began = self._link.clock.now()
        result = await reading
        if self._answered:
            self._read_from[name] = began
            self._late.pop(name, None)
        elif self._answered is False:
            self._late.setdefault(name, self._read_from.get(name, began))
        return result

    async def _read(self, ask: Callable[[Connection], Awaitable[T]]) -> T | None:
        """Read and return the answer; None if the read failed (see `_error`, `_slow_s`) or was superseded."""
        self._reading_since = self._now()
        self._reading = reading = asyncio.ensure_future(self._link.read(partial(self._ask, ask)))
        try:
            answer = await reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return None
        except SlowRead as error:
            self._slow_s, self._answered = error.waited_s, False
            return None
        except StatementRefused as error:
            self._error, self._refusal = error.message, error
            return None
        except LinkDown:
            self._answered = False  # the status cell reports it
            return None
        finally:
            if self._reading is reading:  # after stop and start, the next read may have begun
                self._reading = None
        self._answered = self._answered is not False
        took = self._now() - self._reading_since
        self._read_at = self._link.clock.now()
        self._error, self._slow_s = None, took if took > self._link.patience.slow_s else None
        return answer

    async def _ask(self, ask: Callable[[Connection], Awaitable[T]], conn: Connection) -> T:
        began = self._now()
        try:
            return await ask(conn)
        finally:
            self._asked_s += self._now() - began

    def _supersede(self) -> None:
        """Cancel the current read, because its result is no longer needed."""
        if self._reading is not None and self._now() - self._reading_since > _SUPERSEDED_AFTER_S:
            self._reading.cancel()

    def _on_status(self, _status: LinkStatus) -> None:
        self._wake.set()

    async def _run(self) -> None:
        task = asyncio.current_task()
        # A cancelled read may still end with an answer or as slow; cancelling the feed must still stop it then.
        while task is not None and not task.cancelling():
            try:
                due = self._next_at()
                if due is not None and due <= self._now():
                    self._refusal, self._step_began = None, self._now()
                    await self._step()
                    self._step_began = None
                    if self._refusal is not None:
                        self._failed(self._refusal)
                    continue
                if self._link.status.is_up and self._now() >= self._retry_at:
                    self._came_through()
            except Exception as error:  # noqa: BLE001 - the feed must not end, which would show LIVE above old rows
                self._step_began = None
                self._failed(error)
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    async def _replay(self, playback: Playback) -> None:
        """Publish the recorded data of the replay's moment instead of reading."""
        self._noted = ""
        end = playback.on_moved(self._wake.set)
        try:
            while True:
                self._wake.clear()
                try:
                    self._show_recorded(playback)
                except Exception as error:  # noqa: BLE001 - the feed must not end, or the replay would stop
                    at = self._link.clock.now()
                    self._link.freshness.report(self, FeedFailure(self.NAME, sentence_with_place(error), at))
                await self._wake.wait()
        finally:
            end()

    def _show_recorded(self, playback: Playback) -> None:
        seen = [(part, playback.look(self.NAME, part)) for part in self.parts()]
        if not seen:
            return  # nothing is requested yet
        changes: dict[str, Any] = {}
        for part, found in seen:
            values = found.values or tuple(getattr(self._empty, field) for field in part.fields)
            changes.update(zip(part.fields, values, strict=True))
        _, first = seen[0]
        # Without its first part a screen has no data, and shows the reason instead of rows.
        self._error = first.note if first.values is None else None
        note = "" if self._error else "; ".join(dict.fromkeys(found.note for _, found in seen if found.note))
        if note != self._noted:  # each report would wake all feeds
            self._noted = note
            since = first.at or self._link.clock.now()
            self._link.freshness.report(self, FeedFailure(self.NAME, note, since) if note else None)
        snapshot = replace(self.snapshot, error=self._error, loading=first.values is None, **changes)
        if snapshot != self.snapshot:
            self.snapshot = replace(snapshot, now=first.at) if "now" in self._fields else snapshot
            self._publish_to(self.snapshot)

    def _next_at(self) -> float | None:
        if not self._link.status.is_up:
            return None
        return self._retry_at if self._retry_at > self._now() else self._due_at()

    def _failed(self, error: Exception) -> None:
        """Report the failure, and schedule another read of everything after a pause."""
        now, lacks = self._link.clock.now(), self._link.status.lacks
        # Missing tables are not reported for a feed without data, because its view names the missing tables.
        if self._read_at is not None or not any(lack in str(error) for lack in lacks):
            self._link.freshness.report(self, FeedFailure(self.NAME, sentence_with_place(error), self._read_at or now))
        self._retry_at = self._now() + self._retry_pause_s
        self._retry_pause_s = min(2 * self._retry_pause_s, _LONGEST_RETRY_S)
        self._on_dirty("", "")

    def _came_through(self) -> None:
        """Reset the failure, because all reads have succeeded."""
        if self._retry_pause_s > _FIRST_RETRY_S:
            self._retry_pause_s = _FIRST_RETRY_S
            self._link.freshness.report(self, None)

    def _retry_now(self) -> None:
        self._retry_at, self._retry_pause_s = 0.0, min(self._retry_pause_s, 2 * _FIRST_RETRY_S)
        self._wake.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class StoryFeed(Feed[SnapshotT]):
    """The feed of one task or workflow. It does not read until one is requested."""

    def __init__(self, link: DatabaseLink, publish: Callable[[SnapshotT], None], empty: SnapshotT) -> None:
        super().__init__(link, publish, empty)
        self._text = ""
        """The requested id, or its beginning or end."""

    def pause(self) -> None:
        """Stop reading until the next request. The published data stay, and the answer to a running read is dropped."""
        self._text = ""
        self._supersede()

    def resume(self, text: str) -> None:
        """Continue after the pause with the previous data."""
        self._text = text
        self.refresh()
