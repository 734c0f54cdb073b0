"""The feed of the overview: the current state every few seconds; the history once, then only its newest part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from horsies.views import (
    Clock,
    cluster_series,
    failures,
    queue_rates,
    queue_rows,
    task_series,
    worker_clocks,
    worker_rows,
)
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.pace import Pace, Rhythm
from horsies_tui.health.glance import Glance
from horsies_tui.health.history import History, Series
from horsies_tui.health.windows import USUAL, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.store.connect import Connection
    from horsies.views import ClusterPoint, TaskPoint
    from horsies_tui.feed.link import Link

NOW_EVERY: Final = Rhythm(tick_s=2.0, poll_s=2.0, reconcile_s=5.0, slow_factor=20.0)
"""More frequent numbers cannot be read; with 500 workers and 40,000 waiting tasks one read takes 25 ms."""
PAST_EVERY: Final = Rhythm(tick_s=5.0, poll_s=5.0, reconcile_s=5.0, slow_factor=50.0)
"""As often as workers store a snapshot. Each changed point sends a chart to the terminal again."""


@dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """`glance` lacks the recovery report, which the application reads for its header. None: not read yet."""

    glance: Glance | None = None
    window: Window = USUAL
    series: Series | None = None
    loading: bool = True
    error: str | None = None
    slow_s: float | None = None


class OverviewFeed(Feed):
    """`look_at` selects the time window; data of other windows are kept for when they are selected again."""

    NAME = "overview"

    def __init__(
        self,
        link: Link,
        publish: Callable[[OverviewSnapshot], None],
        *,
        window: Window = USUAL,
        now_every: Rhythm = NOW_EVERY,
        past_every: Rhythm = PAST_EVERY,
    ) -> None:
        super().__init__(link)
        self.snapshot = OverviewSnapshot(window=window)
        self._publish_to = publish
        self._histories: dict[Window, History] = {}
        self._clocks: tuple[Clock, ...] = ()
        self._known: frozenset[str] = frozenset()
        self._now_pace, self._past_pace = Pace(now_every), Pace(past_every)

    def look_at(self, window: Window) -> None:
        """Publish at once what is known of this window, and read what is missing."""
        if window == self.snapshot.window:
            return
        history = self._histories.get(window)
        buckets = window.buckets(self._link.clock.now())
        known = None if history is None else history.series(buckets)
        self._publish(replace(self.snapshot, window=window, series=known, loading=True))
        self._supersede()
        self._past_pace.renew()
        self._wake.set()

    def refresh(self) -> None:
        """Read it now."""
        self._now_pace.renew()
        self._past_pace.renew()
        self._wake.set()

    def _on_dirty(self, channel: str, _payload: str) -> None:
        if not channel:
            self.refresh()
        elif not self._now_pace.dirty:
            self._now_pace.mark()
            self._wake.set()

    def _due_at(self) -> float | None:
        if self._frozen and not self.snapshot.loading:
            return None
        told = self._link.listens
        return min(self._now_pace.due_at(told=told), self._past_pace.due_at(told=told))

    async def _step(self) -> None:
        told = self._link.listens
        # The read that has been due longest goes first: where reads are slow, neither may starve the other.
        if self._now_pace.due_at(told=told) <= self._past_pace.due_at(told=told):
            await self._read_now()
        else:
            await self._read_past()

    async def _read_now(self) -> None:
        self._now_pace.begin(self._now())
        glance = await self._read(self._glance)
        self._now_pace.end(self._now(), done=glance is not None)
        self._publish_known(replace(self.snapshot, glance=glance or self.snapshot.glance))

    async def _glance(self, conn: Connection) -> Glance:
        workers = await worker_rows(conn)
        known = frozenset(row.id for row in workers)
        if known != self._known:  # a worker stores its clock once, when it starts
            self._clocks, self._known = await worker_clocks(conn), known
        return Glance(
            now=self._link.clock.now(),
            workers=workers,
            queues=await queue_rows(conn),
            rates=await queue_rates(conn),
            failures=await failures(conn),
            clocks=self._clocks,
        )

    async def _read_past(self) -> None:
        window = self.snapshot.window
        history = self._histories.setdefault(window, History())
        buckets = window.buckets(self._link.clock.now())
        missing = history.missing(buckets)
        self._past_pace.begin(self._now())

        async def ask(conn: Connection) -> tuple[tuple[TaskPoint, ...], tuple[ClusterPoint, ...]]:
            return await task_series(conn, missing), await cluster_series(conn, missing)

        found = await self._read(ask)
        self._past_pace.end(self._now(), done=found is not None)
        if found is None:
            self._publish_known(self.snapshot)
            return
        history.put(buckets, *found)
        if window == self.snapshot.window:
            self._publish_known(replace(self.snapshot, series=history.series(buckets)))

    def _publish_known(self, snapshot: OverviewSnapshot) -> None:
        loading = snapshot.glance is None or snapshot.series is None
        self._publish(replace(snapshot, loading=loading, error=self._error, slow_s=self._slow_s))

    def _publish(self, snapshot: OverviewSnapshot) -> None:
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self._publish_to(snapshot)
