"""The parts that reading commands share: filters, read-only sessions on any version of the tables, pages, exports.

A read that waits for a lock ends with the name of its holder.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import typer

from horsies.cli.options import NOTHING_MATCHED
from horsies.config.contexts import DatabaseChoice
from horsies.display.exporting import Export, Format, export_rows, new_file
from horsies.display.terminal import Screen, rewrite, say, say_error
from horsies.domain.quantities import counted
from horsies.domain.states import TargetKind
from horsies.findings.blockers import BlockedError, Blocker, blockers
from horsies.query import TASKS, WORKFLOWS, FilterError, parse, parse_workflows
from horsies.store.connect import Connection, Database, DatabaseUnavailable, open_database, with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS, Cursor, Page

T = TypeVar("T")

READ_ONLY_SETTINGS: Final = (*READER_SETTINGS, ("default_transaction_read_only", "on"))
_UNREADABLE: Final = frozenset({SchemaKind.EMPTY, SchemaKind.FOREIGN})
_WRONG_COMMAND_LINE: Final = 2
_ROWS_PER_PROGRESS: Final = 10_000
_BLOCKERS_WITHIN_S: Final = 3.0
_BLOCKERS_EVERY_S: Final = 1.5
"""The time after which the server is asked, on another connection, whether a statement waits for a lock."""


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A connection, and the description of its database."""

    connection: Connection
    label: str


def read(
    choice: DatabaseChoice, role: str, work: Callable[[ReadSession], Awaitable[T]], *, needs_tables: bool = True
) -> T:
    """Run `work` in a read-only session.

    Older tables and those of upstream are read as well; without tables, SchemaError says how to create them.
    """

    async def run(database: Database, connection: Connection) -> T:
        if needs_tables:
            state = await inspect_schema(connection)
            if state.kind in _UNREADABLE:
                raise state.error
        async with with_settings(connection):
            return await work(ReadSession(connection, database.label))

    async def connect() -> T:
        async with (
            open_database(choice) as database,
            database.connected(role, settings=READ_ONLY_SETTINGS) as connection,
        ):
            return await unless_blocked(database, run(database, connection))

    return asyncio.run(connect())


async def unless_blocked(database: Database, work: Coroutine[Any, Any, T]) -> T:
    """Run the work; BlockedError as soon as the server says that sessions of ours wait for another one's lock."""
    working = asyncio.ensure_future(work)
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=_BLOCKERS_EVERY_S)
            if not working.done():
                await _raise_if_blocked(database)
        return working.result()
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError, *CONNECTION_ERRORS):
            await working


async def _raise_if_blocked(database: Database) -> None:
    """Raise BlockedError if a session blocks ours. Without a second connection, return: the cause stays unknown."""
    found: tuple[Blocker, ...] = ()
    with suppress(DatabaseUnavailable, *CONNECTION_ERRORS):
        async with (
            asyncio.timeout(_BLOCKERS_WITHIN_S),
            database.connected("blockers", settings=READ_ONLY_SETTINGS) as connection,
            with_settings(connection),
        ):
            found = await blockers(connection)
    if found:
        raise BlockedError(found)


def understood(text: str, parse: Callable[[str], T]) -> T:
    """Return the filter; if it is invalid, end the command with the place and the probable meaning."""
    try:
        return parse(text)
    except FilterError as error:
        error.with_note("--filter-help explains filters")
        say_error(error)
        raise typer.Exit(_WRONG_COMMAND_LINE) from error


def check_targets(kind: TargetKind, given: Mapping[str, Any]) -> None:
    """End the command before it connects, unless exactly one of ids and a filter that can be parsed is given."""
    if kind not in ("task", "workflow"):
        return
    ids, text, language = given["ids"], given["filter_text"], TASKS if kind == "task" else WORKFLOWS
    thing = language.thing
    if ids and text is not None:
        raise typer.BadParameter("give either ids or --filter, not both")
    if not ids and text is None:
        raise typer.BadParameter(f"no {thing} is selected: give ids or --filter")
    if text is not None and not text.strip():
        raise typer.BadParameter(f"an empty filter matches every {thing}; to select all of them, write --filter '*'")
    for word in ids or ():
        key, colon, _ = word.removeprefix("-").lower().partition(":")
        if colon and key in language.keys.keys() | language.said_elsewhere:
            raise typer.BadParameter(f"{word!r} is not an id; write a filter as --filter {word!r}")
    if text is not None:
        understood(text, parse if kind == "task" else parse_workflows)


def read_page(
    choice: DatabaseChoice,
    role: str,
    page: Callable[[Connection, int, Cursor | None], Awaitable[Page[T]]],
    limit: int,
    after: Cursor | None,
) -> tuple[list[T], datetime, Cursor | None]:
    """Return rows, the database's time, and the place of the next page.

    `page` may return less than the limit if little matches: a command has time to continue.
    """

    async def work(session: ReadSession) -> tuple[list[T], datetime, Cursor | None]:
        rows: list[T] = []
        place = after
        while True:
            got = await page(session.connection, limit - len(rows), place)
            rows += got.rows
            place = got.next
            if place is None or len(rows) >= limit:
                return rows, got.now, place

    return read(choice, role, work)


def no_such_id(kind: str, text: str) -> str:
    return f"no {kind} has the id {text}, or an id that begins or ends with it"


def require_found(found: T | None, kind: str, text: str) -> T:
    """Return what was found; if nothing was, end the command."""
    if found is None:
        say(no_such_id(kind, text), stream=sys.stderr)
        raise typer.Exit(NOTHING_MATCHED)
    return found


def cursor_of(text: str, read_as: Callable[[str], T]) -> T:
    try:
        return read_as(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a cursor; a list prints one at its end") from None


def say_aside(lines: Iterable[str], screen: Screen) -> None:
    """Print what is no row of a table, on stderr where stdout is a pipe."""
    for line in lines:
        say(screen.paint(line, "dim"), stream=sys.stdout if screen.width else sys.stderr)


def next_page(command: str, options: list[str], cursor: str) -> str:
    return f"more: {shlex.join(['horsies', *command.split(), *options, '--after', cursor])}"


def write_export(choice: DatabaseChoice, rows: Export[Any], form: str, path: Path | None) -> None:
    """Write all rows to a new file, or to standard output."""

    def work(out: IO[str], on_progress: Callable[[int], None]) -> int:
        async def write(session: ReadSession) -> int:
            return await export_rows(session.connection, rows, Format(form), out, on_progress)

        return read(choice, f"{rows.name} export", write)

    if path is None:
        work(sys.stdout, lambda _count: None)
        return
    with new_file(path) as out:
        count = work(out, _show_progress)
    say(f"{count:,} {rows.name} in {path}", stream=sys.stderr)


def _show_progress(rows: int) -> None:
    if rows and rows % _ROWS_PER_PROGRESS == 0 and sys.stderr.isatty():
        rewrite(counted(rows, "row"), stream=sys.stderr)
