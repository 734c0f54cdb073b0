"""Our tables: whether a worker could start on the schema, which indexes there are, and whether vacuum keeps up."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted, size, span
from horsies.store.schema import LEDGER, MIGRATIONS, TABLES, SchemaKind
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import asyncpg

    from horsies.doctor import CheckContext

_VERDICTS: Final = {SchemaKind.CURRENT: CheckVerdict.OK, SchemaKind.READ_ONLY: CheckVerdict.WARN}
_MAX_OBJECTS: Final = 10
_CREATE: Final = re.compile(r"^CREATE (UNIQUE )?INDEX IF NOT EXISTS (\w+)\s+(ON (\w+)[^;]*);", re.MULTILINE)
_MAX_NAMED: Final = 3
UNUSED_AFTER_S: Final = 7 * 86_400.0
"""Seconds that statistics must cover: in a shorter time a weekly job has not run yet."""
_FEW_DEAD_ROWS: Final = 10_000
"""Dead rows that slow no table down."""
_TIMES_THRESHOLD: Final = 5
"""Multiple of autovacuum's threshold of dead rows from which it does not keep up: a table that changes all the time has
up to twice the threshold while it is being vacuumed."""


async def _schema(context: CheckContext) -> Iterable[CheckLine]:
    state = context.schema
    return [CheckLine(_VERDICTS.get(state.kind, CheckVerdict.FAIL), state.problem, state.way_out or None)]


async def _search_path(context: CheckContext) -> Iterable[CheckLine]:
    """Check what the names in our functions and statements refer to.

    A function or operator whose types fit a call better than PostgreSQL's own runs in its place, with the rights of the
    caller. Our functions and calls name PostgreSQL's schema; operators in statements cannot.
    """
    name = context.schema.schema
    (schema,) = await context.fetch(statement(__name__, "doctor_search_path"), name)
    lines = [
        CheckLine(
            CheckVerdict.FAIL,
            f"function {row['name']} resolves names by the search path of each session",
            f"TRUNCATE {LEDGER} and run `horsies db upgrade`, which recreates it and keeps every row",
        )
        for row in await context.fetch(statement(__name__, "doctor_unbound_functions"), name, schema["path"])
    ]
    lines += [
        CheckLine(
            CheckVerdict.FAIL,
            f"{row['kind'].lower()} {row['name']} of role {row['owner']} can run in place of PostgreSQL's or ours, with"
            " the rights of the sender of a task",
            f"DROP {row['kind']} {row['name']}",
        )
        for row in await context.fetch(statement(__name__, "doctor_objects_of_others"), name, _MAX_OBJECTS)
    ]
    if schema["open"]:
        evidence = f"every role may create functions and operators in schema {name}, which others then run unawares"
        lines.append(CheckLine(CheckVerdict.WARN, evidence, f"REVOKE CREATE ON SCHEMA {quoted(name)} FROM PUBLIC"))
    return lines or [
        CheckLine(CheckVerdict.OK, f"our functions are bound; only granted roles may create in schema {name}")
    ]


@cache
def expected() -> Mapping[str, str]:
    """Return each index of the migrations with the statement that creates it without blocking writers."""
    found = (match for migration in MIGRATIONS for match in _CREATE.finditer(migration.sql))
    return {
        match[2]: f"CREATE {match[1] or ''}INDEX CONCURRENTLY {match[2]} {' '.join(match[3].split())}"
        for match in found
    }


async def _indexes(context: CheckContext) -> Iterable[CheckLine]:
    schema = context.schema.schema
    rows = await context.fetch(statement(__name__, "doctor_indexes"), schema, list(TABLES))
    lines = [*_missing(rows), *_invalid(rows, quoted(schema)), *_unused(rows, quoted(schema))]
    if lines:
        return lines
    evidence = f"all {len(expected())} of ours exist and are valid, {size(sum(row['bytes'] for row in rows))}"
    return [CheckLine(CheckVerdict.OK, evidence + _rarely_used(rows))]


def _rarely_used(rows: Sequence[asyncpg.Record]) -> str:
    """Return our own unused indexes in words. That is no fault, because some serve rare queries."""
    unused = [row for row in rows if row["name"] in expected() and not row["scans"]]
    if not unused or unused[0]["counted_s"] < UNUSED_AFTER_S:
        return ""
    named = ", ".join(row["name"] for row in sorted(unused, key=lambda row: -row["bytes"])[:_MAX_NAMED])
    return f"; not used in {span(unused[0]['counted_s'])}: {len(unused)}, the largest {named}"


def _missing(rows: Sequence[asyncpg.Record]) -> Iterator[CheckLine]:
    """Yield the missing indexes. Without those in `contents.py`, workers are very slow or act twice."""
    there = {row["name"] for row in rows}
    vital = frozenset().union(*(table.indexes for table in TABLES.values()))
    for name, create in expected().items():
        if name not in there:
            verdict = CheckVerdict.FAIL if name in vital else CheckVerdict.WARN
            yield CheckLine(verdict, f"{name} is missing", create)


def _invalid(rows: Sequence[asyncpg.Record], schema: str) -> Iterator[CheckLine]:
    for row in rows:
        if row["valid"]:
            continue
        if row["being_built"]:
            yield CheckLine(CheckVerdict.OK, f"{row['name']} is being built")
        elif row["name"] in expected():
            remedy = f"REINDEX INDEX CONCURRENTLY {schema}.{quoted(row['name'])}"
            yield CheckLine(CheckVerdict.FAIL, f"{row['name']} is invalid: it costs writes and serves no read", remedy)
        else:
            remedy = f"DROP INDEX CONCURRENTLY {schema}.{quoted(row['name'])}"
            yield CheckLine(CheckVerdict.WARN, f"{row['name']} on {row['on_table']} is invalid, and not ours", remedy)


def _unused(rows: Sequence[asyncpg.Record], schema: str) -> Iterator[CheckLine]:
    for row in rows:
        if row["counted_s"] < UNUSED_AFTER_S or not row["valid"] or row["is_constraint"] or row["name"] in expected():
            continue
        if not row["scans"]:
            evidence = f"{row['name']} on {row['on_table']} is not ours and was not used in {span(row['counted_s'])}"
            remedy = f"DROP INDEX CONCURRENTLY {schema}.{quoted(row['name'])}"
            yield CheckLine(
                CheckVerdict.WARN, f"{evidence}; each write to the table maintains its {size(row['bytes'])}", remedy
            )


async def _vacuum(context: CheckContext) -> Iterable[CheckLine]:
    schema = context.schema.schema
    rows = await context.fetch(statement(__name__, "doctor_dead_rows"), schema, list(TABLES))
    lines = [*_switched_off(rows), *(line for row in rows for line in _of_table(row, quoted(schema)))]
    if lines:
        return lines
    worst = max(rows, key=lambda row: int(row["dead"]))
    whole = sum(row["bytes"] for row in rows)
    dead = f"most dead rows in {worst['name']}, {worst['dead']:,} beside {worst['living']:,}, {_last_vacuum(worst)}"
    return [CheckLine(CheckVerdict.OK, f"{counted(len(rows), 'table')}, {size(whole)} with indexes; {dead}")]


def _switched_off(rows: list[asyncpg.Record]) -> Iterator[CheckLine]:
    for name in ("autovacuum", "track_counts"):
        if rows and not rows[0][name]:
            remedy = f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()"
            yield CheckLine(CheckVerdict.FAIL, f"{name} is off: dead rows stay, and every claim gets slower", remedy)


def _of_table(row: asyncpg.Record, schema: str) -> Iterator[CheckLine]:
    table = f"{schema}.{quoted(row['name'])}"
    dead = f"{row['dead']:,} dead rows beside {row['living']:,}, {_last_vacuum(row)}"
    if not row["enabled"]:
        remedy = f"ALTER TABLE {table} RESET (autovacuum_enabled)"
        verdict = CheckVerdict.FAIL if row["dead"] > max(row["threshold"], _FEW_DEAD_ROWS) else CheckVerdict.WARN
        yield CheckLine(verdict, f"autovacuum is off for {row['name']}: {dead}", remedy)
    elif row["dead"] > max(_TIMES_THRESHOLD * row["threshold"], _FEW_DEAD_ROWS):
        remedy = f"VACUUM (ANALYZE) {table}  -- effective only without long transactions"
        yield CheckLine(CheckVerdict.WARN, f"autovacuum does not keep up with {row['name']}: {dead}", remedy)


def _last_vacuum(row: asyncpg.Record) -> str:
    return "never vacuumed" if row["vacuumed_s"] is None else f"vacuumed {span(row['vacuumed_s'])} ago"


CHECKS = (
    Check("schema", 10, _schema),
    Check("search path", 15, _search_path, needs_tables=True),
    Check("indexes", 60, _indexes, needs_tables=True),
    Check("vacuum", 70, _vacuum, needs_tables=True),
)
