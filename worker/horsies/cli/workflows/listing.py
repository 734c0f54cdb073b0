"""`horsies workflows ls`: a page of workflows as a table, or as JSON."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from horsies.cli.filters import understood_workflows
from horsies.cli.read_session import read
from horsies.display.formatting import damage_lines, lasting, number, short, state
from horsies.display.json_output import cursor_time, plain, print_json, read_cursor_time
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.query import workflow_conditions
from horsies.views import Cursor, workflow_page

if TYPE_CHECKING:
    from horsies.cli.read_session import ReadSession
    from horsies.config.contexts import DatabaseChoice
    from horsies.query import WorkflowConditions
    from horsies.store.connect import Connection
    from horsies.views import WorkflowRow

_COLUMNS: Final = (
    TableColumn("STATE"),
    TableColumn("ID"),
    TableColumn("NAME", least=12),
    TableColumn("NODES", right=True),
    TableColumn("RUNNING", right=True, rank=5),
    TableColumn("WAITING", right=True, rank=6),
    TableColumn("FAILED", right=True, rank=4),
    TableColumn("AGE", right=True),
    TableColumn("RUN", right=True, rank=2),
    TableColumn("FAILED AT", least=8, rank=3),
    TableColumn("ERROR", least=9, rank=1),
)


def list_workflows(choice: DatabaseChoice, text: str, *, limit: int, after: str | None, as_json: bool) -> None:
    wanted = understood_workflows(text)
    cursor = None if after is None else _read_cursor(after)

    async def work(session: ReadSession) -> tuple[list[WorkflowRow], datetime, Cursor | None]:
        return await _page(session.connection, workflow_conditions(wanted), limit, cursor)

    rows, now, further = read(choice, "workflows ls", work)
    next_cursor = None if further is None else _write_cursor(further)
    if as_json:
        listed = [workflow_report(row, now) for row in rows]
        print_json({"now": now, "filter": wanted.text, "workflows": listed, "next": next_cursor})
        return
    screen = Screen.of(sys.stdout)
    say(*table(_COLUMNS, [_cells(row, now, screen) for row in rows], screen) if rows else [])
    say(*damage_lines(rows, screen))
    for line in _footer(rows, wanted.text, next_cursor, first=after is None):
        say(screen.paint(line, "dim"), stream=sys.stdout if screen.width else sys.stderr)


def workflow_report(row: WorkflowRow, now: datetime) -> dict[str, Any]:
    """A workflow for `--json`: the stored fields, and those derived from them at `now`."""
    stored: dict[str, Any] = plain(row)
    age_s, run_s = (now - row.sent_at).total_seconds(), row.run(now).total_seconds()
    return stored | {"done": row.done, "share": row.share, "age_s": age_s, "run_s": run_s}


async def _page(
    connection: Connection, wanted: WorkflowConditions, limit: int, after: Cursor | None
) -> tuple[list[WorkflowRow], datetime, Cursor | None]:
    """A page may end before it is full, if little matches: here there is time to continue."""
    rows: list[WorkflowRow] = []
    while True:
        page = await workflow_page(connection, wanted, limit=limit - len(rows), after=after)
        rows += page.rows
        after = page.next
        if after is None or len(rows) >= limit:
            return rows, page.now, after


def _cells(row: WorkflowRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    return [
        state(row.status, screen),
        short(row.id, screen),
        row.name,
        f"{number(row.done)}/{number(row.total)}",
        number(row.running) if row.running else "",
        number(row.waiting) if row.waiting else "",
        TableCell(number(row.failed) if row.failed else "", "red"),
        lasting(now - row.sent_at),
        lasting(row.run(now)),
        row.failed_node or "",
        TableCell(row.error_code or "", "red" if row.status == "FAILED" else ""),
    ]


def _footer(rows: list[WorkflowRow], text: str, next_cursor: str | None, *, first: bool) -> list[str]:
    if next_cursor is not None:
        words = ["horsies", "workflows", "ls", *(["--filter", text] if text else []), "--after", next_cursor]
        return [f"more: {shlex.join(words)}"]
    if rows:
        return []
    if not first:
        return ["there are no more"]
    if text:
        hint = "`horsies workflows ls` shows the newest of all, --filter-help explains filters"
        return [f"no workflow matches {text}", hint]
    return ["no workflow has been started in this database yet", "an application starts one with `spec.start()`"]


def _write_cursor(cursor: Cursor) -> str:
    return f"{cursor_time(cursor.time)}/{cursor.id}"


def _read_cursor(text: str) -> Cursor:
    try:
        time, workflow_id = text.split("/", 1)
        return Cursor(read_cursor_time(time), workflow_id)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no cursor; it is what a page prints at its end") from None
