"""`horsies db`: create, inspect, upgrade and prune the database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli.database import DatabaseOptions, confirm_write, migrate, on_database
from horsies.cli.options import JsonOption, YesOption
from horsies.display.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.config.contexts import DatabaseChoice

app = typer.Typer(name="db", help="Create, inspect, upgrade and prune the database.", no_args_is_help=True)

_UNITS_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_CATEGORIES = ("heartbeats", "worker-states", "terminal-records", "operator-actions")

SqlOption = Annotated[bool, typer.Option("--dry-run", help="Print the SQL, ready for psql, and change nothing.")]
CountOption = Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")]
OlderThanOption = Annotated[
    list[str] | None,
    typer.Option(
        "--older-than",
        metavar="CATEGORY=AGE",
        help="How long to keep one category, for example `heartbeats=12h` or `terminal-records=90d`; `never` keeps all "
        "of it. Categories: heartbeats, worker-states, terminal-records (tasks, attempts, workflows), operator-actions "
        "(the audit log). May be repeated.",
    ),
]


@app.command()
@on_database
def init(database: DatabaseOptions, dry_run: SqlOption = False, yes: YesOption = False) -> None:
    """Create the schema in an empty database.

    Safe to repeat, and to run on several machines at once: one creates the schema, the others wait. An older schema is
    not changed; `horsies db upgrade` brings it up to date.
    """
    _migrate(database, "init", dry_run=dry_run, yes=yes)


@app.command()
@on_database
def upgrade(database: DatabaseOptions, dry_run: SqlOption = False, yes: YesOption = False) -> None:
    """Bring an older schema, or one made by upstream horsies, up to date.

    No row is lost. Each step is one transaction, recorded in horsies_console_schema. Meanwhile, other sessions wait for
    the tables: with a million tasks, 2 s from our own version 7, and 12 s from upstream. Use `--dry-run` first.
    """
    _migrate(database, "upgrade", dry_run=dry_run, yes=yes)


def _migrate(database: DatabaseOptions, command: str, *, dry_run: bool, yes: bool) -> None:
    import asyncio

    choice = database.choose()
    if not dry_run:
        confirm_write(choice, command, yes=yes)
    asyncio.run(migrate(choice, command, dry_run=dry_run))


@app.command()
@on_database
def status(database: DatabaseOptions, as_json: JsonOption = False) -> None:
    """Show which database is used and why, and whether its schema fits this version.

    The exit code is 0 if workers can start on it, otherwise 1.
    """
    import asyncio

    from horsies.display.json_output import print_json

    report = asyncio.run(_status(database.choose_existing()))
    if as_json:
        print_json(report)
    else:
        say(*(f"{name:<10}{value}" for name, value in _status_lines(report)))
    raise typer.Exit(0 if report["schema"]["state"] == "current" else 1)


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


def _status_lines(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "database", report["database"]
    yield "chosen", report["reason"]
    for other in report["not_used"]:
        yield "not used", f"{other['database']}: {other['reason']}"
    yield "server", f"{report['server']}, connected as {report['user']}"
    if report["embedded_directory"]:
        yield "files", f"{report['embedded_directory']}; the server runs only while something uses it"
    yield "schema", report["schema"]["detail"]
    if report["read_only"]:
        yield "access", "read-only: this context never writes"
    yield "order", ", then ".join(report["order"])


@app.command()
@on_database
def prune(
    database: DatabaseOptions,
    older_than: OlderThanOption = None,
    dry_run: CountOption = False,
    as_json: JsonOption = False,
    yes: YesOption = False,
) -> None:
    """Delete old heartbeats, worker snapshots, finished tasks and workflows, and operator actions.

    Workers do the same every hour. Without `--older-than` a category is kept as long as the newest worker keeps it. If
    no worker has reported that: heartbeats 24 h, worker states 7 d, terminal records 30 d, operator actions 365 d.
    Tasks of unfinished workflows are kept. An operation whose actions were deleted can no longer be undone. At most
    5,000 rows are deleted in one transaction, so it may run while workers are busy, and may be interrupted.
    """
    import asyncio

    from horsies.display.json_output import print_json

    choice = database.choose_existing()
    ages = dict(_age(text) for text in older_than or ())
    if not dry_run:
        confirm_write(choice, "prune", yes=yes)
    report = asyncio.run(_prune(choice, ages, dry_run=dry_run))
    if as_json:
        print_json(report)
    else:
        say(*_prune_lines(report))
    raise typer.Exit(1 if report.get("refused") else 0)


async def _prune(choice: DatabaseChoice, given: dict[str, float | None], *, dry_run: bool) -> dict[str, Any]:
    from horsies.lifecycle.retention import Category, ages_in_use, prunable, prune
    from horsies.store.connect import open_database
    from horsies.store.schema import SchemaKind, inspect_schema

    async with open_database(choice) as database, database.connected("db prune") as connection:
        state = await inspect_schema(connection)
        if state.kind is not SchemaKind.CURRENT and not (dry_run and state.kind is SchemaKind.READ_ONLY):
            raise state.error
        ages, told_by = await ages_in_use(connection)
        ages |= {Category(name.replace("-", "_")): age for name, age in given.items()}
        report: dict[str, Any] = {
            "database": database.label,
            "dry_run": dry_run,
            "settings_from": told_by,
            "older_than_s": {category.value: age for category, age in ages.items()},
        }
        if dry_run:
            return report | {"rows": await prunable(connection, ages)}
        done = await prune(connection, ages)
        return report | {
            "rows": dict(done.rows),
            "refused": [{"row": refused.item, "error": refused.error} for refused in done.refused],
        }


def _prune_lines(report: dict[str, Any]) -> Iterator[str]:
    verb = "would be deleted" if report["dry_run"] else "deleted"
    whose = f"worker {report['settings_from']}" if report["settings_from"] else "defaults"
    kept = ", ".join(f"{name.replace('_', '-')} {_span(age)}" for name, age in report["older_than_s"].items())
    yield f"in {report['database']}; kept: {kept} ({whose}, then --older-than)"
    yield from (f"{table:<16}{rows:>12,} {verb}" for table, rows in report["rows"].items())
    yield from (f"not deleted: {refused['row']}: {refused['error']}" for refused in report.get("refused", ()))


def _age(text: str) -> tuple[str, float | None]:
    category, _, age = text.partition("=")
    if category not in _CATEGORIES:
        raise typer.BadParameter(f"{category!r} is not a category; choose one of {', '.join(_CATEGORIES)}")
    if age == "never":
        return category, None
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age)
    if number is None:
        raise typer.BadParameter(f"{age!r} is not an age; write for example {category}=12h, 30d, 8w, or never")
    return category, float(number[1]) * _UNITS_S[number[2]]


def _span(age_s: float | None) -> str:
    if age_s is None:
        return "for ever"
    unit = "d" if age_s % _UNITS_S["d"] == 0 else "h" if age_s % _UNITS_S["h"] == 0 else "m"
    return f"{age_s / _UNITS_S[unit]:g} {unit}"
