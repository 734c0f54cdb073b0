"""Dead rows of our tables, and whether autovacuum removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted, size, span
from horsies.store.schema import TABLES
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import asyncpg

    from horsies.doctor import CheckContext

_FEW: Final = 10_000
"""Dead rows that no table is slow from."""
_OVERDUE: Final = 5
"""How many times more dead rows than the threshold of autovacuum mean that it does not keep up: a table that changes
all the time has up to twice as many while it is being vacuumed."""


async def _vacuum(context: CheckContext) -> Iterable[CheckLine]:
    schema = context.schema.schema
    rows = await context.fetch(statement(__name__, "doctor_dead_rows"), schema, list(TABLES))
    lines = [*_switched_off(rows), *(line for row in rows for line in _of_table(row, quoted(schema)))]
    if lines:
        return lines
    worst = max(rows, key=lambda row: int(row["dead"]))
    whole = sum(row["bytes"] for row in rows)
    dead = f"most dead rows in {worst['name']}, {worst['dead']:,} beside {worst['living']:,}, {_last(worst)}"
    return [CheckLine(CheckVerdict.OK, f"{counted(len(rows), 'table')}, {size(whole)} with indexes; {dead}")]


def _switched_off(rows: list[asyncpg.Record]) -> Iterator[CheckLine]:
    for name in ("autovacuum", "track_counts"):
        if rows and not rows[0][name]:
            remedy = f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()"
            yield CheckLine(CheckVerdict.FAIL, f"{name} is off: dead rows stay, and every claim gets slower", remedy)


def _of_table(row: asyncpg.Record, schema: str) -> Iterator[CheckLine]:
    table = f"{schema}.{quoted(row['name'])}"
    dead = f"{row['dead']:,} dead rows beside {row['living']:,}, {_last(row)}"
    if not row["enabled"]:
        remedy = f"ALTER TABLE {table} RESET (autovacuum_enabled)"
        verdict = CheckVerdict.FAIL if row["dead"] > max(row["threshold"], _FEW) else CheckVerdict.WARN
        yield CheckLine(verdict, f"autovacuum is off for {row['name']}: {dead}", remedy)
    elif row["dead"] > max(_OVERDUE * row["threshold"], _FEW):
        remedy = f"VACUUM (ANALYZE) {table}  -- it helps only when no long transaction is left"
        yield CheckLine(CheckVerdict.WARN, f"autovacuum does not keep up with {row['name']}: {dead}", remedy)


def _last(row: asyncpg.Record) -> str:
    return "never vacuumed" if row["vacuumed_s"] is None else f"vacuumed {span(row['vacuumed_s'])} ago"


CHECKS = (Check("vacuum", 70, _vacuum, needs_tables=True),)
