"""The usual duration of a task name's runs: from its newest completed tasks of the last day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.damage import number
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

USUAL_OVER: Final = timedelta(days=1)
MOST_OF_A_NAME: Final = 500
"""Ended tasks read of each name: 20 names take 23 ms among ten million tasks."""
MOST_ATTEMPTS: Final = 10_000
"""Of all names together, where the index by name is missing."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The median and the 95th percentile of `runs` completed runs, in the column order of the statement."""

    p50_s: float
    p95_s: float
    runs: int


async def usual_durations(conn: asyncpg.Connection, names: Iterable[str]) -> Mapping[str, Usual]:
    """Read the usual durations by name, without names that completed nothing among their newest tasks of the last day.

    Databases of upstream have no index by name: there the newest attempts of all names are read.
    """
    wanted = [*set(names)]
    if not wanted:
        return {}
    indexed = await conn.fetchval(statement(__name__, "view_has_index_by_name"))
    if indexed:
        rows = await conn.fetch(statement(__name__, "view_usual_durations"), wanted, USUAL_OVER, MOST_OF_A_NAME)
    else:
        rows = await conn.fetch(statement(__name__, "view_usual_attempts"), wanted, USUAL_OVER, MOST_ATTEMPTS)
    return {row["name"]: Usual(number(row["p50_s"]) or 0.0, number(row["p95_s"]) or 0.0, row["runs"]) for row in rows}
