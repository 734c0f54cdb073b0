"""The rows and charts of the overview: a line per queue, their sum, and a line per alert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies_tui.health.alerts import Alert, Level
from horsies_tui.health.figure_filters import NUMBERS, WAITING, rows_that_ended, rows_that_failed
from horsies_tui.health.history import last_known
from horsies_tui.health.rates import Course, all_queues, all_rates, flow_now, outlook_of_all
from horsies_tui.look.cells import Cell, Column, ColumnSet, Look
from horsies_tui.look.charts import DEPLOYED, OPERATED, OUTAGE, Chart, Curve, drawable, round_up_time
from horsies_tui.look.plot import Fill
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, count, lasting, length, per_second

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.views import Count, Flow, QueueRate, QueueRow
    from horsies_tui.health.glance import Glance
    from horsies_tui.health.history import Series
    from horsies_tui.health.rates import Outlook
    from horsies_tui.health.windows import Window

ALL: Final = "all queues"
_AT_ONCE_S: Final = 5.0
"""A queue that drains within this time shows `at once` instead of a duration."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A line of the queue list. In the line of all queues, `queue` has no name."""

    queue: QueueRow
    rate: QueueRate
    outlook: Outlook

    @property
    def id(self) -> str:
        return self.queue.name


def queue_lines(glance: Glance) -> tuple[QueueLine, ...]:
    """Return the lines of the queues, with their sum first if there are several."""
    lines = tuple(QueueLine(row, glance.rate(row.name), glance.outlook(row)) for row in glance.queues)
    if len(lines) < 2:
        return lines
    together = outlook_of_all(line.outlook for line in lines)
    return (QueueLine(all_queues(glance.queues), all_rates(glance.rates), together), *lines)


def _number(value: Count, tone: Tone | None = None) -> Cell:
    return Cell(count(value.number, at_least=value.at_least), tone if value.number else Tone.MUTED)


def _plain(value: int, tone: Tone | None = None) -> Cell:
    return Cell(count(value), tone if value else Tone.MUTED)


def _name(line: QueueLine, _look: Look) -> Cell:
    if not line.queue.name:
        return Cell(ALL, Tone.MUTED)
    return Cell(line.queue.name, Tone.WARNING if line.queue.paused_at is not None else None)


def _pending(line: QueueLine, _look: Look) -> Cell:
    due, later = line.queue.due, line.queue.later
    return Cell(count(due.number + later.number, at_least=due.at_least or later.at_least), Tone.MUTED)


def _claimed(line: QueueLine, _look: Look) -> Cell:
    return _plain(line.queue.claimed)


def _running(line: QueueLine, _look: Look) -> Cell:
    return _plain(line.queue.running, Tone.RUNNING)


def _cap(line: QueueLine, look: Look) -> Cell:
    cap = line.queue.cap
    if cap is None:
        return Cell(look.glyphs.dash, Tone.MUTED)
    running = line.queue.running
    return Cell(f"{running}/{cap}", Tone.WARNING if running >= cap and line.queue.due.number else None)


def _oldest(line: QueueLine, look: Look) -> Cell:
    oldest = line.queue.oldest_due_at
    return Cell("" if oldest is None else lasting((look.now - oldest).total_seconds()))


def _rate(value: float) -> Cell:
    return Cell(per_second(value), None if value else Tone.MUTED)


def _minute(line: QueueLine) -> QueueRate | Flow:
    return line.rate.minute or line.rate


def _drains(line: QueueLine, look: Look) -> Cell:
    match line.outlook.course:
        case Course.EMPTY:
            return Cell(look.glyphs.dash, Tone.MUTED)
        case Course.PAUSED:
            paused = line.outlook.paused
            return _paused(line.queue, look) if paused is None else Cell("{} of {} paused".format(*paused), Tone.MUTED)
        case Course.GROWS:
            return Cell(f"growing {per_second(line.outlook.growth_per_s)}/s", Tone.BAD, "growing")
        case Course.STANDS:
            return Cell("stalled", Tone.WARNING)
        case Course.HOLDS:
            soon = line.queue.due.number <= flow_now(line.rate).out_per_s * _AT_ONCE_S and not _waits_long(line, look)
            return Cell("at once" if soon else "steady", Tone.MUTED)
        case Course.DRAINS:
            left = line.outlook.left or timedelta()
            if left.total_seconds() > _AT_ONCE_S:
                return Cell(f"clear in {length(left)}", None, length(left))
            return Cell("steady", Tone.MUTED) if _waits_long(line, look) else Cell("at once")


def _paused(queue: QueueRow, look: Look) -> Cell:
    """Return since when and by whom the queue is paused, and the reason if there is room."""
    since = "" if queue.paused_at is None else f" {age(look.now - queue.paused_at)}"
    who = f"paused{since} by {queue.paused_by}" if queue.paused_by else f"paused{since}"
    return Cell(f"{who}: {queue.paused_reason}", Tone.WARNING, who) if queue.paused_reason else Cell(who, Tone.WARNING)


def _waits_long(line: QueueLine, look: Look) -> bool:
    """Return whether the oldest task waits long although the queue drains, as one that no worker can run."""
    oldest = line.queue.oldest_due_at
    return oldest is not None and (look.now - oldest).total_seconds() > _AT_ONCE_S


QUEUE_COLUMNS: Final[ColumnSet[QueueLine]] = ColumnSet(
    (
        Column("queue", "QUEUE", _name, 10, 13, grow=2),
        Column("pending", "PENDING", _pending, 7, priority=1, right=True),
        Column("due", "DUE", lambda line, _look: _number(line.queue.due, Tone.STRONG), 6, whole=7, right=True),
        Column("later", "LATER", lambda line, _look: _number(line.queue.later), 6, whole=7, right=True),
        Column("claimed", "CLAIMED", _claimed, 5, whole=7, right=True, brief="CLM"),
        Column("running", "RUNNING", _running, 5, whole=7, right=True, brief="RUN"),
        Column("cap", "CAP", _cap, 6, whole=8, right=True),
        Column("oldest", "OLDEST", _oldest, 6, right=True),
        Column("in", "IN/S", lambda line, _look: _rate(line.rate.in_per_s), 5, right=True),
        Column("out", "OUT/S", lambda line, _look: _rate(line.rate.out_per_s), 5, right=True),
        Column("in1m", "IN 1M", lambda line, _look: _rate(_minute(line).in_per_s), 5, priority=2, right=True),
        Column("out1m", "OUT 1M", lambda line, _look: _rate(_minute(line).out_per_s), 6, priority=2, right=True),
        Column("drains", "TREND", _drains, 8, 11, grow=1),
    )
)
QUEUE_NUMBERS: Final = tuple(NUMBERS)

_TONES: Final = {Level.CRITICAL: Tone.BAD, Level.DEGRADED: Tone.WARNING, Level.NOTE: Tone.MUTED}


def _sign(alert: Alert, look: Look) -> Cell:
    sign = look.glyphs.dot if alert.level is Level.NOTE else look.glyphs.alarm
    return Cell(sign, _TONES[alert.level])


def _since(alert: Alert, _look: Look) -> Cell:
    return Cell(alert.lasts, Tone.MUTED)


ALERT_COLUMNS: Final[ColumnSet[Alert]] = ColumnSet(
    (
        Column("sign", "", _sign, 1),
        Column("what", "ALERT", lambda alert, _look: Cell(alert.what, _TONES[alert.level]), 20, 38, grow=2),
        Column("since", "SINCE", _since, 6, priority=1, right=True),
        Column("evidence", "EVIDENCE", lambda alert, _look: Cell(alert.evidence), 15, 34, grow=2),
    )
)


# Charts.


def _seconds(value: float) -> str:
    return length(timedelta(seconds=value)) if value else "0"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _whole(value: float) -> str:
    return count(round(value))


def _said(values: tuple[float | None, ...], write: Callable[[float], str], dash: str) -> str:
    value = last_known(drawable(values))
    return dash if value is None else write(value)


def _current(glance: Glance, dash: str) -> tuple[str, str]:
    """Return the number of waiting tasks and the share of busy processes, as in the verdict and the queue list."""
    waits = _whole(glance.waiting.number) + ("+" if glance.waiting.at_least else "")
    return waits, dash if glance.busy is None else _percent(glance.busy)


def charts_of(series: Series, window: Window, dash: str, glance: Glance | None = None) -> tuple[Chart, ...]:
    """Return the six charts: ended, failed, waiting, waiting time, run time, busy processes."""
    waits, busy = (None, None) if glance is None else _current(glance, dash)
    about = "~" if series.about else ""
    newest = f"last {age(window.step)}"

    def curve(
        name: str,
        values: tuple[float | None, ...],
        tone: Tone,
        write: Callable[[float], str],
        now: str | None = None,
        fill: Fill = Fill.AREA,
    ) -> Curve:
        return Curve(name, values, tone, _said(values, write, dash) if now is None else now, fill)

    def chart(
        title: str,
        curves: tuple[Curve, ...],
        write: Callable[[float], str],
        rows: Callable[[datetime, datetime], str],
        nothing: str,
    ) -> Chart:
        all_rows = rows(series.buckets.first, series.buckets.end)
        return Chart(
            title, curves, write, window.name, rows=all_rows, rows_between=rows, newest=newest, nothing=nothing
        )

    def rate(
        name: str,
        values: tuple[float | None, ...],
        lately: float | None,
        tone: Tone,
        rows: Callable[[datetime, datetime], str],
    ) -> Chart:
        shown = curve("", values, tone, per_second, _said((lately,), per_second, dash))
        return chart(name, (shown,), per_second, rows, "no task yet")

    def times(name: str, p95: tuple[float | None, ...], p50: tuple[float | None, ...]) -> Chart:
        curves = (curve("p95", p95, Tone.WARNING, _seconds, fill=Fill.BAND), curve("p50", p50, Tone.RUNNING, _seconds))
        found = chart(name, curves, _seconds, rows_that_ended, f"no task ended in the last {window.name}")
        return replace(found, round_up=round_up_time)

    waiting = curve("", series.waiting, Tone.CLAIMED, _whole, waits)
    share = curve("", series.busy, Tone.RUNNING, _percent, busy)
    silent = f"no worker reported in the last {window.name}"
    charts = (
        rate(f"{about}finished/s", series.ended, series.ended_lately, Tone.GOOD, rows_that_ended),
        rate(f"{about}failed/s", series.failed, series.failed_lately, Tone.BAD, rows_that_failed),
        Chart("waiting", (waiting,), _whole, window.name, rows=WAITING, nothing="no task yet"),
        times("wait", series.wait_p95, series.wait_p50),
        times("run", series.run_p95, series.run_p50),
        Chart("busy", (share,), _percent, window.name, top=1.0, rows=NUMBERS["running"], nothing=silent),
    )
    marks = series.marks
    signs = dict.fromkeys(marks.operated, OPERATED)
    signs |= dict.fromkeys(marks.deployed, DEPLOYED) | dict.fromkeys(marks.outages, OUTAGE)
    return tuple(replace(one, dark=marks.dark, signs=signs) for one in charts)
