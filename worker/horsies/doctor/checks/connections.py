"""The budget of connections: what there is, what is used, and what workers and programs that send may use at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, Line, Verdict
from horsies.operations.formatting import counted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import Patient

MOST_OF_A_WORKER: Final = 10
"""One for each lane of horsies.run.worker, for listening and for schedules; two more while it sweeps and prunes."""
_ALIVE_WITHIN_S: Final = 30.0
_NEARLY_ALL: Final = 0.95
_MUCH: Final = 0.8
_STEP: Final = 50


async def _connections(patient: Patient) -> Iterable[Line]:
    (row,) = await patient.fetch(statement(__name__, "doctor_budget"))
    workers = await _workers(patient)
    usable = row["max_connections"] - row["reserved"]
    # At most: what others use now, and what our workers would use all at once.
    most = row["used"] - row["workers"] + workers * MOST_OF_A_WORKER
    evidence = (
        f"{row['used']} of {usable} in use ({row['max_connections']} less {row['reserved']} reserved), "
        f"{row['ours']} by us: {counted(workers, 'worker')}, which {_use(workers)} up to {workers * MOST_OF_A_WORKER}"
    )
    sender = 0
    if patient.config is not None:
        sender = patient.config.broker.pool_size + patient.config.broker.max_overflow + 1
        evidence += f"; each process of the application that sends may open up to {sender}"
    needed = -(-(max(most, row["used"]) + sender + row["reserved"]) * 5 // (4 * _STEP)) * _STEP
    remedy = f"ALTER SYSTEM SET max_connections = {needed}, and restart PostgreSQL; or put PgBouncer between"
    if row["used"] >= _NEARLY_ALL * usable:
        return [Line(Verdict.FAIL, evidence, remedy)]
    if row["used"] >= _MUCH * usable or most > usable:
        return [Line(Verdict.WARN, evidence, remedy)]
    if workers * MOST_OF_A_WORKER + sender > usable:
        smaller = "lower pool_size and max_overflow of PostgresConfig, or put PgBouncer between"
        return [Line(Verdict.WARN, evidence, smaller)]
    return [Line(Verdict.OK, evidence)]


def _use(workers: int) -> str:
    return "uses" if workers == 1 else "use"


async def _workers(patient: Patient) -> int:
    """Those that live; a database without our tables has none."""
    (row,) = await patient.fetch(statement(__name__, "doctor_has_snapshots"))
    if not row["readable"]:
        return 0
    (row,) = await patient.fetch(statement(__name__, "doctor_living_workers"), _ALIVE_WITHIN_S)
    return int(row["workers"])


CHECKS = (Check("connections", 20, _connections),)
