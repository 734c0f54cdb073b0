"""PENDING to CLAIMED, and from there to RUNNING, back to PENDING, or to EXPIRED: a worker claims and starts tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import EXPIRED_MESSAGE, OutcomeCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.claim_token import Token, claim_times, ids, in_order, locked_rows
from horsies.store.connect import with_settings
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


LARGEST_CLAIM = 256  # in one statement

TupleId: TypeAlias = tuple[int, int]
"""The ctid of a row version: its position in the table."""

_queue_order = attrgetter("priority", "due_at", "token.task_id")


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A claimed task, with all that its worker needs to run it.

    `position`: the task is already RUNNING, in the process with this index in the list given to claim(). `number`: its
    position in the request's `following`, from 1 on. `after` is set on the first task of a claim that had to search:
    where the tasks that come next are stored, as the queue was at that moment. `due_at` is its enqueued_at in
    seconds, from which its wait is measured; `sent_at` and `good_until` are in seconds, too.
    """

    token: Token
    due_at: float
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
    position: int | None = None
    number: int | None = None
    after: list[TupleId] | None = None
    sent_at: float | None = None
    good_until: float | None = None


@dataclass(frozen=True, slots=True)
class CappedClaims:
    """The claimed tasks, and the queues whose cap has no room left; None is the cap of the whole cluster."""

    tasks: list[ClaimedTask]
    full: frozenset[str | None]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request to claim from one queue, at most 256 tasks at once. Without `task_names`, any task.

    For each of `idle_pids`, processes of this host that wait for work, one task is RUNNING at once, unless it is large.
    `following` is the unclaimed part of `after` of an earlier claim; it is claimed first, so pass it only while that
    order is still valid. Pass an empty list if the first tasks of the queue are known to be unable to run: the claim
    then searches at once.
    """

    queue: str
    limit: int
    lease_ms: int
    task_names: list[str] | None
    idle_pids: Sequence[int] = ()
    hostname: str | None = None
    following: Sequence[TupleId] | None = None


async def claim(conn: asyncpg.Connection, worker_id: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim the next due tasks of a queue, in its order; none of a paused queue."""
    sql = _claim(follows=bool(request.following))
    return claimed_tasks(worker_id, await conn.fetch(sql, worker_id, *request_parameters(request)))


@cache
def _claim(*, follows: bool) -> str:
    return statement(__name__, "claim", rows=claim_rows(follows=follows))


def claim_rows(*, follows: bool) -> str:
    """The part of a claim that finds and locks the rows: those at the head of the queue, or those in `following`."""
    return statement(__name__, "following_rows" if follows else "first_rows")


def request_parameters(request: ClaimRequest) -> tuple[object, ...]:
    """Return the parameters of `claim` after the worker id."""
    return (
        request.queue,
        request.limit,
        request.lease_ms,
        request.task_names,
        request.idle_pids,
        request.hostname,
        request.following,
    )


async def release_expired(conn: asyncpg.Connection, queues: Collection[str]) -> int:
    """Release up to 500 expired claims of these queues, this worker's included; return their number.

    Their tokens are stale afterwards, and the next claim takes the tasks in the order of the queue.
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
    """Claim due tasks of each queue in the given order, as far as budget and caps leave room.

    RUNNING and CLAIMED tasks count as in flight; without `hard`, a claim of this call counts only once it starts.
    """
    names, caps = [name for name, _ in queues], [cap for _, cap in queues]
    given = worker_id, names, caps, budget, cluster_cap, hard, lease_ms, task_names
    async with with_settings(conn):  # READ COMMITTED also behind a pooler, where a role may have a stricter default
        rows = await conn.fetch(statement(__name__, "claim_capped"), *given)
    order = {name: number for number, name in enumerate(names)}
    claimed = claimed_tasks(worker_id, [row for row in rows if row["id"] is not None])
    full = frozenset(row["queue_name"] for row in rows if row["id"] is None)
    return CappedClaims(sorted(claimed, key=lambda task: order[task.queue_name]), full)


async def large_arguments(conn: asyncpg.Connection, token: Token) -> tuple[str | None, str | None] | None:
    """Return `args` and `kwargs` of a task that was claimed as large; None if the token is stale."""
    row = await conn.fetchrow(statement(__name__, "large_arguments"), token.task_id, token.worker_id, token.claimed_at)
    return None if row is None else (row["args"], row["kwargs"])


async def release(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> set[Token]:
    """Release claims that will not be started, and notify their queues; returns those that were still valid."""
    given = in_order(tokens)
    if not given:
        return set()
    rows = await conn.fetch(statement(__name__, "release"), worker_id, ids(given), claim_times(given))
    return {given[number - 1] for (number,) in rows}


async def unaccounted(
    conn: asyncpg.Connection, worker_id: str, known: Collection[Token]
) -> list[tuple[ClaimedTask, bool]]:
    """Read which tasks take_back would release, without arguments, and whether each is still CLAIMED."""
    tokens = in_order(known)
    rows = await conn.fetch(statement(__name__, "unaccounted"), worker_id, ids(tokens), claim_times(tokens))
    return [
        (ClaimedTask(Token(task_id, worker_id, claimed_at), *fields), is_claimed)
        for is_claimed, task_id, claimed_at, *fields in rows
    ]


async def take_back(conn: asyncpg.Connection, worker_id: str, known: Collection[Token]) -> list[Token]:
    """Release the tasks that are CLAIMED or RUNNING under this worker's id but unknown to it, and notify their queues.

    Lost replies leave such rows: the reply to a claim, or to a start, after which user code was never called. So no
    attempt is stored and no attempt number is used. `known` must contain every task from the claim's reply until its
    outcome is stored, and every task that `unaccounted` showed to have run: after a lost commit its row looks the same.
    """
    tokens = in_order(known)
    rows = await conn.fetch(statement(__name__, "take_back"), worker_id, ids(tokens), claim_times(tokens))
    return in_order(Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows)


async def take_back_unlocked(
    conn: asyncpg.Connection, worker_id: str, known: Collection[Token]
) -> tuple[list[Token], Collection[Token]]:
    """Like take_back(); returns the tokens whose rows another session locks for longer than the lock timeout."""
    try:
        return await take_back(conn, worker_id, known), ()
    except asyncpg.LockNotAvailableError:
        rows = await conn.fetch(statement(__name__, "in_flight_of_worker"), worker_id)
        mine = {Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows}
        locked = await locked_rows(conn, worker_id, mine.difference(known))
        return await take_back(conn, worker_id, [*known, *locked]), locked


def claimed_tasks(worker_id: str, rows: Iterable[Any]) -> list[ClaimedTask]:
    """The tasks in the order of the queue; the rows come in the order of their ids.

    Each row holds id, claimed_at, then the other fields of ClaimedTask in its order: reading them from the row by name
    made a claim of 100 0.05 ms slower. enqueued_at is in seconds, because a timestamp of -infinity or BC that an
    operator wrote could not be compared or read, and no task of that claim would ever run.
    """
    tasks = [ClaimedTask(Token(task_id, worker_id, claimed_at), *fields) for task_id, claimed_at, *fields in rows]
    return sorted(tasks, key=_queue_order)


async def next_due(conn: asyncpg.Connection, queues: Collection[str]) -> tuple[float | None, float | None]:
    """Seconds until the next PENDING task of these queues that is not due yet is, and until a retry of any queue is.

        A value is None if there is no such task. Retries are read separately because rows of other writers may be due
    later than their enqueued_at.
    """
    due_in, retry_in = await conn.fetchrow(statement(__name__, "next_due"), list(queues))
    return due_in, retry_in


@dataclass(frozen=True, slots=True)
class Start:
    """The place where a claimed task is about to run."""

    token: Token
    pid: int
    hostname: str
    process_name: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class StartVerdicts:
    """Each token is in exactly one of these.

    They are tokens and not task ids, because this worker may have an expired and a new claim of the same task, of which
    only one may run. `paused`: its workflow is paused, and the task is PENDING again. `waiting`: the cap of its queue
    has no room, and the task stays CLAIMED.
    """

    started: frozenset[Token]
    expired: frozenset[Token]
    stale: frozenset[Token]
    paused: frozenset[Token] = frozenset()
    waiting: frozenset[Token] = frozenset()


async def start(
    conn: asyncpg.Connection, worker_id: str, starts: Collection[Start], caps: Mapping[str, int] | None = None
) -> StartVerdicts:
    """Start these claims. Safe to repeat after a lost reply: a task RUNNING under its token counts as started.

    `caps` are the caps of queues whose claims were not counted; no more of their tasks start than the caps allow.
    """
    if not starts:
        return StartVerdicts(frozenset(), frozenset(), frozenset())
    ordered = sorted(starts, key=attrgetter("token.task_id"))
    asked = [start.token for start in ordered]
    started, unfit = await _start(conn, worker_id, ordered, caps)
    left = [token for token in asked if token not in started]
    if not left:
        return StartVerdicts(started, frozenset(), frozenset())
    results = [_expiry(token) for token in left]
    rows = await conn.fetch(statement(__name__, "expire_claimed"), worker_id, ids(left), claim_times(left), results)
    expired = frozenset([left[number - 1] for (number,) in rows])
    left = [token for token in left if token not in expired]
    # Released now: their leases would not expire, because the worker renews all its leases.
    rows = await conn.fetch(statement(__name__, "release_paused"), worker_id, ids(left), claim_times(left))
    paused = frozenset([left[number - 1] for (number,) in rows])
    waiting = unfit - expired - paused
    return StartVerdicts(started, expired, frozenset(left) - paused - waiting, paused, waiting)


async def _start(
    conn: asyncpg.Connection, worker_id: str, ordered: list[Start], caps: Mapping[str, int] | None
) -> tuple[frozenset[Token], frozenset[Token]]:
    """Return the tokens that started, and the tokens whose cap has no room."""
    asked = [start.token for start in ordered]
    given = (
        worker_id,
        ids(asked),
        claim_times(asked),
        [start.pid for start in ordered],
        [start.hostname for start in ordered],
        [start.process_name for start in ordered],
    )
    if not caps or not any(start.queue in caps for start in ordered):
        rows = await conn.fetch(statement(__name__, "start"), *given)
        return frozenset([asked[number - 1] for (number,) in rows]), frozenset()
    queues = [start.queue for start in ordered]
    rows = await conn.fetch(statement(__name__, "start_capped"), *given, queues, list(caps), list(caps.values()))
    started, unfit = (frozenset([asked[number - 1] for number, fits in rows if fits is kind]) for kind in (True, False))
    return started, unfit


def _expiry(token: Token) -> str:
    error = TaskError(
        error_code=OutcomeCode.TASK_EXPIRED,
        message=EXPIRED_MESSAGE,
        data={"task_id": token.task_id, "worker_id": token.worker_id},
    )
    return dump_task_result(TaskResult(err=error))
