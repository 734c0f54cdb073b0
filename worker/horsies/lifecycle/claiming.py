"""PENDING to CLAIMED and back: a task gets an owner, who gives it back when nothing will start it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from horsies.lifecycle.tokens import Token, claim_times, ids, in_order
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import asyncpg


_queue_order = itemgetter("priority", "enqueued_at", "id")


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """What it takes to run it. `large`: more than 64 kB of arguments, which were left in the table."""

    token: Token
    task_name: str
    queue_name: str
    priority: int
    args: str | None
    kwargs: str | None
    large: bool
    task_options: str | None
    retry_count: int
    max_retries: int
    is_workflow_task: bool


async def claim(
    conn: asyncpg.Connection, *, worker_id: str, queue: str, limit: int, lease_ms: int, task_names: list[str] | None
) -> list[ClaimedTask]:
    """The next due tasks of a queue, first ones first, 256 at most; none of a paused queue. No `task_names`: any."""
    rows = await conn.fetch(statement("claim"), worker_id, queue, limit, lease_ms, task_names)
    return _claimed(worker_id, rows)


async def claim_expired(
    conn: asyncpg.Connection, *, worker_id: str, queue: str, limit: int, lease_ms: int, task_names: list[str] | None
) -> list[ClaimedTask]:
    """Claims whose lease has run out, our own too, under new tokens; the old ones are stale from here on.

    Not for a queue under a cap: an expired claim does not count there, so taking it over needs room. `claim_capped`
    sees to both.
    """
    rows = await conn.fetch(statement("claim_expired"), worker_id, queue, limit, lease_ms, task_names)
    return _claimed(worker_id, rows)


async def claim_capped(
    conn: asyncpg.Connection,
    *,
    worker_id: str,
    queues: Sequence[tuple[str, int | None]],
    budget: int,
    cluster_cap: int | None,
    hard: bool,
    lease_ms: int,
    task_names: list[str] | None,
) -> list[ClaimedTask]:
    """Due tasks, then expired claims, of each queue in the order given, as far as budget and caps leave room.

    In flight is what runs and, if `hard`, what is claimed under a lease that has not run out.
    """
    names, caps = [name for name, _ in queues], [cap for _, cap in queues]
    rows = await conn.fetch(
        statement("claim_capped"), worker_id, names, caps, budget, cluster_cap, hard, lease_ms, task_names
    )
    place = {name: number for number, name in enumerate(names)}
    return sorted(_claimed(worker_id, rows), key=lambda task: place[task.queue_name])


async def large_arguments(conn: asyncpg.Connection, token: Token) -> tuple[str | None, str | None] | None:
    """`args` and `kwargs` of a task that was claimed as large; None when the token is stale."""
    row = await conn.fetchrow(statement("large_arguments"), token.task_id, token.worker_id, token.claimed_at)
    return None if row is None else (row["args"], row["kwargs"])


async def release(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> set[Token]:
    """Give claims back that will not be started; returns those that were still ours. Notifies nobody."""
    given = in_order(tokens)
    if not given:
        return set()
    rows = await conn.fetch(statement("release"), worker_id, ids(given), claim_times(given))
    return {given[number - 1] for (number,) in rows}


def _claimed(worker_id: str, rows: Iterable[Any]) -> list[ClaimedTask]:
    """In the order of the queue; the rows come in the order of their ids, by which they were found again.

    id, claimed_at and enqueued_at are followed by the fields of ClaimedTask, in its order: by name, a claim of 100 took
    0.05 ms more.
    """
    return [ClaimedTask(Token(row[0], worker_id, row[1]), *row[3:]) for row in sorted(rows, key=_queue_order)]
