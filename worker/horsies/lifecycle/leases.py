"""Signs of life: the leases of what is claimed, the beats of what is claimed or runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.lifecycle.claim_token import Token, claim_times, ids
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg


async def renew(
    conn: asyncpg.Connection, worker_id: str, lease_ms: int, max_age_ms: int, *, hostname: str, pid: int
) -> set[Token]:
    """Beat for all my claims, prolong the leases of those younger than `max_age_ms`; returns all that were found.

    A lease that has run out stays so. A token among them that I do not hold is a claim whose reply was lost, or has not
    come in yet. One that I hold and that is missing is not therefore lost: a row that somebody is changing at this
    moment is left out.
    """
    rows = await conn.fetch(statement(__name__, "renew"), worker_id, lease_ms, max_age_ms, hostname, pid)
    return {Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows}


async def beat(
    conn: asyncpg.Connection, worker_id: str, hostname: str, running: Collection[tuple[Token, int]]
) -> set[Token]:
    """A runner's beat for each token, with the pid of its child. Returns the stale ones: stop what runs under them."""
    tokens = [token for token, _ in running]
    if not tokens:
        return set()
    pids = [pid for _, pid in running]
    rows = await conn.fetch(statement(__name__, "beat"), worker_id, ids(tokens), claim_times(tokens), pids, hostname)
    return set(tokens).difference(tokens[number - 1] for (number,) in rows)
