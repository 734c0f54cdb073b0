"""`horsies db prune`: delete old rows of ended work now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli.options import DatabaseOptions, JsonOption, YesOption, confirm_write, on_database

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice

_UNITS_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_CATEGORIES = ("heartbeats", "worker-states", "terminal-records", "operator-actions")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")]
OlderThanOption = Annotated[
    list[str] | None,
    typer.Option(
        "--older-than",
        metavar="CATEGORY=AGE",
        help="How long to keep one category, for example `heartbeats=12h` or `terminal-records=90d`; `never` keeps all "
        "of it. Categories: heartbeats, worker-states, terminal-records (tasks, attempts, workflows), operator-actions "
        "(the audit trail). May be repeated.",
    ),
]


@on_database
def prune(
    older_than: OlderThanOption = None,
    *,
    database: DatabaseOptions,
    dry_run: DryRunOption = False,
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
    from horsies.display.terminal import say

    choice = database.choose_existing()
    ages = dict(_age(text) for text in older_than or ())
    if not dry_run:
        confirm_write(choice, "prune", yes=yes)
    report = asyncio.run(_prune(choice, ages, dry_run=dry_run))
    if as_json:
        print_json(report)
    else:
        say(*_as_lines(report))
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


def _as_lines(report: dict[str, Any]) -> list[str]:
    verb = "would be deleted" if report["dry_run"] else "deleted"
    whose = f"worker {report['settings_from']}" if report["settings_from"] else "defaults"
    kept = ", ".join(f"{name.replace('_', '-')} {_span(age)}" for name, age in report["older_than_s"].items())
    lines = [f"in {report['database']}; kept: {kept} ({whose}, then --older-than)"]
    lines += [f"{table:<16}{rows:>12,} {verb}" for table, rows in report["rows"].items()]
    lines += [f"not deleted: {refused['row']}: {refused['error']}" for refused in report.get("refused", ())]
    return lines


def _age(text: str) -> tuple[str, float | None]:
    category, _, age = text.partition("=")
    if category not in _CATEGORIES:
        raise typer.BadParameter(f"{category!r} is no category; choose one of {', '.join(_CATEGORIES)}")
    if age == "never":
        return category, None
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age)
    if number is None:
        raise typer.BadParameter(f"{age!r} is no age; write for example {category}=12h, 30d, 8w, or never")
    return category, float(number[1]) * _UNITS_S[number[2]]


def _span(age_s: float | None) -> str:
    if age_s is None:
        return "for ever"
    unit = "d" if age_s % _UNITS_S["d"] == 0 else "h" if age_s % _UNITS_S["h"] == 0 else "m"
    return f"{age_s / _UNITS_S[unit]:g} {unit}"
