"""`horsies workers ls`, `horsies queues ls` and `horsies status` with its chart, which plotext draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final

import typer

from horsies.cli.reading import ReadSession, read, understood
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import ago, at_least, count_text, damage_lines, marked, number
from horsies.display.json_output import print_json
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted, need_action, span
from horsies.findings import Severity
from horsies.findings.diagnose import Report, diagnose
from horsies.query import parse_workers
from horsies.views import (
    Buckets,
    ClusterStatus,
    Liveness,
    QueueRow,
    TaskPoint,
    WorkerRow,
    cluster_status,
    queue_rows,
    task_series,
    worker_rows,
)
from horsies.views.cluster import MOST_WAITING
from horsies.views.reader_session import tables
from horsies.views.row_filter import matching
from horsies.views.workers import name_of

_LATELY: Final = timedelta(hours=1)
"""The time in which a worker that is gone is still listed, and that of the chart."""
_STEP: Final = timedelta(minutes=1)
_CHART_WIDTH: Final = 100
_LEAST_CHART_WIDTH: Final = 40
_CHART_HEIGHT: Final = 12
_ASCII: Final = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")
_LEAST_PART: Final = 0.5
"""Minutes of which less was seen are not drawn: the rate of a few seconds says nothing."""
_SIGNS: Final = {
    Liveness.ALIVE: ("●", "*", "green"),
    Liveness.DRAINING: ("◐", "o", "cyan"),
    Liveness.LATE: ("◌", "?", "yellow"),
    Liveness.LOST: ("✗", "x", "red"),
    Liveness.DIED: ("✗", "x", "red"),
    Liveness.STOPPED: ("·", ".", "dim"),
}
_WORKERS: Final = (
    TableColumn("STATE"),
    TableColumn("WORKER"),
    TableColumn("SEEN", right=True),
    TableColumn("RUNNING", right=True),
    TableColumn("CLAIMED", right=True),
    TableColumn("CHILDREN", right=True, rank=6),
    TableColumn("MEMORY", right=True, rank=3),
    TableColumn("CPU", right=True, rank=4),
    TableColumn("UP", right=True, rank=5),
    TableColumn("QUEUES", least=10, rank=2),
    TableColumn("NOTE", least=40, rank=1),
)
_QUEUES: Final = (
    TableColumn("QUEUE", least=12),
    TableColumn("DUE", right=True),
    TableColumn("LATER", right=True, rank=4),
    TableColumn("CLAIMED", right=True, rank=3),
    TableColumn("RUNNING", right=True),
    TableColumn("CAP", right=True, rank=5),
    TableColumn("OLDEST", right=True, rank=2),
    TableColumn("WORKERS", right=True),
    TableColumn("NOTE", least=12, rank=1),
)


def list_workers(choice: DatabaseChoice, text: str, *, everyone: bool, as_json: bool) -> None:
    wanted = understood(text, parse_workers)

    async def work(session: ReadSession) -> tuple[tuple[WorkerRow, ...], datetime]:
        workers = await worker_rows(session.connection, gone_within=None if everyone else _LATELY)
        return workers, (await tables(session.connection)).now

    known, now = read(choice, "workers ls", work)
    workers = matching(wanted, known, now)
    if as_json:
        print_json({"now": now, "filter": wanted.text, "workers": workers})
    elif known and not workers:
        hint = "`horsies workers ls` shows them all, --filter-help explains filters"
        say(f"no worker of {number(len(known))} matches {wanted.text}", hint)
    else:
        say(*_worker_lines(workers, now, Screen.of(sys.stdout)))


def list_queues(choice: DatabaseChoice, *, as_json: bool) -> None:
    async def work(session: ReadSession) -> tuple[tuple[QueueRow, ...], datetime]:
        return await queue_rows(session.connection), (await tables(session.connection)).now

    queues, now = read(choice, "queues ls", work)
    if as_json:
        print_json({"now": now, "queues": queues})
    else:
        say(*_queue_lines(queues, now, Screen.of(sys.stdout)))


def show_status(choice: DatabaseChoice, *, chart: bool, as_json: bool) -> None:
    async def work(session: ReadSession) -> tuple[str, ClusterStatus, Report, tuple[TaskPoint, ...]]:
        conn = session.connection
        cluster, report = await cluster_status(conn), await diagnose(conn)
        points = await task_series(conn, Buckets.until(cluster.now, _LATELY, _STEP)) if chart else ()
        return session.label, cluster, report, points

    label, cluster, report, points = read(choice, "status", work)
    if as_json:
        print_json(_status_report(label, cluster, report) | ({"last_hour": points} if chart else {}))
    else:
        screen = Screen.of(sys.stdout)
        say(*_status_lines(label, cluster, report, screen))
        if chart:
            say(*chart_lines(points, screen))
    if not any(worker.lives for worker in cluster.workers):
        raise typer.Exit(1)


def _worker_lines(workers: Sequence[WorkerRow], now: datetime, screen: Screen) -> list[str]:
    if not workers:
        return ["no worker was seen in the last hour", "`horsies worker MODULE` starts one, --all lists older ones"]
    lines = table(_WORKERS, [_worker(worker, now, screen) for worker in workers], screen)
    return [*lines, *damage_lines(workers, screen)]


def _worker(worker: WorkerRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    told = worker.snapshot
    memory = None if told is None or told.memory_mb is None else told.memory_mb + (told.children_memory_mb or 0.0)
    return [
        marked(_SIGNS[worker.liveness], worker.liveness, screen),
        name_of(worker.id),
        span(worker.silent_s),
        number(worker.running),
        number(worker.claimed),
        str(told.processes) if told else "",
        "" if memory is None else f"{memory:.0f} MB",
        "" if told is None or told.cpu_percent is None else f"{told.cpu_percent:.0f} %",
        ago(told.started_at, worker.up_until(now)) if told else "",
        ", ".join(told.queues) if told else "",
        _worker_note(worker, now),
    ]


def _worker_note(worker: WorkerRow, now: datetime) -> str:
    held = worker.running + worker.claimed
    if worker.loss is not None and not held:
        known = worker.loss.acknowledged_by
        todo = f"acknowledged by {known}" if known else f"horsies workers acknowledge {worker.id}"
        return f"{worker.loss.words()}; {todo}"
    if not worker.lives and held:
        return f"holds {counted(held, 'task')}: horsies workers recover {worker.id}"
    if worker.draining_since is None:
        return ""
    why = f': "{worker.draining_reason}"' if worker.draining_reason else ""
    return f"asked to drain {ago(worker.draining_since, now)} ago by {worker.draining_by}{why}"


def _queue_lines(queues: Sequence[QueueRow], now: datetime, screen: Screen) -> list[str]:
    if not queues:
        return ["no queue has tasks that wait or run, and no worker serves one"]
    lines = table(_QUEUES, [_queue(queue, now) for queue in queues], screen)
    lines += damage_lines(queues, screen)
    if any(queue.due.at_least or queue.later.at_least for queue in queues):
        lines.append(
            f"+: at least so many; counting stops at about {number(MOST_WAITING)} tasks of all queues together"
        )
    return lines


def _queue(queue: QueueRow, now: datetime) -> list[TableCell | str]:
    return [
        queue.name,
        count_text(queue.due),
        count_text(queue.later),
        number(queue.claimed),
        number(queue.running),
        "" if queue.cap is None else f"{queue.running}/{queue.cap}",
        ago(queue.oldest_due_at, now),
        str(queue.workers),
        _queue_note(queue, now),
    ]


def _queue_note(queue: QueueRow, now: datetime) -> TableCell:
    if queue.paused_at is not None:
        why = f': "{queue.paused_reason}"' if queue.paused_reason else ""
        return TableCell(f"paused {ago(queue.paused_at, now)} ago by {queue.paused_by}{why}", "yellow")
    if not queue.due.number or queue.claiming:
        return TableCell("")
    return TableCell("all of its workers drain" if queue.workers else "no worker serves it", "red")


def _status_report(label: str, cluster: ClusterStatus, report: Report) -> dict[str, Any]:
    return {
        "now": cluster.now,
        "database": label,
        "workers": cluster.workers,
        "queues": cluster.queues,
        "ended": {
            "window_s": cluster.window,
            "completed": cluster.completed,
            "failed": cluster.failed,
            "other": cluster.other,
            "counted_since": cluster.counted_since,
        },
        "interrupted": cluster.interrupted,
        "tasks_in_table": cluster.in_table,
        "findings": {
            "need_action": report.count(Severity.NEEDS_ACTION),
            "handled": report.count(Severity.HANDLED),
            "all": len(report.findings),
        },
        "sweep": report.sweep,
    }


def _status_lines(label: str, cluster: ClusterStatus, report: Report, screen: Screen) -> Iterator[str]:
    stored = "" if cluster.in_table is None else f", about {number(cluster.in_table)} tasks stored"
    yield screen.paint(f"{clean(label)}{stored}", "bold")
    window = span(cluster.window.total_seconds())
    since = cluster.counted_since
    # Nothing is known about the time before: a number with a plus would claim to cover all of the window.
    back = "" if since is None else f", counted back to {since.astimezone(UTC):%H:%M:%S}Z"
    failed = screen.paint(f"{at_least(cluster.failed)} failed", "red" if cluster.failed.number else "")
    other = f"{at_least(cluster.other)} cancelled or expired"
    yield f"in the last {window}{back}: {at_least(cluster.completed)} completed, {failed}, {other}"
    yield from _troubles(report, screen)
    yield ""
    yield from _worker_lines(cluster.workers, cluster.now, screen)
    yield ""
    yield from _queue_lines(cluster.queues, cluster.now, screen)


def _troubles(report: Report, screen: Screen) -> Iterator[str]:
    """Yield the worst findings; `horsies recovery ls` has them all."""
    if report.spared is not None:
        yield report.spared.words()
    if not report.findings:
        yield screen.paint("nothing is stuck", "green")
        return
    urgent = report.count(Severity.NEEDS_ACTION)
    need = need_action(urgent) if urgent else "nothing needs action"
    painted = screen.paint(need, "red" if urgent else "green")
    yield f"{painted}, {report.count(Severity.HANDLED)} handled automatically: horsies recovery ls"
    for finding in report.findings:
        if finding.prediction.severity is Severity.NEEDS_ACTION:
            more = "+" if finding.at_least else ""
            count = f" {screen.glyph('×', 'x')}{number(finding.count)}{more}" if finding.count > 1 else ""
            yield f"  {screen.glyph('▲', '!')} {clean(finding.what)}{count}: {clean(finding.evidence)}"


def chart_lines(points: Sequence[TaskPoint], screen: Screen) -> list[str]:
    """Return two charts; without any task, one sentence."""
    whole = [point for point in points if point.seconds >= _LEAST_PART * _STEP.total_seconds()]
    if all(point.waiting is None for point in whole):
        return ["", "nothing to draw: no task was sent in the last hour"]
    rates = {"ended/s": [point.ended_per_s for point in whole], "failed/s": [point.failed_per_s for point in whole]}
    waiting = {"waiting": [point.waiting for point in whole]}
    return ["", *_chart(rates, screen), "", *_chart(waiting, screen), "minutes until now"]


def _chart(curves: dict[str, list[float | None]], screen: Screen) -> list[str]:
    """Draw curves. plotext takes 0.1 to 0.2 s to import, so only this command imports it."""
    plotext: Any = import_module("plotext")
    figure = plotext.figure
    plotext.terminal.limit(False, False)  # in a pipe there is no terminal whose size would be the limit
    figure.clear.all()
    figure.plot_size(max(min(screen.width or _CHART_WIDTH, _CHART_WIDTH), _LEAST_CHART_WIDTH), _CHART_HEIGHT)
    top = max((value for values in curves.values() for value in values if value is not None), default=0.0)
    figure.ruler("y").lim(0, top or 1)
    figure.ruler("x").lim(1 - _LATELY // _STEP, 0)
    for name, values in curves.items():
        known = [(place, value) for place, value in enumerate(values, 1 - len(values)) if value is not None]
        if not known:
            continue
        places, heights = zip(*known, strict=True)
        signal = figure.signal(list(places), list(heights), marker="braille" if screen.unicode else "*")
        signal.label(name)
        signal.lines()
        for at in range(1, len(places)):
            if places[at] - places[at - 1] > 1:
                signal.line(at, active=False)  # a gap stays a gap
        figure.draw(signal)
    text = screen.adopt(figure.build().string(colorless=not screen.colour))
    return (text if screen.unicode else text.translate(_ASCII)).split("\n")
