"""`horsies audit ls`: one line for each operation, or for each audit row of what is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import typer

from horsies.cli.reading import ReadSession, cursor_of, next_page, read, say_aside
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import ago, damage_lines, number, short
from horsies.display.json_output import cursor_time, plain, print_json, read_cursor_time
from horsies.display.payload import Masks
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.quantities import counted
from horsies.operations.named_targets import operation_of, unshortened
from horsies.query import ActivityFilter, Term
from horsies.query.problems import UnreadableValue
from horsies.query.values import Glob, read_moment
from horsies.store.connect import Connection
from horsies.views import (
    AuditCursor,
    AuditPage,
    AuditRow,
    OperationPage,
    OperationRow,
    audit_page,
    find_task,
    find_workflow,
    operation_page,
)

_COLUMNS: Final = (
    TableColumn("WHEN", rank=5),
    TableColumn("AGO", right=True),
    TableColumn("WHO", least=10, rank=3),
    TableColumn("VERB"),
    TableColumn("WHAT", least=18),
    TableColumn("OUTCOME", least=20, rank=1),
    TableColumn("REASON", least=10, rank=2),
    TableColumn("ROLE", least=6, rank=4),
    TableColumn("OPERATION"),
)


def list_operations(
    choice: DatabaseChoice, narrowed: Mapping[str, str], *, limit: int, after: str | None, as_json: bool
) -> None:
    """List operations. `narrowed`: the values of --since, --by and --verb that were given."""
    wanted = ActivityFilter(tuple(_term(key, text) for key, text in narrowed.items()))
    before = None if after is None else cursor_of(after, read_cursor_time)

    page = read(
        choice, "audit ls", lambda session: operation_page(session.connection, wanted, limit=limit, before=before)
    )
    next_cursor = None if page.next is None else cursor_time(page.next)
    if as_json:
        print_json({"now": page.now, "operations": page.rows, "next": next_cursor})
        return
    none = "no such operation is recorded" if narrowed else "no operator action is recorded"
    options = [f"--{key}={text}" for key, text in narrowed.items()]
    _print(page, _cells_of_operation, none, options, next_cursor)


def list_actions(
    choice: DatabaseChoice,
    operation: str | None,
    target: tuple[str, str] | None,
    *,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    cursor = None if after is None else cursor_of(after, _place)

    async def work(session: ReadSession) -> tuple[AuditPage, list[str]]:
        """Return the page, and the options for the next one."""
        connection = session.connection
        operation_id = None if operation is None else await operation_of(connection, operation)
        whole = None if target is None else await _whole(connection, *target)
        options = [f"--{whole[0]}", whole[1]] if whole else []
        options += ["--operation", str(operation_id)] if operation_id else []
        page = await audit_page(connection, limit=limit, after=cursor, operation_id=operation_id, target=whole)
        return page, options

    page, options = read(choice, "audit ls", work)
    next_cursor = None if page.next is None else f"{cursor_time(page.next.acted_at)}/{page.next.id}"
    if as_json:
        actions = Masks.of().on(plain(page.rows))  # the state before may contain a result
        print_json({"now": page.now, "actions": actions, "next": next_cursor}, is_stored=True)
        return
    _print(page, _cells_of_row, "no such operator action is recorded", options, next_cursor)


def _print(
    page: AuditPage | OperationPage,
    cells: Callable[[Any, datetime, Screen], list[TableCell | str]],
    none: str,
    options: list[str],
    next_cursor: str | None,
) -> None:
    screen = Screen.of(sys.stdout)
    if not page.recorded:
        say("this database has no audit log yet: `horsies db upgrade` adds it")
    elif page.rows:
        say(*table(_COLUMNS, [cells(row, page.now, screen) for row in page.rows], screen))
    elif next_cursor is None:
        say(none)
    say(*damage_lines(page.rows, screen))
    if next_cursor is not None:
        say_aside([next_page("audit ls", options, next_cursor)], screen)


def _cells_of_operation(row: OperationRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    what = counted(row.targets, row.kinds[0] if len(row.kinds) == 1 else "target")
    parts = [f"{number(row.applied)} applied"]
    parts += [f"{number(row.refused)} refused"] if row.refused else []
    parts += [f"{number(row.undone)} undone"] if row.undone else []
    return [
        *_when(row.acted_at, now),
        row.who,
        row.verb,
        what if row.targets > 1 else _target(row.kinds[0], row.target_id, screen),
        TableCell(", ".join(parts), "red" if row.refused else ""),
        row.reason or "",
        row.db_role,
        short(str(row.operation_id), screen),
    ]


def _cells_of_row(row: AuditRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    applied = row.outcome == "applied"
    words = row.outcome if applied else f"{row.outcome}: {row.detail or ''}"
    return [
        *_when(row.acted_at, now),
        f"{row.os_user}@{row.os_host}",
        row.verb,
        _target(row.target_kind, row.target_id, screen),
        TableCell(f"{words}, undone" if row.undone_by else words, "" if applied else "red"),
        row.reason or "",
        row.db_role,
        short(str(row.operation_id), screen),
    ]


def _when(moment: datetime, now: datetime) -> tuple[str, str]:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z", ago(moment, now)


def _target(kind: str, target_id: str, screen: Screen) -> str:
    return short(target_id, screen) if kind in ("task", "workflow") else target_id


def _term(key: str, text: str) -> Term:
    try:
        return Term(key, (read_moment(text.lower()) if key == "since" else Glob(text),))
    except UnreadableValue as error:
        raise typer.BadParameter(f"--{key}: {error.message}") from None


async def _whole(connection: Connection, kind: str, name: str) -> tuple[str, str]:
    if kind == "node":
        workflow_id, colon, index = name.rpartition(":")
        return kind, f"{(await _whole(connection, 'workflow', workflow_id))[1]}{colon}{index}"
    find = {"task": find_task, "workflow": find_workflow}.get(kind)
    found = None if find is None else await find(connection, name)
    return kind, found if isinstance(found, str) else unshortened(name)


def _place(text: str) -> AuditCursor:
    time, number_of_row = text.split("/")
    return AuditCursor(read_cursor_time(time), int(number_of_row))
