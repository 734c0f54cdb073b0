"""An old token changes nothing, however the task was lost; a lost reply is distinguished from a lost claim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from lifecycle_steps import (
    LEASE_MS,
    ME,
    OTHER,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    start_tokens,
    take_over,
    task,
)

from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import Token, Verdict, beat
from horsies.lifecycle.claiming import StartVerdicts, large_arguments, release
from horsies.lifecycle.finishing import Finished, Outcome, OutcomeKind, finish, mark_finalizing, stored_earlier

K = OutcomeKind

REQUEUE = """
UPDATE horsies_tasks
   SET status = 'PENDING', retry_count = retry_count + 1, max_retries = max_retries + 1, claimed = false,
       claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL, started_at = NULL
"""


async def claimed(conn: asyncpg.Connection) -> Token:
    await enqueue(conn, "t", max_retries="5")
    (token,) = await claim_tokens(conn)
    return token


async def started(conn: asyncpg.Connection) -> Token:
    token = await claimed(conn)
    await start_tokens(conn, [token])
    return token


async def by_release(conn: asyncpg.Connection) -> Token:
    token = await claimed(conn)
    await release(conn, ME, [token])
    return token


async def by_lease(conn: asyncpg.Connection) -> Token:
    token = await claimed(conn)
    await conn.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'")
    await take_over(conn, worker_id="thief", queue="default", limit=1, lease_ms=0, task_names=None)
    return token


async def by_retry(conn: asyncpg.Connection) -> Token:
    token = await started(conn)
    await finish(conn, ME, [ended(token, K.RETRY, retry_delay_s=0.0)])
    return token


async def by_interrupt(conn: asyncpg.Connection) -> Token:
    token = await started(conn)
    await finish(conn, ME, [ended(token, K.INTERRUPT_REQUEUE)])
    return token


async def by_operator_while_claimed(conn: asyncpg.Connection) -> Token:
    token = await claimed(conn)
    await conn.execute(REQUEUE)
    return token


async def by_operator_while_running(conn: asyncpg.Connection) -> Token:
    token = await started(conn)
    await conn.execute(REQUEUE)
    return token


async def by_operator_after_the_end(conn: asyncpg.Connection) -> Token:
    token = await started(conn)
    await finish(conn, ME, [ended(token, K.COMPLETED)])
    await conn.execute(REQUEUE)
    return token


LOSSES = [
    by_release,
    by_lease,
    by_retry,
    by_interrupt,
    by_operator_while_claimed,
    by_operator_while_running,
    by_operator_after_the_end,
]


async def waits(conn: asyncpg.Connection, worker: str) -> None:
    """The task has no owner; an expired lease counts as none."""


async def is_claimed(conn: asyncpg.Connection, worker: str) -> Token:
    tokens = await claim_tokens(conn, worker)
    if not tokens:
        again = await take_over(conn, worker_id=worker, queue="default", limit=1, lease_ms=LEASE_MS, task_names=None)
        tokens = [one.token for one in again]
    (token,) = tokens
    return token


async def runs(conn: asyncpg.Connection, worker: str) -> Token:
    token = await is_claimed(conn, worker)
    assert (await start_tokens(conn, [token], worker)).started == {token}
    return token


async def has_ended(conn: asyncpg.Connection, worker: str) -> None:
    token = await runs(conn, worker)
    await finish(conn, worker, [ended(token, K.COMPLETED)])


FATES: list[Callable[[asyncpg.Connection, str], Awaitable[object]]] = [waits, is_claimed, runs, has_ended]


async def every_write_is_refused(conn: asyncpg.Connection, token: Token) -> None:
    assert await start_tokens(conn, [token]) == StartVerdicts(frozenset(), frozenset(), frozenset([token]))
    assert await large_arguments(conn, token) is None
    assert await release(conn, ME, [token]) == set()
    assert await beat(conn, ME, "host", [(token, 1)]) == {token}
    assert await mark_finalizing(conn, ME, [token]) == {token}
    for kind in K:
        assert await finish(conn, ME, [ended(token, kind)]) == {token: Finished(Verdict.STALE)}


@pytest.mark.parametrize("worker", [ME, OTHER], ids=["same worker", "another worker"])
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
@pytest.mark.parametrize("lost", LOSSES, ids=lambda lost: lost.__name__)
async def test_a_token_from_before_changes_nothing_anywhere(
    connection: asyncpg.Connection,
    lost: Callable[[asyncpg.Connection], Awaitable[Token]],
    fate: Callable[[asyncpg.Connection, str], Awaitable[object]],
    worker: str,
) -> None:
    token = await lost(connection)
    await fate(connection, worker)
    before = await everything(connection)
    await every_write_is_refused(connection, token)
    assert await everything(connection) == before
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    before = await everything(connection)
    assert (await start_tokens(connection, [token])).stale == {token}
    assert await everything(connection) == before


@pytest.mark.parametrize("begin", [claimed, started], ids=["claimed", "running"])
async def test_the_time_alone_is_no_token(
    connection: asyncpg.Connection, begin: Callable[[asyncpg.Connection], Awaitable[Token]]
) -> None:
    """Two workers may claim in the same microsecond."""
    token = await begin(connection)
    await connection.execute("UPDATE horsies_tasks SET claimed_by_worker_id = $1", OTHER)
    before = await everything(connection)
    await every_write_is_refused(connection, token)
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert (await start_tokens(connection, [token])).stale == {token}
    await connection.execute("UPDATE horsies_tasks SET good_until = NULL")
    assert await everything(connection) == before


LEAVES_AN_ATTEMPT = [kind for kind in K if kind is not K.NOT_BEGUN]
SWEPT = """
WITH swept AS (
    UPDATE horsies_tasks SET status = $2, claimed_by_worker_id = NULL, claimed_at = NULL, started_at = NULL
     WHERE id = $1 RETURNING id)
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, worker_id,
                                   error_code)
SELECT id, 1, 'FAILED', $2 = 'PENDING', now(), now(), 'worker-a', 'WORKER_CRASHED' FROM swept
"""


async def sent_twice(conn: asyncpg.Connection, outcome: Outcome) -> dict[Token, Finished]:
    assert await finish(conn, ME, [outcome]) == {outcome.token: Finished(Verdict.STALE)}
    before = await everything(conn)
    stored = await stored_earlier(conn, ME, [outcome])
    assert await everything(conn) == before
    return stored


@pytest.mark.parametrize("kind", LEAVES_AN_ATTEMPT)
async def test_the_answer_is_the_one_that_was_lost(connection: asyncpg.Connection, kind: OutcomeKind) -> None:
    (token,) = await running(connection, "t", max_retries="5")
    lost = await finish(connection, ME, [ended(token, kind)])
    assert await sent_twice(connection, ended(token, kind)) == lost


async def test_a_retry_without_budget_is_found_as_the_failure_that_it_became(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    lost = await finish(connection, ME, [ended(token, K.RETRY)])
    assert lost[token].status is TaskStatus.FAILED
    assert await sent_twice(connection, ended(token, K.RETRY)) == lost


async def test_text_is_compared_as_it_was_stored(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    outcome = ended(token, K.FAILED, error_code="C\0", error_message="broke \ud800")
    lost = await finish(connection, ME, [outcome])
    assert await sent_twice(connection, outcome) == lost


async def test_a_retry_is_known_after_its_next_attempt_has_begun(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="5")
    await finish(connection, ME, [ended(token, K.RETRY, retry_delay_s=0.0)])
    (again,) = await claim_tokens(connection)
    await start_tokens(connection, [again])
    await finish(connection, ME, [ended(again, K.COMPLETED)])
    (stored,) = (await sent_twice(connection, ended(token, K.RETRY, retry_delay_s=0.0))).values()
    assert stored.status is TaskStatus.PENDING


@pytest.mark.parametrize("kind", K)
@pytest.mark.parametrize("status", ["PENDING", "FAILED"])
async def test_what_a_sweep_has_written_is_not_ours(
    connection: asyncpg.Connection, kind: OutcomeKind, status: str
) -> None:
    (token,) = await running(connection, "t", max_retries="5")
    await connection.execute(SWEPT, "t", status)
    assert await sent_twice(connection, ended(token, kind)) == {}


@pytest.mark.parametrize("worker", [ME, OTHER], ids=["same worker", "another worker"])
async def test_what_a_later_claim_has_achieved_is_not_ours(connection: asyncpg.Connection, worker: str) -> None:
    (token,) = await running(connection, "t")
    await connection.execute("UPDATE horsies_tasks SET status = 'PENDING', claimed_by_worker_id = NULL")
    (later,) = await claim_tokens(connection, worker)
    await start_tokens(connection, [later], worker)
    await finish(connection, worker, [ended(later, K.COMPLETED)])
    assert await sent_twice(connection, ended(token, K.COMPLETED)) == {}
    assert (await stored_earlier(connection, worker, [ended(later, K.COMPLETED)]))[later].status is TaskStatus.COMPLETED


async def test_another_outcome_than_the_stored_one_is_not_ours(connection: asyncpg.Connection) -> None:
    """An operator has failed it: the token stays in the row and shows which worker had it last."""
    (token,) = await running(connection, "t")
    await finish(connection, ME, [ended(token, K.WORKER_FAILURE, error_code="OPERATOR_FAILED")])
    assert (await task(connection, "t"))["claimed_at"] == token.claimed_at
    for kind in (K.COMPLETED, K.FAILED, K.RETRY, K.WORKER_FAILURE, K.INTERRUPT_REQUEUE):
        assert await sent_twice(connection, ended(token, kind)) == {}
