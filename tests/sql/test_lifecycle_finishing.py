"""An outcome is stored completely, with its attempt, or not at all; a retry waits until it is due."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from lifecycle_steps import (
    ME,
    OK,
    attempts,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    start_tokens,
    task,
)

from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import Token, Verdict
from horsies.lifecycle.claiming import ClaimRequest, claim
from horsies.lifecycle.finishing import Finished, Outcome, OutcomeKind, finish, mark_finalizing

K = OutcomeKind
STALE = Finished(Verdict.STALE)


async def finish_one(conn: asyncpg.Connection, outcome: Outcome) -> Finished:
    finished = await finish(conn, ME, [outcome])
    assert finished.keys() == {outcome.token}
    return finished[outcome.token]


def picked(row: dict[str, Any], names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names.split())


async def test_a_completed_task_keeps_result_owner_and_one_attempt(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", error_code="'OLD'", failed_reason="'old'", failed_at="now()")
    assert await finish_one(connection, ended(token, K.COMPLETED)) == Finished(Verdict.ACCEPTED, TaskStatus.COMPLETED)
    row = await task(connection, "t")
    assert picked(row, "status result error_code failed_reason failed_at") == ("COMPLETED", OK, None, None, None)
    assert picked(row, "claimed_by_worker_id claimed_at worker_pid") == (ME, token.claimed_at, 4242)
    (attempt,) = await attempts(connection, "t")
    expected = (1, "COMPLETED", False, None, None, None)
    assert picked(attempt, "attempt outcome will_retry error_code error_message failed_reason") == expected
    expected = (ME, "host", 4242, "worker-4242")
    assert picked(attempt, "worker_id worker_hostname worker_pid worker_process_name") == expected
    assert attempt["started_at"] == row["started_at"] < row["completed_at"] == attempt["finished_at"]


@pytest.mark.parametrize("kind", [K.FAILED, K.WORKER_FAILURE])
async def test_a_failed_task_keeps_its_error_and_one_attempt(connection: asyncpg.Connection, kind: OutcomeKind) -> None:
    (token,) = await running(connection, "t", completed_at="now()", max_retries="3")
    outcome = ended(token, kind, failed_reason="the child died")
    assert await finish_one(connection, outcome) == Finished(Verdict.ACCEPTED, TaskStatus.FAILED)
    row = await task(connection, "t")
    expected = ("FAILED", '{"err":1}', "BROKE", "the child died", None, None, 0)
    assert picked(row, "status result error_code failed_reason completed_at next_retry_at retry_count") == expected
    (attempt,) = await attempts(connection, "t")
    expected = (1, kind.value, False, "BROKE", "it broke", "the child died")
    assert picked(attempt, "attempt outcome will_retry error_code error_message failed_reason") == expected
    assert attempt["finished_at"] == row["failed_at"]


@pytest.mark.parametrize(("message", "reason"), [("it broke", "it broke"), (None, "BROKE")])
async def test_a_failure_that_the_task_reported_has_a_reason_in_its_row_and_none_in_its_attempt(
    connection: asyncpg.Connection, message: str | None, reason: str
) -> None:
    (token,) = await running(connection, "t")
    await finish_one(connection, replace(ended(token, K.FAILED), error_message=message))
    (attempt,) = await attempts(connection, "t")
    assert ((await task(connection, "t"))["failed_reason"], attempt["failed_reason"]) == (reason, None)


async def test_a_retry_waits_until_it_is_due_and_forgets_its_owner(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="2")
    before = await connection.fetchval("SELECT clock_timestamp()")
    finished = await finish_one(connection, ended(token, K.RETRY, retry_delay_s=90.5))
    after = await connection.fetchval("SELECT clock_timestamp()")
    assert (finished.verdict, finished.status) == (Verdict.ACCEPTED, TaskStatus.PENDING)
    delay = timedelta(seconds=90.5)
    assert isinstance(finished.due, datetime)
    assert before + delay <= finished.due <= after + delay
    row = await task(connection, "t")
    expected = ("PENDING", 1, 2, finished.due, finished.due)
    assert picked(row, "status retry_count max_retries enqueued_at next_retry_at") == expected
    forgotten = "claimed_at claimed_by_worker_id claim_expires_at started_at worker_pid worker_hostname"
    assert set(picked(row, forgotten + " worker_process_name result error_code failed_reason")) == {None}
    (attempt,) = await attempts(connection, "t")
    expected = (1, "FAILED", True, "BROKE", "it broke")
    assert picked(attempt, "attempt outcome will_retry error_code error_message") == expected
    expected = (ME, "host", 4242, "worker-4242")
    assert picked(attempt, "worker_id worker_hostname worker_pid worker_process_name") == expected
    assert await claim_tokens(connection) == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"max_retries": "3", "good_until": "now() + interval '60 s'"}, "due after the deadline"),
        ({"max_retries": "3", "retry_count": "3"}, "budget spent"),
        ({"max_retries": "0"}, "no budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_retry_that_may_not_be_fails_with_its_own_error(
    connection: asyncpg.Connection, columns: dict[str, str], why: str
) -> None:
    (token,) = await running(connection, "t", **columns)
    outcome = ended(token, K.RETRY, retry_delay_s=61.0)
    assert await finish_one(connection, outcome) == Finished(Verdict.ACCEPTED, TaskStatus.FAILED), why
    row = await task(connection, "t")
    assert picked(row, "status error_code result next_retry_at") == ("FAILED", "BROKE", '{"err":1}', None)
    (attempt,) = await attempts(connection, "t")
    assert picked(attempt, "outcome will_retry error_code") == ("FAILED", False, "BROKE")


async def test_a_retry_that_is_due_before_the_deadline_is_made(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="1", good_until="now() + interval '60 s'")
    assert (await finish_one(connection, ended(token, K.RETRY, retry_delay_s=50.0))).status is TaskStatus.PENDING


async def test_a_retry_without_a_delay_is_due_at_once_and_is_no_interrupt(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="1")
    await finish_one(connection, ended(token, K.RETRY, retry_delay_s=None))
    assert picked(await task(connection, "t"), "retry_count max_retries") == (1, 1)
    assert [again.task_id for again in await claim_tokens(connection)] == ["t"]


async def test_an_interrupt_takes_a_number_but_burns_no_budget(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="1", enqueued_at="now() - interval '1 h'")
    enqueued_at = (await task(connection, "t"))["enqueued_at"]
    finished = await finish_one(connection, Outcome(token, K.INTERRUPT_REQUEUE))
    assert finished == Finished(Verdict.ACCEPTED, TaskStatus.PENDING, enqueued_at)
    row = await task(connection, "t")
    expected = ("PENDING", 1, 2, enqueued_at, None, None, None)
    assert picked(row, "status retry_count max_retries enqueued_at claimed_at worker_pid started_at") == expected
    (attempt,) = await attempts(connection, "t")
    assert picked(attempt, "attempt outcome will_retry error_code") == (1, "WORKER_FAILURE", True, "TASK_INTERRUPTED")

    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    assert (await finish_one(connection, ended(token, K.RETRY))).status is TaskStatus.PENDING


async def test_an_attempt_says_how_long_it_waited_since_it_was_due(connection: asyncpg.Connection) -> None:
    """An interrupted task keeps its due time, and did not wait while it ran."""
    await enqueue(connection, "t", max_retries="9", enqueued_at="now() - interval '70 s'")
    for kind in (K.INTERRUPT_REQUEUE, K.RETRY, K.RETRY, K.COMPLETED):
        (token,) = await claim_tokens(connection)
        await start_tokens(connection, [token])
        await finish_one(connection, ended(token, kind, **({"retry_delay_s": 0.0} if kind is K.RETRY else {})))
        if kind is K.RETRY:
            await connection.execute("UPDATE horsies_tasks SET enqueued_at = now() - interval '5 s' WHERE id = 't'")
            await connection.execute("UPDATE horsies_task_attempts SET finished_at = now() - interval '1 h'")
    waited = [one["waited_ms"] for one in await attempts(connection, "t")]
    assert [each // 10_000 for each in waited] == [7, 0, 0, 0]
    assert waited[1] < 5_000 <= min(waited[2:])


async def test_an_interrupt_needs_no_budget_and_no_time_before_the_deadline(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    await connection.execute("UPDATE horsies_tasks SET good_until = now() - interval '1 s'")
    assert (await finish_one(connection, Outcome(token, K.INTERRUPT_REQUEUE))).status is TaskStatus.PENDING


@pytest.mark.parametrize("kind", [kind for kind in K if kind is not K.NOT_BEGUN])
async def test_the_largest_number_of_retries_is_not_exceeded(connection: asyncpg.Connection, kind: OutcomeKind) -> None:
    largest = 2_147_483_647
    await enqueue(connection, "t", retry_count=str(largest), max_retries=str(largest))
    for number in range(3):
        (token,) = await claim_tokens(connection)
        await start_tokens(connection, [token])
        finished = await finish_one(connection, ended(token, kind, retry_delay_s=0.0))
        assert finished.verdict is Verdict.ACCEPTED
        assert len({row["attempt"] for row in await attempts(connection, "t")}) == number + 1
        await connection.execute("UPDATE horsies_tasks SET status = 'PENDING'")
    row = await task(connection, "t")
    assert (row["retry_count"], row["max_retries"]) == (largest, largest)


@pytest.mark.parametrize("kind", [kind for kind in K if kind is not K.NOT_BEGUN])
async def test_a_requeue_by_hand_that_reset_the_count_does_not_block_the_task(
    connection: asyncpg.Connection, kind: OutcomeKind
) -> None:
    tokens = await running(connection, "t", "u", max_retries="5")
    await finish(connection, ME, [ended(token, K.FAILED) for token in tokens])
    await connection.execute("UPDATE horsies_tasks SET status = 'PENDING', retry_count = 0 WHERE id = 't'")
    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    assert (await finish_one(connection, ended(token, kind))).verdict is Verdict.ACCEPTED
    assert [attempt["attempt"] for attempt in await attempts(connection, "t")] == [1, 2]


async def test_a_task_with_tries_that_left_no_history_counts_from_them(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", retry_count="4", max_retries="4")
    await finish_one(connection, ended(token, K.COMPLETED))
    assert [attempt["attempt"] for attempt in await attempts(connection, "t")] == [5]


async def test_one_batch_takes_every_kind_and_leaves_stale_ones_out(connection: asyncpg.Connection) -> None:
    tokens = await running(connection, *"abcdefgh", max_retries="1")
    late, gone = tokens[6], tokens[7]
    await connection.execute("UPDATE horsies_tasks SET good_until = now() WHERE id = 'g'")
    await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'h'")
    outcomes = [ended(token, kind) for token, kind in zip(tokens, K, strict=False)]
    finished = await finish(connection, ME, [*outcomes, ended(late, K.RETRY), ended(gone, K.RETRY)])
    assert {token.task_id: one.status and one.status.value for token, one in finished.items()} == {
        "a": "COMPLETED",
        "b": "FAILED",
        "c": "FAILED",
        "d": "PENDING",
        "e": "PENDING",
        "f": "PENDING",
        "g": "FAILED",
        "h": None,
    }
    assert finished[gone] == STALE
    assert await attempts(connection, "h") == []
    assert {token.task_id for token, one in finished.items() if one.due} == {"d", "e", "f"}


async def test_what_was_stopped_before_it_began_is_as_if_it_had_never_been_claimed(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", max_retries="3", retry_count="1", next_retry_at="now()")
    before = await task(connection, "t")
    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    await mark_finalizing(connection, ME, [token])
    assert (await finish_one(connection, Outcome(token, K.NOT_BEGUN))).due == before["enqueued_at"]
    after = await task(connection, "t")
    assert {name for name in after if after[name] != before[name]} == {"updated_at"}
    assert await attempts(connection, "t") == []


async def test_text_that_postgres_refuses_does_not_fail_the_batch(connection: asyncpg.Connection) -> None:
    bad, retried, good = await running(connection, "a", "b", "c", max_retries="1")
    worst = {"result_json": "r\0\ud800", "error_code": "C\0", "error_message": "m\ud800", "failed_reason": "\0f"}
    outcomes = [ended(bad, K.FAILED, **worst), ended(retried, K.RETRY, **worst), ended(good, K.COMPLETED)]
    finished = await finish(connection, ME, outcomes)
    assert {one.verdict for one in finished.values()} == {Verdict.ACCEPTED}
    row = await task(connection, "a")
    assert picked(row, "result error_code failed_reason") == ("r\ufffd", "C", "f")
    for name in "ab":
        (attempt,) = await attempts(connection, name)
        assert picked(attempt, "error_code error_message failed_reason") == ("C", "m\ufffd", "f")


async def test_an_outcome_may_be_very_large(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    await finish_one(connection, Outcome(token, K.COMPLETED, "x" * 10_000_000))
    assert len((await task(connection, "t"))["result"]) == 10_000_000


@pytest.mark.parametrize("kind", K)
async def test_only_what_runs_can_be_finished(connection: asyncpg.Connection, kind: OutcomeKind) -> None:
    await enqueue(connection, "t", max_retries="1")
    (token,) = await claim_tokens(connection)
    before = await everything(connection)
    assert await finish_one(connection, ended(token, kind)) == STALE
    assert await everything(connection) == before


async def test_a_waiting_outcome_is_marked_until_it_is_stored(connection: asyncpg.Connection) -> None:
    first, second = await running(connection, "a", "b")
    (claimed,) = await claimed_only(connection, "c")
    stale = Token("b", ME, second.claimed_at - timedelta(microseconds=1))
    assert await mark_finalizing(connection, ME, [first, claimed, stale]) == {claimed, stale}
    rows = {name: picked(await task(connection, name), "finalizing_by_worker_id updated_at") for name in "ab"}
    assert {name: by for name, (by, _) in rows.items()} == {"a": ME, "b": None}
    assert (await task(connection, "a"))["finalizing_at"] == rows["a"][1]
    await finish_one(connection, ended(first, K.COMPLETED))
    assert picked(await task(connection, "a"), "finalizing_at finalizing_by_worker_id") == (None, None)


async def claimed_only(conn: asyncpg.Connection, name: str) -> list[Token]:
    await enqueue(conn, name)
    tasks = await claim(conn, ME, ClaimRequest("default", 1, 9999, None))
    return [one.token for one in tasks]
