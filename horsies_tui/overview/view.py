"""The overview screen: verdict, queues, alerts and charts. Each number opens the rows that it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from textual import on
from textual.containers import Horizontal

from horsies.domain.quantities import counted, span
from horsies.operations.selection import Selection
from horsies.operations.verb import QueueVerb
from horsies.operations.verbs import VERBS
from horsies.views import RATES_OVER
from horsies_tui.actions import Scope, bindings, bindings_of, key_for
from horsies_tui.feed.report import RecoverySnapshot
from horsies_tui.health.alerts import Alert, Level, alerts
from horsies_tui.health.figure_filters import rows_of_number
from horsies_tui.health.verdict import verdict
from horsies_tui.health.windows import fitting, neighbour
from horsies_tui.intents import Intent
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import age, zone_of
from horsies_tui.overview.feed import OverviewFeed, OverviewSnapshot
from horsies_tui.overview.rows import (
    ALERT_COLUMNS,
    ALL,
    QUEUE_COLUMNS,
    QUEUE_NUMBERS,
    QueueLine,
    charts_of,
    queue_lines,
)
from horsies_tui.view import ConsoleView
from horsies_tui.widgets.chart_grid import LEAST_HEIGHT, ChartGrid
from horsies_tui.widgets.number_table import NumberTable
from horsies_tui.widgets.plain import LineCell
from horsies_tui.widgets.rows_view import set_height

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from horsies.findings.diagnose import Report
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.health.glance import Glance
    from horsies_tui.health.history import Series

_Published: TypeAlias = OverviewSnapshot | RecoverySnapshot
"""The snapshots that this view draws: those of its feed, and the application's recovery reports."""

_NARROW: Final = 100
_CHART_COLUMNS: Final = (2, 3)
_CHARTS: Final = 6
_LOW: Final = 34
"""Height below which the lists get more room than the charts."""
_SHARE: Final = (0.4, 0.5)
"""The charts' share of the height on a low screen and on others."""
_MOST_QUEUES: Final = 0.4
"""The largest share of the height for the queue list, which takes one line per queue."""
_NOTHING_YET: Final = "No charts yet: they start with the first worker or task; {} widens the window."
_CLASSES: Final = {Level.CRITICAL: "-critical", Level.DEGRADED: "-degraded", Level.NOTE: "-healthy"}


class OverviewView(ConsoleView[_Published]):
    """The overview. Its parts take the focus: queues, alerts, charts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.OVERVIEW),
        *bindings_of("verbs.undo", "verbs.outcome"),
    ]

    DEFAULT_CSS = """
    OverviewView {
        #verdict-line { height: 1; padding: 0 1; }
        #verdict { width: 1fr; text-style: bold; }
        #verdict.-critical, #verdict.-unknown { color: $text-error; }
        #verdict.-degraded { color: $text-warning; }
        #verdict.-healthy { color: $text-success; }
        #window { color: $text-muted; padding: 0 0 0 2; }
        #alerts-title { width: 1fr; padding: 0 1; color: $text-muted; }
        #alerts { height: 1fr; }
        NumberTable.-old, ChartGrid.-old { text-style: dim; }
    }
    """

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._snapshot = OverviewSnapshot()
        self._report: Report | None = None
        self._judges = False
        """False until the first recovery report or the second read; until then there is no verdict and no alert."""
        self._alerts: tuple[Alert, ...] = ()
        self._is_unknown = False
        """True if the verdict was drawn as UNKNOWN."""
        self._began: datetime | None = None
        """The time of the oldest known data."""
        self._window_chosen = False
        with Horizontal(id="verdict-line"):
            yield LineCell(id="verdict")
            yield LineCell(id="window")
        yield ChartGrid(self._glyphs, id="charts")
        yield NumberTable[QueueLine](QUEUE_COLUMNS, QUEUE_NUMBERS, glyphs=self._glyphs, id="queues")
        yield LineCell(id="alerts-title")
        yield NumberTable[Alert](ALERT_COLUMNS, glyphs=self._glyphs, id="alerts")

    def on_mount(self) -> None:
        self._say_window(self._snapshot)

    def create_feed(self, link: DatabaseLink, publish: Callable[[_Published], None]) -> OverviewFeed:
        return OverviewFeed(link, publish)

    @property
    def queues(self) -> NumberTable[QueueLine]:
        return self.query_one("#queues", NumberTable)

    @property
    def alert_table(self) -> NumberTable[Alert]:
        return self.query_one("#alerts", NumberTable)

    @property
    def charts(self) -> ChartGrid:
        return self.query_one(ChartGrid)

    @property
    def parts(self) -> tuple[Widget, ...]:
        """Return the parts in the order of `tab`."""
        return (self.queues, self.alert_table, self.charts)

    # Drawing.

    def draw(self, snapshot: _Published) -> None:
        if isinstance(snapshot, RecoverySnapshot):
            self._report = snapshot.report
            self._judges |= snapshot.report is not None or snapshot.error is not None
        else:
            before, self._snapshot = self._snapshot, snapshot
            self._judges |= before.glance is not None and snapshot.glance is not before.glance
            self._say_window(snapshot)
            if snapshot.series is not None and (snapshot.series, snapshot.glance) != (before.series, before.glance):
                self._show_charts(snapshot.series)
        self._show_verdict()

    def _show_charts(self, series: Series) -> None:
        if self._fit_window(series):
            return  # the charts of the new window follow
        charts = charts_of(series, self._snapshot.window, self._glyphs.dash, self._snapshot.glance)
        nothing = _NOTHING_YET.format(key_for("overview.longer", self.screen, self._glyphs))
        self.charts.show(charts, series.buckets, zone=zone_of(utc=self.console.utc), nothing=nothing)
        self._arrange(len(self.queues.rows))

    def _fit_window(self, series: Series) -> bool:
        """Fit the window to the age of the data, until the operator chooses one. Return whether it has changed."""
        if self._window_chosen or not isinstance(self.feed, OverviewFeed):
            return False
        known = [moment for moment in (self._began, series.began) if moment is not None]
        self._began = min(known, default=None)
        window = fitting(None if self._began is None else self.now - self._began)
        if window is self._snapshot.window:
            return False
        self.feed.look_at(window)
        return True

    def times_changed(self) -> None:
        if self._snapshot.series is not None:
            self._show_charts(self._snapshot.series)

    def _show_verdict(self) -> None:
        snapshot, status = self._snapshot, self.console.link.status
        old_since = None if self.frozen_at is not None else status.old_since("overview", "recovery")
        is_old = status.old_since("overview") is not None or snapshot.error is not None
        for part, old in ((self.queues, is_old), (self.charts, is_old), (self.alert_table, old_since is not None)):
            part.set_class(old, "-old")
        if snapshot.glance is not None:
            self._show_queues(snapshot.glance)
        if old_since is not None:
            self._say_unknown(old_since)
            return
        self._is_unknown = False
        if snapshot.glance is None or not self._judges:
            self._say(snapshot.error or "reading the state of the cluster…", "-degraded" if snapshot.error else "")
            return
        glance = replace(snapshot.glance, report=self._report)
        began = {alert.id: alert.failing_since for alert in self._alerts if alert.failing_since is not None}
        self._alerts = alerts(glance, self.console.options.settings.targets, began)
        self._show_alerts(glance)
        found = verdict(glance, self._alerts, self.query_one("#verdict").size.width or None)
        text = f"{found.lead}{found.words}"
        tone = _CLASSES[found.level] if glance.alive or found.alert else ""
        self._say(f"{snapshot.error}; before that: {text}" if snapshot.error else text, tone)

    def _say_unknown(self, since: datetime) -> None:
        """Show UNKNOWN as the verdict, because the data are older than they should be."""
        now = self.console.link.clock.now()
        old = span((now - since).total_seconds())
        self._is_unknown = True
        blockers = self.console.link.status.blockers
        opened = None if not blockers else blockers[0].open_since
        held = "" if opened is None else f"; its transaction is open for {span((now - opened).total_seconds())}"
        self._say(f"UNKNOWN: nothing newer than {old} could be read{held}", "-unknown")
        self._title_alerts(f"{self._alerts_title()} {self._glyphs.dot} {old} old")
        if not self._alerts:
            self.alert_table.show((), now=self.now, empty="Unknown: the data are outdated.")

    def tick(self) -> None:
        """Update the age of the data while they are old."""
        if self.console.link.status.old_since("overview", "recovery") is not None or self._is_unknown:
            self._show_verdict()

    def _show_queues(self, glance: Glance) -> None:
        # Ages are those at the time of the read, like the numbers; ticking ages would send each row every second.
        lines = queue_lines(glance)
        self.queues.show(lines, now=glance.now, empty="No queue has tasks, and no worker serves one.")
        self._arrange(len(lines))

    def _show_alerts(self, glance: Glance) -> None:
        shown = self._alerts
        self._title_alerts(self._alerts_title())
        empty = "Nothing needs action: no tasks are late, stuck, or failing more than usual."
        if not glance.workers and not glance.queues:
            empty = "No data yet. horsies worker MODULE:APP starts a worker;\nhorsies demo shows an example."
        self.alert_table.show(shown, now=glance.now, empty=empty)

    def _alerts_title(self) -> str:
        notes = sum(alert.level is Level.NOTE for alert in self._alerts)
        title = f"alerts {len(self._alerts) - notes}" if len(self._alerts) > notes else "no alerts"
        return title + (f" {self._glyphs.dot} {counted(notes, 'note')}" if notes else "")

    def _title_alerts(self, title: str) -> None:
        rule = self._glyphs.rule * max(self.size.width - len(title) - 6, 0)
        self.query_one("#alerts-title", LineCell).put(f"{self._glyphs.rule * 2} {title} {rule}")

    def _say(self, words: str, *classes: str) -> None:
        self.query_one("#verdict", LineCell).put(self._glyphs.text(words), *filter(None, classes))

    def _say_window(self, snapshot: OverviewSnapshot) -> None:
        ways = " ".join(key_for(f"overview.{way}", self.screen, self._glyphs) for way in ("shorter", "longer"))
        wait = f"{self._glyphs.ellipsis}" if snapshot.series is None else ""
        # The rates in the queue list are averages over these minutes. Each chart explains its number below its
        # curve.
        rates = f"rates over {age(RATES_OVER)} · " if self.app.size.width >= _NARROW else ""
        self.query_one("#window", LineCell).put(self._glyphs.text(f"{rates}window {snapshot.window.name}{wait} {ways}"))

    def on_resize(self) -> None:
        self._arrange(len(self.queues.rows))
        self.call_after_refresh(self._show_verdict)

    def _arrange(self, queues: int) -> None:
        """Divide the height: all queues if there are not too many; the charts get the remaining lines, or one each."""
        width, height = self.size
        if not height:
            return
        columns = _CHART_COLUMNS[width >= _NARROW]
        rows = -(-_CHARTS // columns)
        each = int(height * _SHARE[height >= _LOW]) // rows if width >= _NARROW else 1
        set_height(self.charts, 1 if self.charts.is_empty else rows * (each if each >= LEAST_HEIGHT else 1))
        self.charts.stand_in(columns)
        set_height(self.queues, min(max(queues, 1) + 1, int(height * _MOST_QUEUES)))

    # Actions of the operator.

    def intent(self, verb: str) -> Intent | None:
        """Return the intent of a verb for the queue under the cursor."""
        line = self.queues.cursor_row
        if not self.queues.has_focus or line is None:
            self.console.say(f"{verb}: select a queue (↑↓)")
        elif not line.queue.name:
            self.console.say(f"{verb} does not apply to {ALL!r}; select one queue")
        else:
            return Intent(VERBS["queue", verb], Selection.of_ids([line.queue.name]))
        return None

    def fits(self, action: Action) -> bool:
        line, verb = self.queues.cursor_row if self.queues.has_focus else None, action.record
        if not isinstance(verb, QueueVerb):
            return True
        return line is not None and bool(line.queue.name) and (line.queue.paused_at is not None) is verb.for_paused

    def take_focus(self) -> None:
        self.queues.focus()

    def refresh_now(self) -> None:
        self.console.recovery.refresh()
        if isinstance(self.feed, OverviewFeed):
            self.feed.refresh()

    def action_left(self) -> None:
        self._move(-1)

    def action_right(self) -> None:
        self._move(1)

    def _move(self, step: int) -> None:
        part = self._part
        if isinstance(part, ChartGrid):
            part.read(step)
        elif isinstance(part, NumberTable):
            part.move(step)

    def action_next_part(self) -> None:
        self._to_part(1)

    def action_previous_part(self) -> None:
        self._to_part(-1)

    def _to_part(self, step: int) -> None:
        at = self.parts.index(self._part) if self._part in self.parts else 0
        self.parts[(at + step) % len(self.parts)].focus()

    @property
    def _part(self) -> Widget:
        return next((part for part in self.parts if part.has_focus), self.queues)

    def action_shorter(self) -> None:
        self._look_at(-1)

    def action_longer(self) -> None:
        self._look_at(1)

    def _look_at(self, step: int) -> None:
        self._window_chosen = True
        if isinstance(self.feed, OverviewFeed):
            self.feed.look_at(neighbour(self._snapshot.window, step))

    @on(NumberTable.NumberOpened, "#queues")
    def _open_number(self, message: NumberTable.NumberOpened) -> None:
        message.stop()
        if self._snapshot.glance is not None:
            self.console.show_tasks(rows_of_number(message.column, message.row_id, self._snapshot.glance.now))

    @on(NumberTable.NumberOpened, "#alerts")
    def _open_alert(self, message: NumberTable.NumberOpened) -> None:
        message.stop()
        alert = self.alert_table.cursor_row
        if alert is None:
            return
        if alert.rows is not None:
            self.console.show_tasks(alert.rows)
        elif alert.workers is not None:
            self.console.show_workers(alert.workers)
        elif alert.schedules is not None:
            self.console.show_schedules(alert.schedules)
        elif alert.workflow is not None:
            self.console.show_workflow(alert.workflow)
        else:
            self.console.show_recovery()

    @on(ChartGrid.Opened)
    def _open_chart(self, message: ChartGrid.Opened) -> None:
        message.stop()
        if message.rows is not None:
            self.console.show_tasks(message.rows)
