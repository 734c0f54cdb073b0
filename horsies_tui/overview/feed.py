"""The feed of the overview. It reads the state every few seconds, and the history once, then only its newest part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.views import chart_marks, cluster_series, task_series
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import GRACE_S, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.health.glance_reader import GlanceReader
from horsies_tui.health.history import History, Series
from horsies_tui.health.windows import USUAL, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.store.connect import Connection
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.health.glance import Glance

NOW_EVERY: Final = Rhythm(tick_s=2.0, poll_s=2.0, reconcile_s=5.0, slow_factor=10.0, grace_s=GRACE_S)
"""Rhythm of the current state; numbers that change faster could not be read by a person."""
PAST_EVERY: Final = Rhythm(tick_s=5.0, poll_s=5.0, reconcile_s=5.0, slow_factor=50.0)
"""Rhythm of the history: as often as workers store a snapshot. Each changed point redraws a chart."""


@dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """The data of the overview; None before they are read. The application reads the recovery report separately."""

    glance: Glance | None = None
    window: Window = USUAL
    series: Series | None = None
    loading: bool = True
    error: str | None = None
    slow_s: float | None = None


class OverviewFeed(Feed[OverviewSnapshot]):
    """The feed. `look_at` selects the time window; the data of other windows are kept."""

    NAME = "overview"

    def __init__(
        self,
        link: DatabaseLink,
        publish: Callable[[OverviewSnapshot], None],
        *,
        window: Window = USUAL,
        now_every: Rhythm = NOW_EVERY,
        past_every: Rhythm = PAST_EVERY,
    ) -> None:
        super().__init__(link, publish, OverviewSnapshot(window=window))
        self._histories: dict[Window, History] = {}
        self._reader = GlanceReader()
        now = self._query(lambda: None, self._glance, lambda glance: {"glance": glance})
        past = self._query(lambda: self.snapshot.window, self._series, lambda series: {"series": series})
        self._past = FeedRead("past", past, ReadPace(past_every), on=lambda _channel, _payload: False)
        self._reads = (FeedRead("now", now, ReadPace(now_every)), self._past)

    def parts(self) -> tuple[SnapshotPart, ...]:
        now, window = self.snapshot, self.snapshot.window
        charts = f"the window {window.name}"
        return (
            SnapshotPart("glance", ("glance",), ready=now.glance is not None),
            SnapshotPart("series", ("series",), (window.name,), ready=now.series is not None, what=charts),
        )

    def look_at(self, window: Window) -> None:
        """Publish the known data of this window at once, and read the missing ones."""
        if window == self.snapshot.window:
            return
        history = self._histories.get(window)
        known = None if history is None else history.series(window.buckets(self._link.clock.now()))
        self._publish(window=window, series=known, loading=True)
        self._supersede()
        self._past.pace.renew()
        self._wake.set()

    async def _glance(self, conn: Connection, _: None) -> Glance:
        return await self._reader.read(conn, self._link.clock.now())

    async def _series(self, conn: Connection, window: Window) -> Series:
        history = self._histories.setdefault(window, History())
        buckets = window.buckets(self._link.clock.now())
        missing = history.missing(buckets)
        history.put(buckets, await task_series(conn, missing), await cluster_series(conn, missing))
        return history.series(buckets, await chart_marks(conn, buckets))

    def _publish(self, **changes: Any) -> None:
        known = {"glance": self.snapshot.glance, "series": self.snapshot.series, **changes}
        super()._publish(**{"loading": known["glance"] is None or known["series"] is None, **changes})
