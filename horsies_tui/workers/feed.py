"""The feed of the workers screen: all workers, and for the one under the cursor its tasks and its history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from horsies.query import TaskConditions
from horsies.views import Sort, task_page, worker_rows
from horsies.views.reader_session import tables
from horsies.views.series import worker_series
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.health.windows import USUAL, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies.views import TaskRow, WorkerRow
    from horsies.views.series import WorkerPoint
    from horsies_tui.feed.link import DatabaseLink

OFTEN: Final = Rhythm(tick_s=1.0, poll_s=2.0, reconcile_s=2.0, slow_factor=10.0)
"""500 workers send 100 notifications a second; a lost worker sends none, so the list is read every two seconds."""
_PAUSE_S: Final = 0.12
"""Workers that the cursor passes quickly are not read."""
MOST_HELD: Final = 200
_LATELY: Final = timedelta(hours=1)
_OF_WORKERS: Final = "horsies_worker_state"
_CHANNELS: Final = frozenset({_OF_WORKERS, "horsies_task_status"})
_HELD: Final = ("CLAIMED", "RUNNING")


@dataclass(frozen=True, slots=True)
class WorkersNeed:
    """The request of the screen. `everyone`: also workers that were lost or stopped more than an hour ago."""

    everyone: bool = False
    selected: str | None = None
    window: Window = USUAL


@dataclass(frozen=True, slots=True)
class OneWorker:
    """The details of one worker."""

    id: str
    tasks: tuple[TaskRow, ...]
    """Running tasks first, then by the time since they were claimed."""
    more: bool
    """There are more than these."""
    window: Window
    points: tuple[WorkerPoint, ...]


@dataclass(frozen=True, slots=True)
class WorkersSnapshot:
    """All workers; the details may still be those of the previously requested worker."""

    rows: tuple[WorkerRow, ...] = ()
    read_at: datetime | None = None
    """The database's time when the rows were read; None before the first read."""
    everyone: bool = False
    one: OneWorker | None = None
    loading: bool = True
    slow_s: float | None = None
    error: str | None = None


class WorkersFeed(Feed[WorkersSnapshot]):
    NAME = "workers"

    def __init__(
        self, link: DatabaseLink, publish: Callable[[WorkersSnapshot], None], *, rhythm: Rhythm = OFTEN
    ) -> None:
        super().__init__(link, publish, WorkersSnapshot())
        self._need = WorkersNeed()
        self._all = FeedRead(
            "workers",
            self._query(lambda: self._need.everyone, self._read_all, lambda changes: changes),
            ReadPace(rhythm),
            on=lambda channel, _payload: channel in _CHANNELS,
            wanted=lambda: not self._frozen or self.snapshot.loading,
        )
        self._one = FeedRead(
            "one worker",
            self._query(lambda: (self._need.selected, self._need.window), _read_one, lambda one: {"one": one}),
            ReadPace(rhythm),
            on=self._is_about_one,
            wanted=lambda: self._need.selected is not None,
        )
        self._reads = (self._all, self._one)

    def ask(self, need: WorkersNeed) -> None:
        """Serve this need from now on."""
        before, self._need = self._need, need
        if need.everyone is not before.everyone:
            self._all.pace.renew()
        if replace(need, everyone=before.everyone) != before:
            if before.selected is not None and need.selected != before.selected:
                self._one.not_before = self._now() + _PAUSE_S
            self._one.pace.renew()
        self._wake.set()

    def parts(self) -> Iterator[SnapshotPart]:
        now, need = self.snapshot, self._need
        everyone = "everyone" if need.everyone else "of the last hour"
        fields = ("rows", "read_at", "everyone")
        yield SnapshotPart(
            "rows", fields, (everyone,), now.everyone is need.everyone and not now.loading, "this list of workers"
        )
        if need.selected is not None:
            one = now.one
            read = one is not None and (one.id, one.window) == (need.selected, need.window)
            yield SnapshotPart("one", ("one",), (need.selected, need.window.name), read, "what this worker holds")

    def _is_about_one(self, channel: str, payload: str) -> bool:
        return channel in _CHANNELS and (channel != _OF_WORKERS or payload == self._need.selected)

    def _has_all(self) -> bool:
        """Return whether all is read; on a frozen screen the cursor may still go to a worker with unread details."""
        need, one = self._need, self.snapshot.one
        missing = need.selected is not None and (one is None or (one.id, one.window) != (need.selected, need.window))
        return super()._has_all() and not missing

    async def _read_all(self, conn: Connection, everyone: bool) -> dict[str, Any]:
        now = (await tables(conn)).now
        rows = await worker_rows(conn, gone_within=None if everyone else _LATELY)
        return {"rows": rows, "read_at": now, "everyone": everyone, "loading": False}


async def _read_one(conn: Connection, request: tuple[str | None, Window]) -> OneWorker:
    worker_id, window = request[0] or "", request[1]
    wanted = TaskConditions(_HELD).among("worker", (worker_id,))
    page = await task_page(conn, wanted, sort=Sort.OLDEST, limit=MOST_HELD)
    points = await worker_series(conn, worker_id, window.buckets(page.now))
    tasks = tuple(sorted(page.rows, key=lambda row: (row.started_at is None, row.started_at or row.created_at)))
    return OneWorker(worker_id, tasks, page.next is not None, window, points)
