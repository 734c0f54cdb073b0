"""The connections to PostgreSQL: how many there may be, a pooler in between, and whether notifications arrive."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from horsies.config.app import WorkerResilienceConfig
from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import CheckContext

MOST_OF_A_WORKER: Final = 10
"""Maximum number of connections of a worker: those of `horsies.run.worker.worker`, one for listening, one for
schedules, and two while it sweeps and prunes."""
_ALIVE_WITHIN_S: Final = 30.0
_NEARLY_ALL: Final = 0.95
_MUCH: Final = 0.8
_LIMIT_STEP: Final = 50
_BACKEND_TRIES: Final = 5
_PROBES: Final = 3
ANSWER_WITHIN_S: Final = 3.0
_SLOW_S: Final = 0.25
_QUEUE_WARN: Final = 0.25
_QUEUE_FAIL: Final = 0.75
_PROBE_LIMITS: Final = (("statement_timeout", "3s"), ("lock_timeout", "3s"))
_WAITING: Final = "SELECT pid, wait_event, query FROM pg_stat_activity WHERE state = 'active' ORDER BY xact_start"
_HOLDERS: Final = "SELECT pid, xact_start, application_name FROM pg_stat_activity WHERE state LIKE 'idle in tr%'"


async def _connections(context: CheckContext) -> Iterable[CheckLine]:
    (row,) = await context.fetch(statement(__name__, "doctor_budget"))
    # Behind a pooler the sessions of workers share its connections, which are counted already.
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
            lines.append(_judged(used, most, limit, evidence, remedy))
    return lines


def _of_server(row: asyncpg.Record, workers: int, sender: int) -> CheckLine:
    limit, used = row["max_connections"] - row["reserved"], row["used"]
    # The connections that others use now, and those of all our workers at their busiest.
    most = used - row["workers"] + workers * MOST_OF_A_WORKER
    evidence = (
        f"{used} of {limit} in use ({row['max_connections']} less {row['reserved']} reserved), {row['ours']} by us: "
        f"{counted(workers, 'worker, which uses', 'workers, which use')} up to {workers * MOST_OF_A_WORKER}"
    )
    if sender:
        evidence += f"; each process of the application that sends may open up to {sender}"
    if workers * MOST_OF_A_WORKER + sender > limit >= most and used < _MUCH * limit:
        smaller = "lower pool_size and max_overflow of PostgresConfig, or put PgBouncer in between"
        return CheckLine(CheckVerdict.WARN, evidence, smaller)
    enough = _enough(max(most, used) + sender + row["reserved"])
    remedy = f"ALTER SYSTEM SET max_connections = {enough}, and restart PostgreSQL; or put PgBouncer in between"
    return _judged(used, most, limit, evidence, remedy)


def _judged(used: int, most: int, limit: int, evidence: str, remedy: str) -> CheckLine:
    if used >= _NEARLY_ALL * limit:
        return CheckLine(CheckVerdict.FAIL, evidence, remedy)
    if used >= _MUCH * limit or most > limit:
        return CheckLine(CheckVerdict.WARN, evidence, remedy)
    return CheckLine(CheckVerdict.OK, evidence)


def _enough(needed: int) -> int:
    """Return a quarter more, rounded up to a multiple of _LIMIT_STEP."""
    return -(-needed * 5 // (4 * _LIMIT_STEP)) * _LIMIT_STEP


async def _workers(context: CheckContext) -> int:
    """Return the number of live workers; 0 in a database without our tables."""
    (row,) = await context.fetch(statement(__name__, "doctor_has_snapshots"))
    if not row["readable"]:
        return 0
    (row,) = await context.fetch(statement(__name__, "doctor_living_workers"), _ALIVE_WITHIN_S)
    return int(row["workers"])


async def _pooler(context: CheckContext) -> Iterable[CheckLine]:
    lines = [CheckLine(CheckVerdict.WARN, warning) for warning in context.pooler_warnings]
    if not context.pooled:
        return lines or [CheckLine(CheckVerdict.OK, "none: sessions reach PostgreSQL directly")]
    resilience = WorkerResilienceConfig() if context.config is None else context.config.resilience
    poll_s = f"{resilience.notify_poll_interval_ms / 1000:g}s"
    if await _shares_backends(context):
        evidence = (
            f"in transaction mode: no LISTEN, no settings of a session, no prepared statements; workers need none of "
            f"them and poll every {poll_s}, so a task waits up to that long"
        )
        return [CheckLine(CheckVerdict.WARN, evidence, "name PostgreSQL itself in the URL of the workers"), *lines]
    evidence = f"in session mode: each session of ours holds one of its connections; workers poll every {poll_s}"
    return [CheckLine(CheckVerdict.OK, evidence), *lines]


async def _shares_backends(context: CheckContext) -> bool:
    """Return whether two sessions get the same backend in turn, because a pooler releases it at each commit.

    PgBouncer reuses the backend that was released last, so on a quiet pool the first try shows it.
    """
    async with context.database.connected("doctor") as one, context.database.connected("doctor") as other:
        for _ in range(_BACKEND_TRIES):
            if await _backend(one) == await _backend(other):
                return True
    return False


async def _backend(connection: asyncpg.Connection) -> int:
    pid: int = await connection.fetchval(statement(__name__, "doctor_backend"))
    return pid


async def _notifications(context: CheckContext) -> Iterable[CheckLine]:
    if context.pooled:
        # A LISTEN would stay on a backend of the pool and reach its other clients.
        return [CheckLine(CheckVerdict.OK, "not used: behind a pooler workers poll")]
    async with (
        context.database.connected("doctor", settings=_PROBE_LIMITS) as listening,
        context.database.connected("doctor", settings=_PROBE_LIMITS) as notifying,
    ):
        return [await _tried(listening, notifying)]


async def _tried(listening: asyncpg.Connection, notifying: asyncpg.Connection) -> CheckLine:
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            slowest_s = await _round_trip(listening, notifying)
    except asyncpg.ReadOnlySQLTransactionError:
        return CheckLine(
            CheckVerdict.UNKNOWN, "this server is a standby, which has no notifications", "connect to the primary"
        )
    except (TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError):
        evidence = f"a test did not arrive within {ANSWER_WITHIN_S:g} s: workers only poll, and sends may hang"
        return CheckLine(CheckVerdict.FAIL, evidence, f"see what their commits wait for: {_WAITING}")
    evidence = f"they arrive, the slowest of {_PROBES} after {slowest_s * 1000:.1f} ms"
    if slowest_s > _SLOW_S:
        return CheckLine(CheckVerdict.WARN, evidence, "look for load of the server, or for a slow network")
    return CheckLine(CheckVerdict.OK, evidence)


async def _round_trip(listening: asyncpg.Connection, notifying: asyncpg.Connection) -> float:
    channel = f"horsies_doctor_{secrets.token_hex(6)}"
    arrived = asyncio.Event()

    def on_arrival(*_: Any) -> None:
        arrived.set()

    slowest_s = 0.0
    await listening.add_listener(channel, on_arrival)
    for _ in range(_PROBES):
        arrived.clear()
        begin = time.perf_counter()
        await notifying.execute(statement(__name__, "doctor_notify"), channel)
        await arrived.wait()
        slowest_s = max(slowest_s, time.perf_counter() - begin)
    return slowest_s


async def _notification_queue(context: CheckContext) -> Iterable[CheckLine]:
    (row,) = await context.fetch(statement(__name__, "doctor_queue_usage"))
    usage = row["usage"]
    evidence = f"{usage:.0%} full"
    if usage < _QUEUE_WARN:
        return [CheckLine(CheckVerdict.OK, evidence)]
    evidence += ": a session that listens is idle in a transaction; when it is full, every NOTIFY fails"
    return [
        CheckLine(
            CheckVerdict.FAIL if usage >= _QUEUE_FAIL else CheckVerdict.WARN,
            evidence,
            f"end its transaction: {_HOLDERS}",
        )
    ]


CHECKS = (
    Check("connections", 20, _connections),
    Check("pooler", 30, _pooler),
    Check("notifications", 40, _notifications),
    Check("notification queue", 50, _notification_queue),
)
