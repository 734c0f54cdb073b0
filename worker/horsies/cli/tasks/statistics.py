"""`horsies tasks stats`: figures of each task name over a window, as a table or as JSON."""

from __future__ import annotations

import shlex
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import typer

from horsies.cli.filters import understood
from horsies.cli.read_session import read
from horsies.display.formatting import at, count_text, lasting, number
from horsies.display.json_output import plain, print_json
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.query import TaskFilter, Term, task_conditions
from horsies.query.problems import UnreadableValue
from horsies.query.values import Glob, read_moment
from horsies.views import StatisticsSort, task_statistics
from horsies.views.counts import Count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from horsies.cli.read_session import ReadSession
    from horsies.config.contexts import DatabaseChoice
    from horsies.views import NameStatistics, TaskStatistics

_COLUMNS: Final = (
    TableColumn("NAME", least=16),
    TableColumn("ENDED", right=True),
    TableColumn("FAILED", right=True),
    TableColumn("SHARE", right=True),
    TableColumn("RETRIES", right=True, rank=4),
    TableColumn("WAIT P50", right=True, rank=5),
    TableColumn("WAIT P95", right=True, rank=2),
    TableColumn("RUN P50", right=True, rank=3),
    TableColumn("RUN P95", right=True, rank=1),
    TableColumn("BUSY", right=True),
)
_SINCE: Final = TableColumn("SINCE", right=True)


def show_statistics(
    choice: DatabaseChoice, text: str, names: Sequence[str], since: str, order: str, *, as_json: bool
) -> None:
    wanted = _of_names(understood(text), names)
    window = _window(since)

    async def work(session: ReadSession) -> TaskStatistics:
        return await task_statistics(session.connection, task_conditions(wanted), window)

    found = read(choice, "tasks stats", work)
    rows = found.sorted_by(StatisticsSort(order))
    if as_json:
        listed = [
            {
                **plain(row),
                "failed_share": row.failed_share,
                "busy": row.busy,
                "filter": found.filter_of(wanted, [row.name]).text,
            }
            for row in rows
        ]
        heads = {"now": found.now, "since": found.since, "filter": wanted.text, "sort": order}
        print_json({**heads, "names": listed, "more_names": found.more_names})
        return
    screen = Screen.of(sys.stdout)
    partly = any(row.partly for row in rows)
    if rows:
        say(f"of tasks that ended since {at(found.since, found.now)}")
        columns = (*_COLUMNS, _SINCE) if partly else _COLUMNS
        say(*table(columns, [_cells(row, found.now, partly=partly) for row in rows], screen))
    for line in _footer(found, rows, wanted):
        say(screen.paint(line, "dim"), stream=sys.stdout if screen.width else sys.stderr)


def _of_names(wanted: TaskFilter, names: Sequence[str]) -> TaskFilter:
    return TaskFilter((*wanted.terms, Term("name", tuple(map(Glob, names))))) if names else wanted


def _window(text: str) -> timedelta | datetime:
    try:
        moment = read_moment(text.strip().lower())
    except UnreadableValue as error:
        raise typer.BadParameter(f"--since: {error.message}") from None
    return moment.at or moment.ago or timedelta()


def _cells(row: NameStatistics, now: datetime, *, partly: bool) -> list[TableCell | str]:
    return [
        row.name,
        count_text(row.ended),
        TableCell(count_text(Count(row.failed, row.partly)), "red" if row.failed else ""),
        f"{row.failed_share:.1%}",
        count_text(Count(row.retries, row.partly)),
        *(_seconds(each) for each in (row.wait_p50, row.wait_p95, row.run_p50, row.run_p95)),
        f"{row.busy_share:.0%}",
        *([f"{lasting(now - row.since)} ago" if row.partly else ""] if partly else []),
    ]


def _seconds(value: float | None) -> str:
    return lasting(None if value is None else timedelta(seconds=value))


def _footer(found: TaskStatistics, rows: Sequence[NameStatistics], wanted: TaskFilter) -> list[str]:
    if not rows:
        matching = f" that match {wanted.text}" if wanted.terms else ""
        ago = lasting(found.now - found.since)
        return [f"no tasks{matching} ended in the last {ago}", "--since looks further back: `--since 24h`"]
    lines = []
    if any(row.partly for row in rows):
        lines.append("+ more ended than were read: the newest of that name, and figures since then")
    if found.more_names:
        lines.append(f"only the first {number(len(found.names))} names were read; a filter chooses others: name:shop.*")
    tasks = found.filter_of(wanted, [rows[0].name]).text
    return [*lines, f"tasks of the first: horsies tasks ls --filter {shlex.quote(tasks)}"]
