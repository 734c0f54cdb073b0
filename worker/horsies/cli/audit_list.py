"""`horsies audit ls`: one line for an operation, or one for each of its rows."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import typer

from horsies.cli.formatting import ago, number, rows, short, unshortened
from horsies.cli.machine import plain, print_json
from horsies.cli.operation_ids import operation_of
from horsies.cli.payload import Masks
from horsies.cli.reading import read
from horsies.cli.tables import Cell, Column, Screen, say, table
from horsies.views import AuditCursor, audit_page, find_task, find_workflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies.cli.reading import Connection, Session
    from horsies.config.contexts import DatabaseChoice
    from horsies.views import AuditPage, AuditRow

_COLUMNS: Final = (
    Column("WHEN", rank=4),
    Column("AGO", right=True),
    Column("WHO", least=10, rank=3),
    Column("VERB"),
    Column("WHAT", least=18),
    Column("OUTCOME", least=20, rank=1),
    Column("REASON", least=10, rank=2),
    Column("OPERATION"),
)


def list_audit(
    choice: DatabaseChoice,
    operation: str | None,
    target: tuple[str, str] | None,
    *,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    cursor = None if after is None else _read_cursor(after)

    async def work(session: Session) -> tuple[AuditPage, list[str]]:
        """The page, and the options for the next one."""
        connection = session.connection
        operation_id = None if operation is None else await operation_of(connection, operation)
        whole = None if target is None else await _whole(connection, *target)
        options = [f"--{whole[0]}", whole[1]] if whole else []
        options += ["--operation", str(operation_id)] if operation_id else []
        page = await audit_page(connection, limit=limit, after=cursor, operation_id=operation_id, target=whole)
        return page, options

    page, options = read(choice, "audit ls", work)
    next_cursor = None if page.next is None else _write_cursor(page.next)
    if as_json:
        actions = Masks.of().on(plain(page.rows))  # the state before may contain a result
        print_json({"now": page.now, "actions": actions, "next": next_cursor})
        return
    screen = Screen.of(sys.stdout)
    for line in _lines(page, screen, each=operation is not None or target is not None):
        say(line)
    if next_cursor is not None:
        line = f"more: {shlex.join(['horsies', 'audit', 'ls', *options, '--after', next_cursor])}"
        say(screen.paint(line, "dim"), stream=sys.stdout if screen.width else sys.stderr)


def _lines(page: AuditPage, screen: Screen, *, each: bool) -> list[str]:
    if not page.recorded:
        return ["this database keeps no audit yet: `horsies db upgrade` makes a place for it"]
    if not page.rows:
        return ["no operator action is on record" if not each else "no operator action of that kind is on record"]
    groups = [[row] for row in page.rows] if each else [list(group) for _, group in groupby(page.rows, _SAME)]
    return table(_COLUMNS, [_cells(group, page, screen) for group in groups], screen)


_SAME: Final = attrgetter("operation_id", "verb", "target_kind")


def _cells(group: Sequence[AuditRow], page: AuditPage, screen: Screen) -> list[Cell | str]:
    first = group[0]
    cut_off = page.next is not None and group[-1] is page.rows[-1] and len(group) > 1
    one = short(first.target_id, screen) if first.target_kind in ("task", "workflow") else first.target_id
    return [
        f"{first.acted_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z",
        ago(first.acted_at, page.now),
        f"{first.os_user}@{first.os_host}",
        first.verb,
        one if len(group) == 1 else f"{rows(len(group), first.target_kind)}{'+' if cut_off else ''}",
        _outcome(group),
        first.reason or "",
        short(str(first.operation_id), screen),
    ]


def _outcome(group: Sequence[AuditRow]) -> Cell:
    refused = [row for row in group if row.outcome != "applied"]
    if len(group) == 1:
        row = group[0]
        words = row.outcome if row.outcome == "applied" else f"{row.outcome}: {row.detail or ''}"
        return Cell(f"{words}, taken back" if row.undone_by else words, "red" if refused else "")
    undone = sum(row.undone_by is not None for row in group)
    parts = [f"{number(len(group) - len(refused))} applied"]
    parts += [f"{number(len(refused))} refused"] if refused else []
    parts += [f"{number(undone)} taken back"] if undone else []
    return Cell(", ".join(parts), "red" if refused else "")


async def _whole(connection: Connection, kind: str, name: str) -> tuple[str, str]:
    if kind == "node":
        workflow_id, colon, index = name.rpartition(":")
        return kind, f"{(await _whole(connection, 'workflow', workflow_id))[1]}{colon}{index}"
    find = {"task": find_task, "workflow": find_workflow}.get(kind)
    found = None if find is None else await find(connection, name)
    return kind, found if isinstance(found, str) else unshortened(name)


def _write_cursor(cursor: AuditCursor) -> str:
    return f"{cursor.acted_at.isoformat().replace('+00:00', 'Z')}/{cursor.id}"


def _read_cursor(text: str) -> AuditCursor:
    try:
        time, number_of_row = text.split("/")
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is None:
            raise ValueError("no time zone")
        return AuditCursor(moment, int(number_of_row))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no cursor; it is what a page prints at its end") from None
