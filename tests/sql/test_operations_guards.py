"""A row changed between preview and apply: the statement notices, changes nothing, and reports the row's state."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import asyncpg
import pytest
from lifecycle_steps import (
    ME,
    OTHER,
    attempts,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    start_tokens,
    statuses,
    task,
    waits_for_a_lock,
)
from operation_steps import OPS, act, audit, done, failed, in_state, look, named

from horsies.lifecycle.claim_token import Verdict
from horsies.lifecycle.claiming import release
from horsies.lifecycle.finishing import Finished, OutcomeKind, finish
from horsies.operations.audit_rows import OperatorAction
from horsies.operations.pipeline import apply
from horsies.operations.selection import Selection, freeze
from horsies.operations.target import Actor, Target
from horsies.operations.task_targets import change
from horsies.operations.verb import TaskVerb

V = named("task")
STALE = Finished(Verdict.STALE)
DEED = OperatorAction(uuid4(), "verb", Actor("ann", "host"), None, None)


@pytest.mark.parametrize("verb", [V.REQUEUE, V.FAIL, V.CANCEL])
@pytest.mark.parametrize("kind", OutcomeKind)
async def test_a_zombie_cannot_finish_what_was_taken_from_it(
    connection: asyncpg.Connection, verb: TaskVerb, kind: OutcomeKind
) -> None:
    (token,) = await running(connection, "t", max_retries="3")
    await done(connection, verb, "t")
    before = await everything(connection)
    assert await finish(connection, ME, [ended(token, kind)]) == {token: STALE}
    assert await everything(connection) == before


async def test_a_zombie_cannot_finish_the_run_that_follows_a_requeue(connection: asyncpg.Connection) -> None:
    (zombie,) = await running(connection, "t")
    await done(connection, V.REQUEUE, "t")
    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    finished = await finish(connection, ME, [ended(zombie, OutcomeKind.FAILED), ended(token, OutcomeKind.COMPLETED)])
    assert (finished[zombie], finished[token].verdict) == (STALE, Verdict.ACCEPTED)
    assert [(one["attempt"], one["outcome"]) for one in await attempts(connection, "t")] == [
        (1, "WORKER_FAILURE"),
        (2, "COMPLETED"),
    ]


async def test_a_claim_that_was_released_cannot_be_started(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    await done(connection, V.RELEASE, "t")
    assert (await start_tokens(connection, tokens)).started == frozenset()


async def test_what_ended_after_the_preview_is_refused_with_its_present_state(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    seen = await look(connection, V.FAIL, "t")
    await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED)])
    before = await everything(connection)
    outcome = await apply(connection, seen, OPS, "late")
    assert [row.detail for row in outcome.refused] == ["it is COMPLETED now, try 1"]
    assert await everything(connection) == before
    (row,) = await audit(connection)
    assert (row["outcome"], row["detail"]) == ("refused", "it is COMPLETED now, try 1")
    assert (row["before_state"]["status"], row["after_state"]) == ("COMPLETED", None)


@pytest.mark.parametrize("verb", [V.REQUEUE, V.FAIL, V.CANCEL])
async def test_the_same_status_under_another_owner_is_another_state(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    await running(connection, "t")
    seen = await look(connection, verb, "t")
    await done(connection, V.REQUEUE, "t")
    await start_tokens(connection, await claim_tokens(connection, OTHER), OTHER)
    outcome = await apply(connection, seen, OPS, None)
    assert [row.detail for row in outcome.refused] == ["it is RUNNING on worker-b now, try 2"]
    assert (await task(connection, "t"))["status"] == "RUNNING"


@pytest.mark.parametrize("verb", [V.REQUEUE, V.FAIL, V.CANCEL])
async def test_the_same_worker_in_its_next_run_is_another_state(connection: asyncpg.Connection, verb: TaskVerb) -> None:
    (token,) = await running(connection, "t", max_retries="1")
    seen = await look(connection, verb, "t")
    await finish(connection, ME, [ended(token, OutcomeKind.RETRY, retry_delay_s=0.0)])
    await start_tokens(connection, await claim_tokens(connection))
    assert [row.detail for row in (await apply(connection, seen, OPS, None)).refused] == [
        "it is RUNNING on worker-a now, try 2"
    ]


async def test_a_claim_of_the_same_worker_that_is_a_later_one_is_another_state(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    seen = [await look(connection, verb, "t") for verb in (V.RELEASE, V.REQUEUE)]
    await release(connection, ME, tokens)
    (later,) = await claim_tokens(connection)
    for one in seen:
        outcome = await apply(connection, one, OPS, None)
        assert [row.detail for row in outcome.refused] == ["it is CLAIMED on worker-a now, try 1"]
    assert (await start_tokens(connection, [later])).started == {later}


async def test_a_failure_that_failed_again_meanwhile_is_another_state(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    seen = [await look(connection, verb, "t") for verb in (V.REQUEUE, V.RERUN)]
    await done(connection, V.REQUEUE, "t")
    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    await finish(connection, ME, [ended(token, OutcomeKind.FAILED)])
    for one in seen:
        outcome = await apply(connection, one, OPS, None)
        assert [row.detail for row in outcome.refused] == ["it is FAILED now, try 2"]


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        (V.REQUEUE, "PENDING"),
        (V.FAIL, "COMPLETED"),
        (V.CANCEL, "FAILED"),
        (V.EXPIRE, "CLAIMED"),
        (V.EXPIRE, "PENDING"),
        (V.RETRY_NOW, "RUNNING"),
        (V.RETRY_NOW, "CLAIMED"),
        (V.RELEASE, "RUNNING"),
        (V.RERUN, "RUNNING"),
    ],
)
async def test_the_statements_keep_to_the_table_of_states_whatever_they_are_given(
    connection: asyncpg.Connection, verb: TaskVerb, status: str
) -> None:
    await in_state(connection, status, "t")
    await connection.execute("UPDATE horsies_tasks SET next_retry_at = now() + interval '1 h'")
    before = await everything(connection)
    (seen,) = (await freeze(connection, Selection.of_ids(["t"]))).seen
    (row,) = await change(connection, DEED, verb, [Target("task", "t", "t", status, seen)])
    assert not row.applied
    assert status in row.detail or row.detail == "it has no good_until"
    assert await everything(connection) == before


async def test_a_row_that_was_pruned_is_refused_as_gone(connection: asyncpg.Connection) -> None:
    await failed(connection, "a", "b")
    seen = [await look(connection, verb, "a") for verb in (V.REQUEUE, V.RERUN)]
    await connection.execute("DELETE FROM horsies_tasks WHERE id = 'a'")
    for one in seen:
        outcome = await apply(connection, one, OPS, None)
        assert [row.detail for row in outcome.refused] == ["its row was deleted"]
    assert await statuses(connection) == {"b": "FAILED"}
    assert [row["outcome"] for row in await audit(connection)] == ["refused", "refused"]


async def test_rows_that_arrive_after_the_preview_are_not_touched(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "old")
    seen = await look(connection, V.CANCEL, "old")
    await enqueue(connection, "new")
    await apply(connection, seen, OPS, None)
    assert await statuses(connection) == {"old": "CANCELLED", "new": "PENDING"}


@pytest.mark.parametrize("second", [V.REQUEUE, V.FAIL, V.CANCEL])
async def test_of_two_operators_on_the_same_rows_one_wins_and_the_other_learns_it(
    connection: asyncpg.Connection, other: asyncpg.Connection, second: TaskVerb
) -> None:
    names = [f"t{number:03}" for number in range(60)]
    await running(connection, *names)
    mine, theirs = await look(connection, V.FAIL, *names), await look(other, second, *reversed(names))
    ann, bob = Actor("ann", "a"), Actor("bob", "b")
    first, then = await asyncio.gather(
        apply(connection, mine, ann, None, batch=7), apply(other, theirs, bob, None, batch=11)
    )
    won = {row.target.id: "ann" for row in first.applied} | {row.target.id: "bob" for row in then.applied}
    assert sorted(won) == names
    assert len(first.applied) + len(then.applied) == len(first.refused) + len(then.refused) == len(names)
    assert all("now, try" in row.detail for row in (*first.refused, *then.refused))
    rows = await audit(connection)
    assert {row["target_id"]: row["os_user"] for row in rows if row["outcome"] == "applied"} == won
    assert len(rows) == 2 * len(names)
    assert await connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == len(names)


async def test_an_operator_who_waits_for_a_finishing_worker_sees_its_outcome(
    connection: asyncpg.Connection, other: asyncpg.Connection, database: str
) -> None:
    (token,) = await running(connection, "t")
    seen = await look(connection, V.REQUEUE, "t")
    worker = other.transaction()
    await worker.start()
    await finish(other, ME, [ended(token, OutcomeKind.COMPLETED)])
    observer = await asyncpg.connect(database)
    waiting = await waits_for_a_lock(observer, connection, apply(connection, seen, OPS, None))
    await worker.commit()
    await observer.close()
    assert [row.detail for row in (await waiting).refused] == ["it is COMPLETED now, try 1"]
    assert [one["outcome"] for one in await attempts(connection, "t")] == ["COMPLETED"]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RERUN, V.CANCEL, V.RETRY_NOW])
async def test_an_operator_who_waits_for_another_one_does_not_do_it_again(
    connection: asyncpg.Connection, other: asyncpg.Connection, database: str, verb: TaskVerb
) -> None:
    await (failed if verb in (V.REQUEUE, V.RERUN) else enqueue)(connection, "t", max_retries="3")
    await connection.execute("UPDATE horsies_tasks SET enqueued_at = now() + interval '1 h' WHERE status = 'PENDING'")
    seen = await look(connection, verb, "t")
    rows = (await look(other, verb, "t")).eligible
    first = other.transaction(isolation="read_committed")
    await first.start()
    await change(other, DEED, verb, rows)
    observer = await asyncpg.connect(database)
    waiting = await waits_for_a_lock(observer, connection, apply(connection, seen, OPS, None))
    await first.commit()
    before = await everything(observer)
    outcome = await waiting
    assert outcome.applied == ()
    assert await everything(observer) == before
    assert [row["outcome"] for row in await audit(observer)] == ["applied", "refused"]
    await observer.close()


async def test_a_worker_that_waits_for_an_operator_is_stale(
    connection: asyncpg.Connection, other: asyncpg.Connection, database: str
) -> None:
    (token,) = await running(connection, "t")
    seen = await look(connection, V.REQUEUE, "t")
    # The statement of the operator, held open: as if its commit took long.
    await connection.execute("SET deadlock_timeout = '10s'")
    await other.execute(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;"
        "CREATE TRIGGER hold AFTER INSERT ON horsies_operator_actions EXECUTE FUNCTION hold();"
        "SELECT pg_advisory_lock(7)"
    )
    observer, worker = await asyncpg.connect(database), await asyncpg.connect(database)
    operator = await waits_for_a_lock(observer, connection, apply(connection, seen, OPS, None))
    finishing = await waits_for_a_lock(observer, worker, finish(worker, ME, [ended(token, OutcomeKind.COMPLETED)]))
    await other.execute("SELECT pg_advisory_unlock(7)")
    assert len((await operator).applied) == 1
    assert await finishing == {token: STALE}
    assert [one["error_code"] for one in await attempts(connection, "t")] == ["OPERATOR_REQUEUED"]
    await observer.close()
    await worker.close()


async def test_a_unique_key_that_lives_again_is_refused_in_the_preview(connection: asyncpg.Connection) -> None:
    await failed(connection, "old", unique_key="'k'")
    await enqueue(connection, "new", unique_key="'k'")
    for verb in (V.REQUEUE, V.RERUN):
        seen = await look(connection, verb, "old")
        assert [refusal.reason for refusal in seen.refused] == ["its unique key is held by the live task new"]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RERUN])
async def test_a_unique_key_of_another_name_refuses_nothing(connection: asyncpg.Connection, verb: TaskVerb) -> None:
    for name in ("pay", "ship"):
        await failed(connection, name, unique_key="'k'", task_name=f"'{name}'")
    await enqueue(connection, "new", unique_key="'k'", task_name="'refund'")
    outcome = await apply(connection, await look(connection, verb, "pay", "ship"), OPS, None)
    assert sorted(row.target.id for row in outcome.applied) == ["pay", "ship"]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RERUN])
async def test_a_unique_key_that_lives_again_after_the_preview_is_a_refusal_and_no_error(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    await failed(connection, "old", unique_key="'k'")
    await failed(connection, "plain")
    seen = await look(connection, verb, "old", "plain")
    await enqueue(connection, "new", unique_key="'k'")
    outcome = await apply(connection, seen, OPS, None)
    assert [(row.target.id, row.detail) for row in outcome.refused] == [
        ("old", "its unique key is held by the live task new")
    ]
    assert [row.target.id for row in outcome.applied] == ["plain"]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RERUN])
async def test_of_several_with_one_unique_key_the_last_one_lives_again(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    for name in "abc":
        await failed(connection, name, unique_key="'k'")
    seen = await look(connection, verb, "a", "c", "b")
    assert [target.id for target in seen.eligible] == ["c"]
    assert {refusal.reason for refusal in seen.refused} == {"its unique key goes to the selected task c"}
    together = replace(seen, eligible=(*seen.eligible, *(refusal.target for refusal in seen.refused)))
    await connection.execute("BEGIN; CREATE TABLE kept AS SELECT * FROM horsies_tasks; COMMIT")
    assert [row.target.id for row in (await apply(connection, together, OPS, None)).applied] == ["c"]
    await connection.execute(
        "DELETE FROM horsies_operator_actions; DELETE FROM horsies_tasks; INSERT INTO horsies_tasks SELECT * FROM kept"
    )
    # As two keystrokes with previews from before.
    first, second = await look(connection, verb, "a"), await look(connection, verb, "b")
    assert len((await apply(connection, first, OPS, None)).applied) == 1
    (refused,) = (await apply(connection, second, OPS, None)).refused
    assert refused.detail.startswith("its unique key is held by the live task ")


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RERUN])
async def test_a_unique_key_taken_while_the_statement_runs_is_a_refusal_of_that_row_only(
    connection: asyncpg.Connection, other: asyncpg.Connection, database: str, verb: TaskVerb
) -> None:
    await failed(connection, "old", unique_key="'k'")
    await failed(connection, "plain")
    seen = await look(connection, verb, "old", "plain")
    sending = other.transaction()
    await sending.start()
    await enqueue(other, "new", unique_key="'k'")  # not visible yet, but in the index
    observer = await asyncpg.connect(database)
    waiting = await waits_for_a_lock(observer, connection, apply(connection, seen, OPS, None))
    await sending.commit()
    await observer.close()
    outcome = await waiting
    assert [row.target.id for row in outcome.applied] == ["plain"]
    assert [row.detail for row in outcome.refused] == ["its unique key is held by the live task new"]
    assert sorted(row["outcome"] for row in await audit(connection)) == ["applied", "refused"]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_two_operators_agree_under_stricter_isolation_as_well(
    connection: asyncpg.Connection, other: asyncpg.Connection, isolation: str
) -> None:
    for session in (connection, other):
        await session.execute(f"SET default_transaction_isolation = '{isolation}'")
    await running(connection, "a", "b", "c")
    seen = await look(connection, V.FAIL, "a", "b", "c")
    outcomes = await asyncio.gather(*(apply(session, seen, OPS, None) for session in (connection, other)))
    assert sum(len(outcome.applied) for outcome in outcomes) == 3
    assert len(await audit(connection)) == 6


async def test_a_verb_on_nothing_asks_nothing(connection: asyncpg.Connection) -> None:
    outcome = await act(connection, V.FAIL)
    assert (outcome.rows, outcome.not_attempted, await audit(connection)) == ((), (), [])
