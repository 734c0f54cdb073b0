"""Notifications: whether one comes back, how fast, and whether their queue has room."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import CheckContext

_PROBES: Final = 3
ANSWER_WITHIN_S: Final = 3.0
_SLOW_S: Final = 0.25
_QUEUE_WARN: Final = 0.25
_QUEUE_FAIL: Final = 0.75
_LIMITS: Final = (("statement_timeout", "3s"), ("lock_timeout", "3s"))
_WAITING: Final = "SELECT pid, wait_event, query FROM pg_stat_activity WHERE state = 'active' ORDER BY xact_start"
_HOLDERS: Final = "SELECT pid, xact_start, application_name FROM pg_stat_activity WHERE state LIKE 'idle in tr%'"


async def _notifications(context: CheckContext) -> Iterable[CheckLine]:
    if context.pooled:
        # A LISTEN would stay on a backend of the pool, for other clients.
        return [CheckLine(CheckVerdict.OK, "not used: behind a pooler workers poll")]
    async with (
        context.database.connected("doctor", settings=_LIMITS) as listening,
        context.database.connected("doctor", settings=_LIMITS) as notifying,
    ):
        return [await _tried(listening, notifying)]


async def _tried(listening: asyncpg.Connection, notifying: asyncpg.Connection) -> CheckLine:
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            slowest_s = await _round_trip(listening, notifying)
    except asyncpg.ReadOnlySQLTransactionError:
        return CheckLine(CheckVerdict.UNKNOWN, "this server is a standby, which has none", "connect to the primary")
    except (TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError):
        evidence = f"one to ourselves did not come back in {ANSWER_WITHIN_S:g} s: workers only poll, and sends may hang"
        return CheckLine(CheckVerdict.FAIL, evidence, f"see what their commits wait for: {_WAITING}")
    evidence = f"they come back, the slowest of {_PROBES} in {slowest_s * 1000:.1f} ms"
    if slowest_s > _SLOW_S:
        return CheckLine(CheckVerdict.WARN, evidence, "look for load of the server, or for a slow network")
    return CheckLine(CheckVerdict.OK, evidence)


async def _round_trip(listening: asyncpg.Connection, notifying: asyncpg.Connection) -> float:
    """The longest time from a NOTIFY on one connection to its arrival on the other."""
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


async def _queue(context: CheckContext) -> Iterable[CheckLine]:
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


CHECKS = (Check("notifications", 40, _notifications), Check("notification queue", 50, _queue))
