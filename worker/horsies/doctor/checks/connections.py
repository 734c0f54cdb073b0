"""The budget of connections: what there is, what is used, and what workers and programs that send may use at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncpg

    from horsies.doctor import CheckContext

MOST_OF_A_WORKER: Final = 10
"""The connections of a worker (`horsies.run.worker.worker`), one for listening, one for schedules;
two more while it sweeps and prunes."""
_ALIVE_WITHIN_S: Final = 30.0
_NEARLY_ALL: Final = 0.95
_MUCH: Final = 0.8
_STEP: Final = 50


async def _connections(context: CheckContext) -> Iterable[CheckLine]:
    (row,) = await context.fetch(statement(__name__, "doctor_budget"))
    # Behind a pooler the sessions of workers share its connections, which are counted as they are.
    workers = 0 if context.pooled else await _workers(context)
    config = context.config
    sender = 0 if config is None or context.pooled else config.broker.pool_size + config.broker.max_overflow + 1
    lines = [_of_server(row, workers, sender)]
    for what, name in (("role", row["role"]), ("database", row["database"])):
        limit, used = row[f"{what}_limit"], row[f"{what}_used"]
        if limit >= 0 and not row["is_superuser"]:
            most = used - row[f"{what}_workers"] + workers * MOST_OF_A_WORKER
            remedy = f"ALTER {what.upper()} {quoted(name)} CONNECTION LIMIT {_enough(max(used, most) + sender)}"
            evidence = f"{used} of the {limit} that {what} {name} may have; our workers use up to {most}"
            lines.append(_line(used, most, limit, evidence, remedy))
    return lines


def _of_server(row: asyncpg.Record, workers: int, sender: int) -> CheckLine:
    limit, used = row["max_connections"] - row["reserved"], row["used"]
    # At most: what others use now, and what our workers would use all at once.
    most = used - row["workers"] + workers * MOST_OF_A_WORKER
    evidence = (
        f"{used} of {limit} in use ({row['max_connections']} less {row['reserved']} reserved), "
        f"{row['ours']} by us: {counted(workers, 'worker')}, which {_use(workers)} up to {workers * MOST_OF_A_WORKER}"
    )
    if sender:
        evidence += f"; each process of the application that sends may open up to {sender}"
    if workers * MOST_OF_A_WORKER + sender > limit >= most and used < _MUCH * limit:
        smaller = "lower pool_size and max_overflow of PostgresConfig, or put PgBouncer between"
        return CheckLine(CheckVerdict.WARN, evidence, smaller)
    enough = _enough(max(most, used) + sender + row["reserved"])
    remedy = f"ALTER SYSTEM SET max_connections = {enough}, and restart PostgreSQL; or put PgBouncer between"
    return _line(used, most, limit, evidence, remedy)


def _line(used: int, most: int, limit: int, evidence: str, remedy: str) -> CheckLine:
    if used >= _NEARLY_ALL * limit:
        return CheckLine(CheckVerdict.FAIL, evidence, remedy)
    if used >= _MUCH * limit or most > limit:
        return CheckLine(CheckVerdict.WARN, evidence, remedy)
    return CheckLine(CheckVerdict.OK, evidence)


def _enough(needed: int) -> int:
    """A quarter more, rounded up."""
    return -(-needed * 5 // (4 * _STEP)) * _STEP


def _use(workers: int) -> str:
    return "uses" if workers == 1 else "use"


async def _workers(context: CheckContext) -> int:
    """Those that live; a database without our tables has none."""
    (row,) = await context.fetch(statement(__name__, "doctor_has_snapshots"))
    if not row["readable"]:
        return 0
    (row,) = await context.fetch(statement(__name__, "doctor_living_workers"), _ALIVE_WITHIN_S)
    return int(row["workers"])


CHECKS = (Check("connections", 20, _connections),)
