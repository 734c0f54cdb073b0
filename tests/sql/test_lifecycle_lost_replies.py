"""An outcome that was stored although its reply was lost differs from one whose task another worker has taken."""

from __future__ import annotations

import asyncpg
import pytest
from lifecycle_steps import ME, OTHER, claim_tokens, ended, everything, running, start_tokens, task

from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import Token, Verdict
from horsies.lifecycle.finishing import Finished, Outcome, OutcomeKind, finish, stored_earlier

K = OutcomeKind
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


async def test_asking_about_nothing_asks_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    assert await stored_earlier(connection, ME, []) == {}
