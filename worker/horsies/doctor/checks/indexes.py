"""The indexes of our tables: missing, invalid, or made by others and never used."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import size, span
from horsies.store.schema import MIGRATIONS, TABLES
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import asyncpg

    from horsies.doctor import CheckContext

_CREATE: Final = re.compile(r"^CREATE (UNIQUE )?INDEX IF NOT EXISTS (\w+)\s+(ON (\w+)[^;]*);", re.MULTILINE)
_MAX_NAMED: Final = 3
UNUSED_AFTER_S: Final = 7 * 86_400.0
"""Statistics of a shorter time say little: what runs once a week has not run yet."""


@cache
def expected() -> Mapping[str, str]:
    """Every index that the migrations make, and the statement that makes it without a lock that stops writers."""
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
    evidence = f"all {len(expected())} of ours are there and valid, {size(sum(row['bytes'] for row in rows))}"
    return [CheckLine(CheckVerdict.OK, evidence + _rarely_used(rows))]


def _rarely_used(rows: Sequence[asyncpg.Record]) -> str:
    """Return which of our own indexes are rarely used: no fault, because some serve rare queries."""
    unused = [row for row in rows if row["name"] in expected() and not row["scans"]]
    if not unused or unused[0]["counted_s"] < UNUSED_AFTER_S:
        return ""
    named = ", ".join(row["name"] for row in sorted(unused, key=lambda row: -row["bytes"])[:_MAX_NAMED])
    return f"; not used in {span(unused[0]['counted_s'])}: {len(unused)}, the largest {named}"


def _missing(rows: Sequence[asyncpg.Record]) -> Iterator[CheckLine]:
    """Yield the missing indexes. Without those in `contents.py` workers are very slow or do something twice."""
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
            yield CheckLine(
                CheckVerdict.WARN, f"{row['name']} on {row['on_table']} is invalid, and none of ours", remedy
            )


def _unused(rows: Sequence[asyncpg.Record], schema: str) -> Iterator[CheckLine]:
    for row in rows:
        if row["counted_s"] < UNUSED_AFTER_S or not row["valid"] or row["is_constraint"] or row["name"] in expected():
            continue
        if not row["scans"]:
            evidence = (
                f"{row['name']} on {row['on_table']} is none of ours and was not used in {span(row['counted_s'])}"
            )
            remedy = f"DROP INDEX CONCURRENTLY {schema}.{quoted(row['name'])}"
            yield CheckLine(
                CheckVerdict.WARN, f"{evidence}; each write of the table keeps its {size(row['bytes'])} up", remedy
            )


CHECKS = (Check("indexes", 60, _indexes, needs_tables=True),)
