"""The connection to PostgreSQL: a pooler, its mode, and settings that matter because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncpg

    from horsies.doctor import CheckContext

_TRIES: Final = 5


async def _pooler(context: CheckContext) -> Iterable[CheckLine]:
    lines = [CheckLine(CheckVerdict.WARN, warning) for warning in context.pooler_warnings]
    if not context.pooled:
        return lines or [CheckLine(CheckVerdict.OK, "none: sessions reach PostgreSQL directly")]
    poll_s = _poll_interval_s(context)
    if await _shares_backends(context):
        evidence = (
            f"in transaction mode: no LISTEN, no settings of a session, no prepared statements; workers need none of "
            f"them and poll every {poll_s}, so a task waits up to that long"
        )
        return [CheckLine(CheckVerdict.WARN, evidence, "name PostgreSQL itself in the URL of the workers"), *lines]
    evidence = f"in session mode: each session of ours holds one of its connections; workers poll every {poll_s}"
    return [CheckLine(CheckVerdict.OK, evidence), *lines]


def _poll_interval_s(context: CheckContext) -> str:
    """Return the application's poll interval, or the default."""
    return "5s" if context.config is None else f"{context.config.resilience.notify_poll_interval_ms / 1000:g}s"


async def _shares_backends(context: CheckContext) -> bool:
    """Return whether two sessions get the same backend in turn: a pooler may release it at each commit.

    PgBouncer reuses first what was released last, so on a quiet pool the first try shows it.
    """
    async with context.database.connected("doctor") as one, context.database.connected("doctor") as other:
        for _ in range(_TRIES):
            if await _backend(one) == await _backend(other):
                return True
    return False


async def _backend(connection: asyncpg.Connection) -> int:
    pid: int = await connection.fetchval(statement(__name__, "doctor_backend"))
    return pid


CHECKS = (Check("pooler", 30, _pooler),)
