"""The steps of every verb: preview, show, confirm, apply under guard, report the result of each row."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any, Final, NoReturn

import typer

from horsies.cli.database import DatabaseOptions
from horsies.cli.options import INTERRUPTED
from horsies.cli.reading import READ_ONLY_SETTINGS, check_targets, unless_blocked
from horsies.cli.verbs.report import ABORTED, STOPPING, code_of, outcome_lines, preview_lines, report
from horsies.cli.verbs.typed_values import ApplicationTypes
from horsies.config.contexts import DatabaseChoice, advise
from horsies.display.formatting import number
from horsies.display.json_output import print_json
from horsies.display.terminal import Screen, ask, say
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask_word
from horsies.operations.audit_rows import require_writable
from horsies.operations.named_targets import selected
from horsies.operations.pipeline import apply, preview
from horsies.operations.target import Actor
from horsies.operations.undo import RENEW_EVERY_S, Hold
from horsies.operations.verb import COMMAND_GROUPS, TYPES, OperationOutcome, Preview, Verb
from horsies.store.connect import Connection, Database, open_database, with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS

_MAX_ROWS_CONFIRMED_BY_Y: Final = 20
_CANCELLED_WITHIN_S: Final = 2.0
_RELEASED_WITHIN_S: Final = 2.0
"""A hold that is not released ends by itself."""
_LONG: Final = 500
_UPGRADED: Final = frozenset({SchemaKind.CURRENT, SchemaKind.READ_ONLY})


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a verb. `command` is the command line after `horsies`."""

    choice: DatabaseChoice
    command: str
    reason: str | None
    dry_run: bool
    yes: bool
    read_only: bool
    as_json: bool

    @property
    def thing(self) -> str:
        """The kind of its targets: `tasks requeue` is for a task."""
        return self.command.split()[0].removesuffix("s")


def act(verb: Verb, given: Mapping[str, Any]) -> NoReturn:
    """Ends the command with its exit code. `given` are its arguments and options.

    The confirmation is between two runs of the event loop: inside one, ctrl+c would not interrupt the reading of a
    line.
    """
    choice = DatabaseOptions(given["database_url"], given["context"], given["module"]).choose_existing()
    switches = {name: given[name] for name in ("reason", "dry_run", "yes", "read_only", "as_json")}
    asked = Asked(choice, f"{COMMAND_GROUPS[verb.kind]} {verb.name}", **switches)
    check_targets(verb.kind, given)
    options = {option.name: given[option.name] for option in verb.options}
    if verb.typed and given["module"] is not None and any(value is not None for value in options.values()):
        # Before a connection is made. What the application prints is no part of --json.
        with redirect_stdout(sys.stderr):
            options[TYPES] = ApplicationTypes(given["module"])
    if not asked.dry_run:
        refuse_writes(asked.choice, asked.command, asked=asked.read_only)
    with asyncio.Runner() as runner:
        held = AsyncExitStack()
        try:
            database = runner.run(held.enter_async_context(open_database(asked.choice)))
            looking = _preview(database, asked, verb, given, options, held)
            seen = runner.run(unless_blocked(database, looking))
            outcome = None
            if seen.eligible and not asked.dry_run:
                if not asked.yes:
                    lines = preview_lines(seen, asked.thing, database.label, Screen.of(sys.stderr), dry_run=False)
                    say(*lines, stream=sys.stderr)
                    # The tasks of an undo are held: they do not run away from a number that is typed.
                    confirm(asked, 1 if verb.kind == "operation" else len(seen.eligible))
                outcome = _apply(runner, database, asked, seen)
        finally:
            runner.run(held.aclose())
    if asked.as_json:
        print_json(report(seen, outcome, database.label, dry_run=asked.dry_run))
    elif outcome is None:
        say(*preview_lines(seen, asked.thing, database.label, Screen.of(sys.stdout), dry_run=asked.dry_run))
    else:
        say(*outcome_lines(seen, outcome, Screen.of(sys.stdout), preview_shown=not asked.yes))
    raise typer.Exit(code_of(seen, outcome))


def refuse_writes(
    choice: DatabaseChoice,
    command: str,
    way_out: str = "use --dry-run to see what it would do, or a session that may write",
    *,
    asked: bool,
) -> None:
    """Refuse a change of a database that is read-only, before a connection is made. `asked`: by --read-only."""
    if not (asked or choice.read_only):
        return
    why = "--read-only was given"
    if choice.context is not None and choice.context.read_only:
        why = f"context {choice.context.shown_name!r} is read-only"
    raise ConfigurationError(
        f"{why}, so `horsies {command}` will not change anything", code=ErrorCode.CLI_INVALID_ARGS, help_text=way_out
    )


def confirm(asked: Asked, count: int) -> None:
    """Ask for confirmation: y; above twenty rows their number; in a production context its name."""
    context = asked.choice.context
    if context is not None and context.production:
        wanted, prompt = context.name, f"{context.shown_name} is a production database. Type its name to continue:"
    elif count > _MAX_ROWS_CONFIRMED_BY_Y:
        wanted, prompt = str(count), f"Type {number(count)} to continue:"
    else:
        wanted, prompt = "y", "Type y to continue:"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise _unchanged(
            "there is no terminal to confirm it in",
            "add --yes where there is none, or --dry-run to see what it would do",
        )
    typed = ask(prompt).strip()
    if wanted not in (typed, typed.replace(" ", "").replace(",", ""), typed.lower() if wanted == "y" else ""):
        raise _unchanged("it was not confirmed", f"type {mask_word(wanted)} when asked, or add --yes")


def _unchanged(why: str, way_out: str) -> ConfigurationError:
    return ConfigurationError(f"nothing was changed: {why}", code=ErrorCode.CLI_INVALID_ARGS, help_text=way_out)


async def require_upgraded(connection: Connection) -> None:
    """SchemaError with `horsies db upgrade`, or another remedy, if the tables for audit rows are missing."""
    state = await inspect_schema(connection)
    if state.kind not in _UPGRADED:
        raise state.error


async def _preview(
    database: Database,
    asked: Asked,
    verb: Verb,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    held: AsyncExitStack,
) -> Preview:
    """Preview with what an undo would restore held until `held` is closed."""
    settings = READ_ONLY_SETTINGS if asked.dry_run else READER_SETTINGS
    async with database.connected(asked.command, settings=settings) as connection:
        await require_upgraded(connection)
        if not asked.dry_run:
            await require_writable(connection)
        async with with_settings(connection):
            selection = await selected(connection, verb.kind, given)
            count = 0
            if verb.kind == "operation" and not asked.dry_run:
                hold = Hold(selection.ids[0])
                count = await hold.renew(connection)
                held.push_async_callback(_release, database, asked, hold)
                held.enter_context(_renewed(database, asked, hold))
            seen = await preview(connection, verb, selection, **options)
    return replace(seen, held=count, command=advise(seen.command, asked.choice.options))


@contextmanager
def _renewed(database: Database, asked: Asked, hold: Hold) -> Iterator[None]:
    """Renew the hold in a thread: ctrl+c must interrupt the reading of the confirmation, so no event loop runs then."""
    over = Event()

    async def renew() -> None:
        async with database.connected(asked.command, settings=READER_SETTINGS) as connection:
            await hold.renew(connection)

    def work() -> None:
        while not over.wait(RENEW_EVERY_S):
            with suppress(*CONNECTION_ERRORS):
                asyncio.run(renew())

    renewing = Thread(target=work, name="hold", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join(_RELEASED_WITHIN_S)


async def _release(database: Database, asked: Asked, hold: Hold) -> None:
    with suppress(*CONNECTION_ERRORS):
        async with asyncio.timeout(_RELEASED_WITHIN_S):
            async with database.connected(asked.command, settings=READER_SETTINGS) as connection:
                await hold.release(connection)


def _apply(runner: asyncio.Runner, database: Database, asked: Asked, seen: Preview) -> OperationOutcome:
    """Apply on a second connection, because the confirmation may have taken minutes.

    The first ctrl+c lets the current batch end, the second one aborts. If the work takes long enough, and stderr is a
    terminal, a progress bar is drawn there.
    """
    started: list[tuple[Connection, asyncio.Future[OperationOutcome]]] = []
    count = len(seen.eligible)
    drawn: Any = nullcontext()
    if count > _LONG and sys.stderr.isatty():
        drawn = typer.progressbar(length=count, label=seen.verb.name, file=sys.stderr, show_pos=True)

    async def work(bar: Any) -> OperationOutcome:
        on_progress = None if bar is None else lambda done, _of: bar.update(done - bar.pos)
        async with database.connected(asked.command, settings=READER_SETTINGS) as connection:
            applying = asyncio.ensure_future(
                apply(connection, seen, Actor.current(), asked.reason, on_progress=on_progress)
            )
            started.append((connection, applying))
            try:
                try:
                    return await asyncio.shield(applying)
                except asyncio.CancelledError:
                    say("", STOPPING, stream=sys.stderr)
                    applying.cancel()
                    return await applying
            except KeyboardInterrupt:  # it came while this ran and not the loop; closing would wait for the server
                await _break_off(connection, applying)
                raise

    with drawn as bar:
        try:
            return runner.run(work(bar))
        except KeyboardInterrupt:
            say(ABORTED, stream=sys.stderr)
            for each in started:
                runner.run(_break_off(*each))
            raise typer.Exit(INTERRUPTED) from None


async def _break_off(connection: Connection, applying: asyncio.Future[OperationOutcome]) -> None:
    """Cancel the statement, and hang up on a server that does not answer even that."""
    applying.cancel()
    await asyncio.wait([applying], timeout=_CANCELLED_WITHIN_S)
    connection.terminate()
