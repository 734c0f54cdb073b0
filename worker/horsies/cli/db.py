"""`horsies db`: create, inspect and upgrade the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli import prune
from horsies.cli.options import DatabaseOptions, JsonOption, YesOption, confirm_write, on_database
from horsies.cli.schema import migrate

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice

app = typer.Typer(name="db", help="Create, inspect, upgrade and prune the database.", no_args_is_help=True)

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the SQL, ready for psql, and change nothing.")]


@app.command()
@on_database
def init(database: DatabaseOptions, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Create the schema in an empty database.

    Safe to repeat, and to run on several machines at once: one creates the schema, the others wait. An older schema is
    not changed; `horsies db upgrade` brings it up to date.
    """
    import asyncio

    choice = database.choose()
    if not dry_run:
        confirm_write(choice, "init", yes=yes)
    asyncio.run(migrate(choice, "init", dry_run=dry_run))


@app.command()
@on_database
def upgrade(database: DatabaseOptions, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Bring an older schema, or one made by upstream horsies, up to date.

    No row is lost. Each step is one transaction, recorded in horsies_console_schema. Other sessions wait for the
    tables meanwhile: with a million tasks 2 s from our own version 7, 12 s from upstream. Use `--dry-run` first.
    """
    import asyncio

    choice = database.choose()
    if not dry_run:
        confirm_write(choice, "upgrade", yes=yes)
    asyncio.run(migrate(choice, "upgrade", dry_run=dry_run))


@app.command()
@on_database
def status(database: DatabaseOptions, as_json: JsonOption = False) -> None:
    """Show which database is used and why, and whether its schema fits this version.

    The exit code is 0 if workers can start on it, otherwise 1.
    """
    import asyncio

    from horsies.display.json_output import print_json
    from horsies.display.terminal import say

    report = asyncio.run(_status(database.choose_existing()))
    if as_json:
        print_json(report)
    else:
        say(*(f"{name:<10}{value}" for name, value in _as_lines(report)))
    raise typer.Exit(0 if report["schema"]["state"] == "current" else 1)


app.command()(prune.prune)


async def _status(choice: DatabaseChoice) -> dict[str, Any]:
    from horsies.config.contexts import ORDER
    from horsies.store.connect import open_database
    from horsies.store.schema import inspect_schema

    async with open_database(choice) as database:
        async with database.connected("db status") as connection:
            state = await inspect_schema(connection)
            user, version = await connection.fetchrow("SELECT current_user, current_setting('server_version')")
        return {
            "database": str(database.url),
            "reason": database.reason,
            "not_used": [{"database": str(other.url), "reason": other.reason} for other in choice.passed_over],
            "order": list(ORDER),
            "context": None if choice.context is None else choice.context.shown_name,
            "read_only": choice.read_only,
            "embedded_directory": None if database.embedded is None else str(database.embedded.place.root),
            "server": f"PostgreSQL {version}",
            "user": user,
            "schema": {
                "state": state.kind.name.lower(),
                "version": state.version,
                "pending": [migration.name for migration in state.pending],
                "detail": state.detail,
            },
        }


def _as_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("database", report["database"]),
        ("chosen", report["reason"]),
        *(("not used", f"{other['database']}: {other['reason']}") for other in report["not_used"]),
        ("server", f"{report['server']}, connected as {report['user']}"),
        ("schema", report["schema"]["detail"]),
    ]
    if report["embedded_directory"]:
        lines.insert(-1, ("files", f"{report['embedded_directory']}; the server runs only while something uses it"))
    if report["read_only"]:
        lines.append(("access", "read-only: this context never writes"))
    lines.append(("order", ", then ".join(report["order"])))
    return lines
