"""`horsies tasks ls`: a page of tasks as a table, or as JSON."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Final

import typer

from horsies.cli.filters import understood
from horsies.cli.read_session import read
from horsies.display.formatting import ago, damage_lines, lasting, short, state
from horsies.display.json_output import cursor_time, print_json, read_cursor_time
from horsies.display.task_report import task_report
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.query import task_conditions
from horsies.views import Cursor, Sort, task_page
from horsies.views.workers import place_of

if TYPE_CHECKING:
    from horsies.cli.read_session import ReadSession
    from horsies.config.contexts import DatabaseChoice
    from horsies.query import TaskConditions
    from horsies.store.connect import Connection
    from horsies.views import TaskRow

_COLUMNS: Final = (
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


def list_tasks(
    choice: DatabaseChoice, text: str, order: str | None, *, limit: int, after: str | None, as_json: bool
) -> None:
    wanted = understood(text)
    sort, cursor = _place(order, after)

    async def work(session: ReadSession) -> tuple[list[TaskRow], datetime, Cursor | None]:
        return await _page(session.connection, task_conditions(wanted), sort, limit, cursor)

    rows, now, further = read(choice, "tasks ls", work)
    next_cursor = None if further is None else write_cursor(sort, further)
    if as_json:
        listed = [task_report(row, now) for row in rows]
        print_json({"now": now, "filter": wanted.text, "sort": sort, "tasks": listed, "next": next_cursor})
        return
    screen = Screen.of(sys.stdout)
    say(*table(_COLUMNS, [_cells(row, now, screen) for row in rows], screen) if rows else [])
    say(*damage_lines(rows, screen))
    for line in _footer(rows, wanted.text, sort, next_cursor, first=after is None):
        say(screen.paint(line, "dim"), stream=sys.stdout if screen.width else sys.stderr)


async def _page(
    connection: Connection, wanted: TaskConditions, sort: Sort, limit: int, after: Cursor | None
) -> tuple[list[TaskRow], datetime, Cursor | None]:
    """A page may end before it is full, if little matches: here there is time to continue."""
    rows: list[TaskRow] = []
    while True:
        page = await task_page(connection, wanted, sort=sort, limit=limit - len(rows), after=after)
        rows += page.rows
        after = page.next
        if after is None or len(rows) >= limit:
            return rows, page.now, after


def _cells(row: TaskRow, now: datetime, screen: Screen) -> list[TableCell | str]:
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


def _footer(rows: list[TaskRow], text: str, sort: Sort, next_cursor: str | None, *, first: bool) -> list[str]:
    if next_cursor is not None:
        words = ["horsies", "tasks", "ls", *(["--filter", text] if text else []), "--after", next_cursor]
        return [f"more: {shlex.join(words)}"]
    if rows:
        return []
    if not first:
        return ["there are no more"]
    if text:
        return [f"no task matches {text}", "`horsies tasks ls` shows the newest of all, --filter-help explains filters"]
    if sort in (Sort.WAITING, Sort.RUNNING, Sort.FINISHED):
        return [f"no task is {sort}; `horsies tasks ls` shows the newest of all"]
    return ["no task has been sent to this database yet", "an application sends one with `name_of_the_task.send(…)`"]


def write_cursor(sort: Sort, cursor: Cursor) -> str:
    return f"{sort}/{cursor.priority}/{cursor_time(cursor.time)}/{cursor.id}"


def read_cursor(text: str) -> tuple[Sort, Cursor]:
    try:
        sort, priority, time, task_id = text.split("/", 3)
        return Sort(sort), Cursor(read_cursor_time(time), task_id, int(priority))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no cursor; it is what a page prints at its end") from None


def _place(order: str | None, after: str | None) -> tuple[Sort, Cursor | None]:
    if after is None:
        return Sort(order or Sort.NEWEST), None
    sort, cursor = read_cursor(after)
    if order is not None and order != sort:
        raise typer.BadParameter(f"the cursor belongs to --sort {sort}, not to {order}")
    return sort, cursor
