"""The feed of the workers screen: all workers, and for the one under the cursor its tasks and its history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from horsies.query import TaskConditions
from horsies.views import Sort, task_page, worker_rows
from horsies.views.series import worker_series
from horsies.views.tables import tables
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.pace import Pace, Rhythm
from horsies_tui.health.windows import USUAL, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies.views import TaskRow, WorkerRow
    from horsies.views.series import WorkerPoint
    from horsies_tui.feed.link import Link

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
    """What the screen requests. `everyone`: also workers that were lost or stopped more than an hour ago."""

    everyone: bool = False
    selected: str | None = None
    window: Window = USUAL


@dataclass(frozen=True, slots=True)
class OneWorker:
    """The details of one worker."""

    id: str
    held: tuple[TaskRow, ...]
    """Running tasks first, then by the time since they were claimed."""
    more: bool
    """There are more than these."""
    window: Window
    points: tuple[WorkerPoint, ...]


@dataclass(frozen=True, slots=True)
class WorkersSnapshot:
    """All workers; the details may still be those of the previously requested worker."""

    rows: tuple[WorkerRow, ...] = ()
    now: datetime | None = None
    """The database's time when the rows were read; None before the first read."""
    everyone: bool = False
    one: OneWorker | None = None
    loading: bool = True
    slow_s: float | None = None
    error: str | None = None


class WorkersFeed(Feed):
    NAME = "workers"

    def __init__(self, link: Link, publish: Callable[[WorkersSnapshot], None], *, rhythm: Rhythm = OFTEN) -> None:
        super().__init__(link)
        self.snapshot = WorkersSnapshot()
        self._publish_to = publish
        self._need = WorkersNeed()
        self._all, self._one = Pace(rhythm), Pace(rhythm)
        self._not_before = 0.0

    def ask(self, need: WorkersNeed) -> None:
        """Serve this need from now on."""
        before, self._need = self._need, need
        if need.everyone is not before.everyone:
            self._all.renew()
        if replace(need, everyone=before.everyone) != before:
            if before.selected is not None and need.selected != before.selected:
                self._not_before = self._now() + _PAUSE_S
            self._one.renew()
        self._wake.set()

    def refresh(self) -> None:
        """Read all of it now."""
        self._all.renew()
        self._one.renew()
        self._wake.set()

    def _on_dirty(self, channel: str, payload: str) -> None:
        if not channel:
            self.refresh()
            return
        if channel not in _CHANNELS:
            return
        if channel != _OF_WORKERS or payload == self._need.selected:
            self._one.mark()
        if not self._all.dirty:
            self._all.mark()
            self._wake.set()

    def _due_at(self) -> float | None:
        told = self._link.listens
        if self._frozen and not self.snapshot.loading:
            return self._one_due_at(told=told) if self._one_is_missing else None
        due = self._all.due_at(told=told)
        return due if self._need.selected is None else min(due, self._one_due_at(told=told))

    def _one_due_at(self, *, told: bool) -> float:
        return max(self._one.due_at(told=told), self._not_before)

    @property
    def _one_is_missing(self) -> bool:
        """Whether the requested worker has not been read yet."""
        need, one = self._need, self.snapshot.one
        return need.selected is not None and (one is None or (one.id, one.window) != (need.selected, need.window))

    async def _step(self) -> None:
        now = self._now()
        stands_still = self._frozen and not self.snapshot.loading
        if not stands_still and self._all.due_at(told=self._link.listens) <= now:
            await self._read_all()
        else:
            await self._read_one()

    async def _read_all(self) -> None:
        everyone = self._need.everyone

        async def ask(conn: Connection) -> tuple[tuple[WorkerRow, ...], datetime]:
            now = (await tables(conn)).now
            return await worker_rows(conn, gone_within=None if everyone else _LATELY), now

        self._all.begin(self._now())
        answer = await self._read(ask)
        self._all.end(self._now(), done=answer is not None)
        if answer is None:
            self._tell()
        else:
            rows, now = answer
            self._tell(rows=rows, now=now, everyone=everyone, loading=False)

    async def _read_one(self) -> None:
        need = self._need
        worker_id = need.selected or ""
        wanted = TaskConditions(_HELD).among("worker", (worker_id,))

        async def ask(conn: Connection) -> OneWorker:
            page = await task_page(conn, wanted, sort=Sort.OLDEST, limit=MOST_HELD)
            points = await worker_series(conn, worker_id, need.window.buckets(page.now))
            held = tuple(sorted(page.rows, key=lambda row: (row.started_at is None, row.started_at or row.created_at)))
            return OneWorker(worker_id, held, page.next is not None, need.window, points)

        self._one.begin(self._now())
        one = await self._read(ask)
        if need.selected == self._need.selected:
            self._one.end(self._now(), done=one is not None)
        self._tell(**({} if one is None else {"one": one}))

    def _tell(self, **changes: Any) -> None:
        snapshot = replace(self.snapshot, error=self._error, slow_s=self._slow_s, **changes)
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self._publish_to(snapshot)
