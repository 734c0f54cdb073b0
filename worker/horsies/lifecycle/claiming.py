"""PENDING to CLAIMED and back: a task gets an owner, who starts it at once or gives it back when nothing will."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import asyncpg

from horsies.lifecycle.claim_token import Token, claim_times, ids, in_order
from horsies.lifecycle.locked_rows import locked_rows
from horsies.store.connect import with_settings
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LARGEST_CLAIM = 256  # one statement takes no more

_queue_order = itemgetter(5, 2, 0)  # priority, enqueued_at, id


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """What it takes to run it. `large`: more than 64 kB of arguments, which were left in the table.

    `place`: it is RUNNING already, in the process of that place in the list given to claim(). `after`, on the first
    task of a claim that had to search: the tasks that come next, as they stood in the queue at that moment.
    """

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
    place: int | None = None
    after: list[str] | None = None


@dataclass(frozen=True, slots=True)
class CappedClaims:
    """What was claimed, and the queues whose cap has no room after it; None among them is the cluster's cap."""

    tasks: list[ClaimedTask]
    full: frozenset[str | None]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What to claim: of one queue, at most 256 at once. No `task_names`: any.

    For each of `idle_pids`, processes of this host that wait for work, one is RUNNING at once, unless it is large.
    `following`: what an earlier claim told as `after`; it comes first, so give it only while that order still holds.
    """

    queue: str
    limit: int
    lease_ms: int
    task_names: list[str] | None
    idle_pids: Sequence[int] = ()
    hostname: str | None = None
    following: Sequence[str] = ()


async def claim(conn: asyncpg.Connection, worker_id: str, request: ClaimRequest) -> list[ClaimedTask]:
    """The next due tasks of a queue, first ones first; none of a paused queue."""
    return claimed_tasks(
        worker_id, await conn.fetch(statement(__name__, "claim"), worker_id, *request_parameters(request))
    )


def request_parameters(request: ClaimRequest) -> tuple[object, ...]:
    """The parameters of `claim` after the worker."""
    return (
        request.queue,
        request.limit,
        request.lease_ms,
        request.task_names,
        request.idle_pids,
        request.hostname,
        request.following or None,
    )


async def release_expired(conn: asyncpg.Connection, queues: Collection[str]) -> int:
    """Give claims of these queues back whose lease has run out, at most 500, our own too; how many there were.

    From here on their tokens are stale, and the next claim takes the tasks in the order of the queue.
    """
    released: int = await conn.fetchval(statement(__name__, "release_expired"), list(queues))
    return released


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
) -> CappedClaims:
    """Due tasks of each queue in the order given, as far as budget and caps leave room.

    In flight is what runs and what is claimed; without `hard` a claim of this call counts only when it starts.
    """
    names, caps = [name for name, _ in queues], [cap for _, cap in queues]
    given = worker_id, names, caps, budget, cluster_cap, hard, lease_ms, task_names
    async with with_settings(conn):  # READ COMMITTED also behind a pooler, where a role may have a stricter default
        rows = await conn.fetch(statement(__name__, "claim_capped"), *given)
    place = {name: number for number, name in enumerate(names)}
    claimed = claimed_tasks(worker_id, [row for row in rows if row["id"] is not None])
    full = frozenset(row["queue_name"] for row in rows if row["id"] is None)
    return CappedClaims(sorted(claimed, key=lambda task: place[task.queue_name]), full)


async def large_arguments(conn: asyncpg.Connection, token: Token) -> tuple[str | None, str | None] | None:
    """`args` and `kwargs` of a task that was claimed as large; None when the token is stale."""
    row = await conn.fetchrow(statement(__name__, "large_arguments"), token.task_id, token.worker_id, token.claimed_at)
    return None if row is None else (row["args"], row["kwargs"])


async def release(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> set[Token]:
    """Give claims back that will not be started, and tell their queues; returns those that were still ours."""
    given = in_order(tokens)
    if not given:
        return set()
    rows = await conn.fetch(statement(__name__, "release"), worker_id, ids(given), claim_times(given))
    return {given[number - 1] for (number,) in rows}


async def unaccounted(
    conn: asyncpg.Connection, worker_id: str, held: Collection[Token]
) -> list[tuple[ClaimedTask, bool]]:
    """What take_back would give back, without arguments, and whether it is CLAIMED yet. Reads only."""
    tokens = in_order(held)
    rows = await conn.fetch(statement(__name__, "unaccounted"), worker_id, ids(tokens), claim_times(tokens))
    return [
        (
            ClaimedTask(
                token=Token(row["id"], worker_id, row["claimed_at"]),
                task_name=row["task_name"],
                queue_name=row["queue_name"],
                priority=row["priority"],
                args=None,
                kwargs=None,
                large=False,
                task_options=row["task_options"],
                retry_count=row["retry_count"],
                max_retries=row["max_retries"],
                is_workflow_task=row["is_workflow_task"],
            ),
            row["is_claimed"],
        )
        for row in rows
    ]


async def take_back(conn: asyncpg.Connection, worker_id: str, held: Collection[Token]) -> list[Token]:
    """Give back what is CLAIMED or RUNNING under this worker's name without being held by it, and say so to the others.

    Replies that were lost leave such rows: of a claim, or of a start whose user code therefore never began. So there is
    no attempt and no number burned. `held` is everything from the claim's reply until its outcome is stored, and what
    has run by `unaccounted`: after the loss of a commit its row looks the same.
    """
    tokens = in_order(held)
    rows = await conn.fetch(statement(__name__, "take_back"), worker_id, ids(tokens), claim_times(tokens))
    return in_order(Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows)


async def take_back_unlocked(
    conn: asyncpg.Connection, worker_id: str, held: Collection[Token]
) -> tuple[list[Token], Collection[Token]]:
    """take_back() of all but the rows that other sessions have locked for longer than the lock timeout, and these."""
    try:
        return await take_back(conn, worker_id, held), ()
    except asyncpg.LockNotAvailableError:
        rows = await conn.fetch(statement(__name__, "in_flight_of_worker"), worker_id)
        mine = {Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows}
        locked = await locked_rows(conn, worker_id, mine.difference(held))
        return await take_back(conn, worker_id, [*held, *locked]), locked


def claimed_tasks(worker_id: str, rows: Iterable[Any]) -> list[ClaimedTask]:
    """In the order of the queue; the rows come in the order of their ids, by which they were found again.

    id, claimed_at and enqueued_at are followed by the fields of ClaimedTask, in its order: by name, a claim of 100 took
    0.05 ms more. enqueued_at comes in seconds: as a timestamp, one written by hand as -infinity or BC ends up as what
    cannot be compared or not be read, and no task of that claim would ever run.
    """
    return [ClaimedTask(Token(row[0], worker_id, row[1]), *row[3:]) for row in sorted(rows, key=_queue_order)]
