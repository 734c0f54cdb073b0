"""CLAIMED to RUNNING; to EXPIRED if the deadline has passed, back to PENDING if its workflow is paused."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import EXPIRED_MESSAGE, OutcomeCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.claim_token import Token, claim_times, ids
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import asyncpg


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
