"""The base of all feeds: one task that runs a feed's reads when they are due, as long as a screen shows the data."""

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
"""Cancelling a statement takes a connection of its own, so a read younger than this is awaited instead."""
_FIRST_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 5.0


class FeedSnapshot(Protocol):
    """The base of what a feed publishes: a frozen dataclass.

    A field `slow_s`, if it has one, is how long the last read took or has lasted (None: it was quick); `now` is the
    database's time when the snapshot was published.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def loading(self) -> bool:
        """True until all that was requested has been read."""

    @property
    def error(self) -> str | None:
        """One line; the rest is as it was read before."""


T = TypeVar("T")
RequestT = TypeVar("RequestT")
SnapshotT = TypeVar("SnapshotT", bound=FeedSnapshot)


def _always(*_: str) -> bool:
    return True


@dataclass
class FeedRead:
    """One kind of read of a feed, run when it is due; of several that are due, the one that has been for longest."""

    name: str
    run: Callable[[], Awaitable[bool]]
    """Reads and publishes. False: it failed or was superseded, and is still due."""
    pace: ReadPace
    """When it is due: after a change, at an interval, or at once because it was requested."""
    on: Callable[[str, str], bool] = _always
    """Whether a notification (channel, payload) means that its data may have changed."""
    wanted: Callable[[], bool] = _always
    """Whether what is shown needs it now."""
    due: Callable[[], float] | None = None
    """When it is due, if that is not only a matter of its pace."""
    not_before: float = 0.0

    def due_at(self, *, told: bool) -> float:
        return max(self.pace.due_at(told=told) if self.due is None else self.due(), self.not_before)


class Feed(Generic[SnapshotT]):
    """Reads only between `start` and `stop`. A subclass declares `_reads` and the methods by which its view requests.

    A step that fails, because the database refused it or because of a bug, is reported to the link, whose status names
    it, and is repeated with growing pauses; `ctrl+r` repeats it at once.
    """

    NAME: ClassVar[str]
    """The name of the view that the feed serves."""

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
        """How long the reads of the present step had the connection, which others may have held up before."""
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._frozen = False
        self._refusal: StatementRefused | None = None
        self._noted = ""
        """What a replay says of this feed."""
        self._read_at: datetime | None = None
        self._answered: bool | None = None
        """Whether the reads of the present step were answered; None: there was none, or nobody wants its answer."""
        self._read_from: dict[str, datetime] = {}
        """By the name of a read, the time of the data that it published last."""
        self._late: dict[str, datetime] = {}
        """By the name of a read whose last answer did not come in time, the time of the data that are still shown."""
        self._step_began: float | None = None
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
            self._late.clear()
            link.freshness.attend(self)
            playback = link.playback
            run = self._run() if playback is None else self._replay(playback)
            self._task = asyncio.get_running_loop().create_task(run)
            if link.tape is not None:
                link.tape.watch(self)

    def stop(self) -> None:
        """Stop reading; no screen shows the data."""
        if self._task is not None:
            for end in self._subscriptions:
                end()
            self._task.cancel()
            self._task = self._step_began = None
            self._link.freshness.leave(self)
            if self._link.tape is not None:
                self._link.tape.unwatch(self)

    def freeze(self, on: bool) -> None:
        """Read only what is newly requested; or resume and read what has changed meanwhile."""
        self._frozen = on
        if not on:
            self._on_dirty("", "")
        elif self._reading is not None:
            self._reading.cancel()  # its answer would be of a later moment than the one the view says it stands at
        self._wake.set()

    def refresh(self) -> None:
        """Read everything again at once."""
        for read in self._reads:
            read.pace.renew()
        self._wake.set()

    def distrust(self) -> None:
        """Show what was read until now as old until it has been read again: it came from a standby that lagged."""
        self._late |= self._read_from
        self.refresh()
        for read in self._reads:
            read.pace.distrust()

    def parts(self) -> Iterable[SnapshotPart]:
        """Return the parts of the snapshot to record, by what is requested now. A replay shows nothing else."""
        return ()

    # For subclasses.

    def _query(
        self,
        request: Callable[[], RequestT],
        ask: Callable[[Connection, RequestT], Awaitable[T | None]],
        put: Callable[[T], Mapping[str, Any]],
    ) -> Callable[[], Awaitable[bool]]:
        """A read of what is requested at its start; `put` makes changes of the snapshot of the answer.

        The answer is dropped if it is None, or if something else is requested by then.
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
        """The next turn of a tally, published as `counts`."""

        async def run() -> bool:
            parts, part, rest = tally.parts, tally.part, tally.rest
            counts = await self._read(lambda conn: count(conn, part, rest))
            if counts is not None and parts is tally.parts:
                tally.add(counts)
                self._publish(counts=tally.counts)
            return counts is not None

        return run

    def _publish(self, **changes: Any) -> None:
        """Publish the snapshot with these changes, if it differs."""
        if "slow_s" in self._fields:
            changes["slow_s"] = self._slow_s
        snapshot = replace(self.snapshot, error=self._error, **changes)
        if snapshot != self.snapshot:
            self.snapshot = replace(snapshot, now=self._link.clock.now()) if "now" in self._fields else snapshot
            self._publish_to(self.snapshot)

    def _has_all(self) -> bool:
        """Return whether all that was requested has been read; then a frozen feed reads nothing."""
        return not self.snapshot.loading

    def _on_dirty(self, channel: str, payload: str) -> None:
        """A notification; two empty texts: some may have been missed."""
        if not channel:
            self.refresh()
            return
        for read in self._reads:
            if read.on(channel, payload):
                if not read.pace.dirty:
                    self._wake.set()
                read.pace.mark(self._now())

    def _due_at(self) -> float | None:
        """Return when to call `_step`, by the loop's clock; None: not until woken."""
        due = None if self._frozen and self._has_all() else self._most_due()
        return None if due is None else due[0]

    async def _step(self) -> None:
        """Run the read that has been due for longest."""
        due = self._most_due()
        if due is not None:
            await self._perform(due[1])

    @property
    def is_read(self) -> bool:
        """True if no read is due at this moment; a picture must not be taken before."""
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
        # Waiting for a lock costs the server nothing, so the read is repeated soon.
        was_blocked = self._answered is False and bool(self._link.status.blockers)
        pace.end(began + self._asked_s, done=done, was_blocked=was_blocked)
        if late is not None and pace.unanswered:
            self._late.setdefault(read.name, late)  # the answer was that of another part
        self._publish()
        return done

    async def _dated(self, name: str, reading: Awaitable[T]) -> T:
        """Note of which time the data of this read are, and whether newer ones are late."""
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
        """Read and return the answer. None: the read failed, see `_error` and `_slow_s`, or it was superseded."""
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
            if self._reading is reading:  # after a stop and a start, the next read may have begun
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
                    self._refusal, self._step_began = None, self._now()
                    await self._step()
                    self._step_began = None
                    if self._refusal is not None:
                        self._failed(self._refusal)
                    continue
                if self._link.status.is_up and self._now() >= self._retry_at:
                    self._came_through()
            except Exception as error:  # noqa: BLE001 - a feed that ended here would leave LIVE above old rows
                self._step_began = None
                self._failed(error)
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    async def _replay(self, playback: Playback) -> None:
        """Publish, in place of reads, what the recording has of the present moment."""
        self._noted = ""
        end = playback.on_moved(self._wake.set)
        try:
            while True:
                self._wake.clear()
                try:
                    self._show_recorded(playback)
                except Exception as error:  # noqa: BLE001 - a feed that ended here would show this moment for ever
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
        # Without its first part a screen has nothing to show, and says why in place of rows.
        self._error = first.note if first.values is None else None
        note = "" if self._error else "; ".join(dict.fromkeys(found.note for _, found in seen if found.note))
        if note != self._noted:  # each report wakes all feeds
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
        """Report the failure, and read everything again after a pause."""
        now, lacks = self._link.clock.now(), self._link.status.lacks
        # Missing tables are no failure of a feed that has shown nothing yet: the view itself reports what is missing.
        if self._read_at is not None or not any(lack in str(error) for lack in lacks):
            self._link.freshness.report(self, FeedFailure(self.NAME, sentence_with_place(error), self._read_at or now))
        self._retry_at = self._now() + self._retry_pause_s
        self._retry_pause_s = min(2 * self._retry_pause_s, _LONGEST_RETRY_S)
        self._on_dirty("", "")

    def _came_through(self) -> None:
        """All reads are done and none failed."""
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
    """The feed of one task or workflow. Reads nothing until one is requested."""

    def __init__(self, link: DatabaseLink, publish: Callable[[SnapshotT], None], empty: SnapshotT) -> None:
        super().__init__(link, publish, empty)
        self._text = ""
        """What is requested: an id, or its beginning or end."""

    def pause(self) -> None:
        """Read nothing until the next request; what is published stays, and an answer under way is dropped."""
        self._text = ""
        self._supersede()

    def resume(self, text: str) -> None:
        """Go on with what was read before the pause."""
        self._text = text
        self.refresh()
