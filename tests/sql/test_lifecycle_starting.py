"""A start requires the token, the lease and the deadline; tasks held unknowingly are released unchanged."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest
from lifecycle_steps import (
    LEASE_MS,
    ME,
    OTHER,
    attempts,
    claim_some,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    start_tokens,
    statuses,
    take_over,
    task,
    waits_for_a_lock,
)

from horsies.domain.codec import load_task_result
from horsies.domain.codes import OutcomeCode
from horsies.lifecycle.claim_token import Token, Verdict, beat
from horsies.lifecycle.claiming import Start, StartVerdicts, release, start, take_back
from horsies.lifecycle.finishing import Finished, OutcomeKind, finish, mark_finalizing, stored_earlier

NONE: frozenset[Token] = frozenset()


async def test_a_start_writes_where_the_task_runs_and_keeps_the_token(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", finalizing_at="now()", finalizing_by_worker_id="'worker-z'")
    (token,) = await claim_tokens(connection)
    verdicts = await start(connection, ME, [Start(token, 77, "host-1", "worker-77")])
    assert verdicts == StartVerdicts(frozenset([token]), NONE, NONE)
    row = await task(connection, "t")
    assert (row["status"], row["claimed"], row["claim_expires_at"]) == ("RUNNING", False, None)
    assert (row["claimed_by_worker_id"], row["claimed_at"]) == (ME, token.claimed_at)
    assert (row["worker_pid"], row["worker_hostname"], row["worker_process_name"]) == (77, "host-1", "worker-77")
    assert (row["finalizing_at"], row["finalizing_by_worker_id"]) == (None, None)
    assert row["started_at"] == row["updated_at"] > token.claimed_at


async def test_each_task_of_a_batch_gets_its_own_process(connection: asyncpg.Connection) -> None:
    await enqueue(connection, *(f"{n:02}" for n in range(20)))
    tokens = await claim_tokens(connection)
    pids = {token.task_id: 100 + int(token.task_id) for token in tokens}
    starts = [Start(token, pids[token.task_id], "h", f"worker-{pids[token.task_id]}") for token in reversed(tokens)]
    assert (await start(connection, ME, starts)).started == frozenset(tokens)
    rows = await connection.fetch("SELECT id, worker_pid, worker_process_name FROM horsies_tasks")
    assert {row["id"]: row["worker_pid"] for row in rows} == pids
    assert all(row["worker_process_name"] == f"worker-{row['worker_pid']}" for row in rows)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'",
        "DELETE FROM horsies_tasks",
        *(
            f"UPDATE horsies_tasks SET status = '{status}', claimed = false"
            for status in ("PENDING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
        ),
    ],
)
async def test_what_is_gone_or_not_claimed_any_more_or_whose_lease_has_run_out_is_not_started(
    connection: asyncpg.Connection, change: str
) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    await connection.execute(change)
    before = await everything(connection)
    assert await start_tokens(connection, tokens) == StartVerdicts(NONE, NONE, frozenset(tokens))
    assert await everything(connection) == before


async def test_a_task_past_its_deadline_expires_with_the_documented_result(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (token,) = await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert await start_tokens(connection, [token]) == StartVerdicts(NONE, frozenset([token]), NONE)
    row = await task(connection, "t")
    assert (row["status"], row["error_code"], row["claimed"]) == ("EXPIRED", "TASK_EXPIRED", False)
    assert (row["claim_expires_at"], row["started_at"]) == (None, None)
    assert (row["claimed_by_worker_id"], row["claimed_at"]) == (ME, token.claimed_at)
    assert row["failed_at"] == row["updated_at"]
    error = load_task_result(row["result"]).unwrap_err()
    assert error.error_code is OutcomeCode.TASK_EXPIRED
    assert error.data == {"task_id": "t", "worker_id": ME}
    assert await attempts(connection, "t") == []


async def test_a_worker_id_with_quotes_does_not_break_the_stored_result(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (token,) = await claim_tokens(connection, 'w"\\')
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert (await start_tokens(connection, [token], 'w"\\')).expired == {token}
    assert json.loads((await task(connection, "t"))["result"])["err"]["data"]["worker_id"] == 'w"\\'


async def test_the_deadline_is_told_from_the_lease_where_both_have_passed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection, lease_ms=0)
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert (await start_tokens(connection, tokens)).expired == frozenset(tokens)


async def test_one_batch_starts_expires_and_refuses_side_by_side(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", "c", "d")
    good, late, lost, expired = await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET good_until = now() WHERE id = 'b'")
    await release(connection, ME, [lost])
    await connection.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s' WHERE id = 'd'")
    verdicts = await start_tokens(connection, [expired, lost, late, good])
    assert verdicts == StartVerdicts(frozenset([good]), frozenset([late]), frozenset([lost, expired]))
    assert await statuses(connection) == {"a": "RUNNING", "b": "EXPIRED", "c": "PENDING", "d": "CLAIMED"}


async def test_asked_again_what_runs_under_our_token_counts_as_started(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    assert (await start_tokens(connection, [token])).started == {token}
    stale = Token("t", ME, token.claimed_at - timedelta(microseconds=1))
    stranger = Token("t", OTHER, token.claimed_at)
    assert (await start_tokens(connection, [stale])).stale == {stale}
    assert (await start_tokens(connection, [stranger], OTHER)).stale == {stranger}


async def test_of_two_claims_of_ours_on_one_task_only_the_newer_starts(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (old,) = await claim_tokens(connection, lease_ms=0)
    (again,) = await take_over(connection, worker_id=ME, queue="default", limit=1, lease_ms=LEASE_MS, task_names=None)
    verdicts = await start_tokens(connection, [old, again.token])
    assert verdicts == StartVerdicts(frozenset([again.token]), NONE, frozenset([old]))


async def test_nothing_is_asked_about_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    assert await start(connection, ME, []) == StartVerdicts(NONE, NONE, NONE)
    assert await finish(connection, ME, []) == await stored_earlier(connection, ME, []) == {}
    for call in (release(connection, ME, []), mark_finalizing(connection, ME, []), beat(connection, ME, "host", [])):
        assert await call == set()


async def test_what_is_claimed_or_runs_unknown_to_its_worker_is_as_if_it_had_never_been_claimed(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "claimed", "running", max_retries="3", retry_count="1")
    before = [await task(connection, name) for name in ("claimed", "running")]
    claimed, started = sorted(await claim_tokens(connection), key=lambda token: token.task_id)
    await start_tokens(connection, [started])
    assert await take_back(connection, ME, []) == [claimed, started]
    after = [await task(connection, name) for name in ("claimed", "running")]
    for row in (*before, *after):
        del row["updated_at"]
    assert after == before
    assert await attempts(connection, "running") == []


async def test_what_the_worker_holds_stays_with_it(connection: asyncpg.Connection) -> None:
    held = await running(connection, "a", "b")
    await enqueue(connection, "c", "d")
    more = await claim_tokens(connection)
    before = await everything(connection)
    assert await take_back(connection, ME, [*held, *more]) == []
    assert await everything(connection) == before
    kept = [held[1], more[0]]
    assert await take_back(connection, ME, kept) == [held[0], more[1]]
    assert (await start_tokens(connection, kept)).started == frozenset(kept)


async def test_it_is_the_token_that_is_held_not_the_task(connection: asyncpg.Connection) -> None:
    """An old claim of the worker, expired in a stall, is still in memory; the reply of the new one was lost."""
    await enqueue(connection, "t")
    (old,) = await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'")
    (again,) = await take_over(connection, worker_id=ME, queue="default", limit=1, lease_ms=LEASE_MS, task_names=None)
    assert await take_back(connection, ME, [old]) == [again.token]
    assert await statuses(connection) == {"t": "PENDING"}


async def test_what_others_have_and_what_has_ended_is_left_alone(connection: asyncpg.Connection) -> None:
    await running(connection, "theirs", worker=OTHER)
    mine = await running(connection, "done", "failed", "again", max_retries="1")
    kinds = (OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.RETRY)
    await finish(connection, ME, [ended(token, kind) for token, kind in zip(mine, kinds, strict=True)])
    await enqueue(connection, "waiting")
    before = await everything(connection)
    assert await take_back(connection, ME, []) == []
    assert await everything(connection) == before


async def test_the_lost_token_changes_nothing_any_more(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    await take_back(connection, ME, [])
    (again,) = await claim_some(connection, OTHER)
    assert again.token.task_id == "t"
    before = await everything(connection)
    assert await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED)]) == {token: Finished(Verdict.STALE)}
    assert (await start_tokens(connection, [token])).stale == frozenset([token])
    assert await everything(connection) == before


async def test_it_waits_for_the_start_whose_reply_was_lost_and_takes_back_what_that_started(
    connection: asyncpg.Connection, other: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    await enqueue(connection, "t")
    (token,) = await claim_tokens(connection)
    transaction = other.transaction()
    await transaction.start()
    assert (await start_tokens(other, [token])).started == frozenset([token])
    waiting = await waits_for_a_lock(connection, worker, take_back(worker, ME, []))
    assert not waiting.done()
    await transaction.commit()
    async with asyncio.timeout(10):
        assert await waiting == [token]
    assert await statuses(connection) == {"t": "PENDING"}


async def test_it_waits_for_a_finish_and_leaves_what_that_has_ended(
    connection: asyncpg.Connection, other: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    (token,) = await running(connection, "t")
    transaction = other.transaction()
    await transaction.start()
    await finish(other, ME, [ended(token, OutcomeKind.COMPLETED)])
    waiting = await waits_for_a_lock(connection, worker, take_back(worker, ME, []))
    await transaction.commit()
    async with asyncio.timeout(10):
        assert await waiting == []
    assert await statuses(connection) == {"t": "COMPLETED"}


async def test_two_that_take_back_at_once_do_not_wait_for_each_other_in_a_circle(
    connection: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    tokens: list[Token] = await running(connection, *(f"{number:02}" for number in range(50)))
    async with asyncio.timeout(10):
        first, second = await asyncio.gather(take_back(connection, ME, []), take_back(worker, ME, []))
    assert sorted([*first, *second], key=lambda token: token.task_id) == tokens
