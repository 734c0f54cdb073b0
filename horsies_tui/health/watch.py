"""Reads the alerts for the terminal's title and bell, whichever screen is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.health.alerts import Level, alerts
from horsies_tui.health.glance_reader import GlanceReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from horsies.findings.diagnose import Report
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.recorded import SnapshotPart
    from horsies_tui.health.alerts import Alert
    from horsies_tui.health.glance import Glance

WATCH_EVERY: Final = Rhythm(tick_s=10.0, poll_s=10.0, reconcile_s=10.0, slow_factor=100.0)
FIRST_AFTER_S: Final = 3.0
"""Delay of the first read, so that the first rows of the screen are read before."""
FORGOTTEN_AFTER: Final = timedelta(minutes=5)
"""An alert that returns within this time is not new; a queue may fluctuate around its limit."""


@dataclass(frozen=True, slots=True)
class WatchSnapshot:
    glance: Glance | None = None
    loading: bool = True
    error: str | None = None


class WatchFeed(Feed[WatchSnapshot]):
    """The feed, which runs while the database is open."""

    NAME = "alerts"

    def __init__(self, link: DatabaseLink, publish: Callable[[WatchSnapshot], None]) -> None:
        super().__init__(link, publish, WatchSnapshot())
        reader = GlanceReader()
        run = self._query(
            lambda: None,
            lambda conn, _: reader.read(conn, link.clock.now()),
            lambda glance: {"glance": glance, "loading": False},
        )
        self._look = FeedRead("glance", run, ReadPace(WATCH_EVERY), on=lambda _channel, _payload: False)
        self._reads = (self._look,)

    def parts(self) -> tuple[SnapshotPart, ...]:
        """Return no parts. A replay rings no bell, and the overview's feed records the same data."""
        return ()

    def start(self) -> None:
        self._look.not_before = asyncio.get_running_loop().time() + FIRST_AFTER_S
        super().start()


class AlertWatch:
    """The alerts of one database. Decides which of them are new."""

    def __init__(self, targets: Mapping[str, float]) -> None:
        self._targets = targets
        self._seen: tuple[Glance, Report] | None = None
        self._known: dict[str, datetime] = {}
        """Time at which each alert was last raised, by id."""
        self.alerts: tuple[Alert, ...] | None = None
        """The alerts without notes, worst first; None before they are read."""

    def judge(self, glance: Glance | None, report: Report | None) -> bool:
        """Return whether an alert is new since the last call. The alerts of the first call are not new."""
        if glance is None or report is None or (glance, report) == self._seen:
            return False
        self._seen, before = (glance, report), self.alerts
        began = {one.id: one.failing_since for one in before or () if one.failing_since is not None}
        found = alerts(replace(glance, report=report), self._targets, began)
        self.alerts = tuple(alert for alert in found if alert.level is not Level.NOTE)
        known = {name for name, at in self._known.items() if glance.now - at < FORGOTTEN_AFTER}
        self._known |= dict.fromkeys((alert.id for alert in self.alerts), glance.now)
        # Alerts that had been merged into one had the id of their rule.
        return before is not None and any({one.id, one.id.partition("\t")[0]}.isdisjoint(known) for one in self.alerts)
