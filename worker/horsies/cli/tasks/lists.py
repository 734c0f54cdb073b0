"""`horsies tasks ls` and `horsies tasks stats`: a page of tasks, and the figures of each task name over a window."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import typer

from horsies.cli.reading import cursor_of, next_page, read, read_page, say_aside, understood
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import ago, at, count_text, damage_lines, lasting, number, short, state
from horsies.display.json_output import cursor_time, plain, print_json, read_cursor_time, task_report
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.query import TaskFilter, Term, parse, task_conditions
from horsies.query.problems import UnreadableValue
from horsies.query.values import Glob, read_moment
from horsies.store.connect import Connection
from horsies.views import (
    Cursor,
    NameStatistics,
    Page,
    Sort,
    StatisticsSort,
    TaskRow,
    TaskStatistics,
    task_page,
    task_statistics,
)
from horsies.views.counts import Count
from horsies.views.workers import place_of

_TASKS: Final = (
    TableColumn("STATE"),
    TableColumn("ID"),
    TableColumn("NAME", least=16),
    TableColumn("QUEUE", least=7, rank=3),
    TableColumn("PRI", right=True, rank=8),
    TableColumn("AGE", right=True),
    TableColumn("WAIT", right=True, rank=5),
    TableColumn("RUN", right=True, rank=2),
    TableColumn("TRY", right=True, rank=6),
    TableColumn("WORKER", least=10, rank=7),
    TableColumn("BEAT", right=True, rank=4),
    TableColumn("PROGRESS", least=4, rank=2),
    TableColumn("ERROR", least=9, rank=1),
)
_NAMES: Final = (
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


def list_tasks(
    choice: DatabaseChoice, text: str, order: str | None, *, limit: int, after: str | None, as_json: bool
) -> None:
    wanted = understood(text, parse)
    sort, cursor = (Sort(order or Sort.NEWEST), None) if after is None else cursor_of(after, _read_cursor)
    if order is not None and order != sort:
        raise typer.BadParameter(f"the cursor belongs to --sort {sort}, not to {order}")
    conditions = task_conditions(wanted)

    async def page(connection: Connection, limit: int, after: Cursor | None) -> Page[TaskRow]:
        return await task_page(connection, conditions, sort=sort, limit=limit, after=after)

    rows, now, further = read_page(choice, "tasks ls", page, limit, cursor)
    next_cursor = None if further is None else f"{sort}/{further.priority}/{cursor_time(further.time)}/{further.id}"
    if as_json:
        listed = [task_report(row, now) for row in rows]
        print_json({"now": now, "filter": wanted.text, "sort": sort, "tasks": listed, "next": next_cursor})
        return
    screen = Screen.of(sys.stdout)
    say(*table(_TASKS, [_task(row, now, screen) for row in rows], screen) if rows else [])
    say(*damage_lines(rows, screen))
    if next_cursor is not None:
        say_aside([next_page("tasks ls", ["--filter", wanted.text] if wanted.text else [], next_cursor)], screen)
    elif not rows:
        say_aside(_none_listed(wanted.text, sort, first=after is None), screen)


def _read_cursor(text: str) -> tuple[Sort, Cursor | None]:
    sort, priority, time, task_id = text.split("/", 3)
    return Sort(sort), Cursor(read_cursor_time(time), task_id, int(priority))


def _task(row: TaskRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    left = f" {lasting(row.next_retry_at - now)}" if row.state == "RETRY" and row.next_retry_at else ""
    return [
        state(row.state, screen, left),
        short(row.id, screen),
        row.name,
        row.queue,
        str(row.priority),
        lasting(row.age(now)),
        lasting(row.wait(now)),
        lasting(row.run(now)),
        f"{row.attempt}/{row.attempts_allowed}",
        place_of(row.worker_id, row.worker_hostname, None if row.worker_id else row.worker_pid),
        ago(row.beat_at, now),
        str(row.progress.words(now, lasting)) if row.progress else "",
        TableCell(row.error_code or "", "red" if row.status == "FAILED" else ""),
    ]


def _none_listed(text: str, sort: Sort, *, first: bool) -> list[str]:
    if not first:
        return ["there are no more tasks"]
    if text:
        return [f"no task matches {text}", "`horsies tasks ls` shows the newest of all, --filter-help explains filters"]
    if sort in (Sort.WAITING, Sort.RUNNING, Sort.FINISHED):
        return [f"no task is {sort}; `horsies tasks ls` shows the newest of all"]
    return ["no task has been sent to this database yet", "an application sends one with `name_of_the_task.send(…)`"]


def show_statistics(
    choice: DatabaseChoice, text: str, names: Sequence[str], since: str, order: str, *, as_json: bool
) -> None:
    wanted = understood(text, parse)
    wanted = TaskFilter((*wanted.terms, Term("name", tuple(map(Glob, names))))) if names else wanted
    window = _window(since)
    found = read(
        choice, "tasks stats", lambda session: task_statistics(session.connection, task_conditions(wanted), window)
    )
    rows = found.sorted_by(StatisticsSort(order))
    if as_json:
        listed = [
            plain(row)
            | {"failed_share": row.failed_share, "busy": row.busy, "filter": found.filter_of(wanted, [row.name]).text}
            for row in rows
        ]
        heads = {"now": found.now, "since": found.since, "filter": wanted.text, "sort": order}
        print_json({**heads, "names": listed, "more_names": found.more_names})
        return
    screen = Screen.of(sys.stdout)
    if rows:
        say(f"of tasks that ended since {at(found.since, found.now)}")
        partly = any(row.partly for row in rows)
        columns = (*_NAMES, _SINCE) if partly else _NAMES
        say(*table(columns, [_name(row, found.now, partly=partly) for row in rows], screen))
    say_aside(_statistics_notes(found, rows, wanted), screen)


def _window(text: str) -> timedelta | datetime:
    try:
        moment = read_moment(text.strip().lower())
    except UnreadableValue as error:
        raise typer.BadParameter(f"--since: {error.message}") from None
    return moment.at or moment.ago or timedelta()


def _name(row: NameStatistics, now: datetime, *, partly: bool) -> list[TableCell | str]:
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


def _statistics_notes(found: TaskStatistics, rows: Sequence[NameStatistics], wanted: TaskFilter) -> list[str]:
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
