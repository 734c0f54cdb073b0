"""An undo restores rows exactly, or is refused with the reason; both leave an audit row."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from database_server import as_written
from lifecycle_steps import ME, claim_tokens, ended, enqueue, everything, running, start_tokens, task
from operation_steps import OPS, audit, completed, done, failed, in_state, look, look_back, named, undo
from until import until

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.claiming import release
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.lifecycle.retention import ages_of, prune
from horsies.operations import undo as undoing
from horsies.operations.pipeline import apply
from horsies.operations.target import Actor, OperationError
from horsies.operations.undo import Hold
from horsies.operations.verb import TaskVerb

V = named("task")


async def the_row(conn: asyncpg.Connection) -> dict[str, Any]:
    """All columns of the only task except the time of its last change."""
    return {name: value for name, value in (await task(conn, "t")).items() if name != "updated_at"}


async def refusals(conn: asyncpg.Connection, operation_id: Any) -> list[str]:
    before = await everything(conn)
    outcome = await undo(conn, operation_id, OPS, None)
    assert outcome.applied == ()
    assert await everything(conn) == before
    return [row.detail for row in outcome.refused]


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"])
@pytest.mark.parametrize("fresh_budget", [False, True])
async def test_a_requeue_that_has_not_started_is_taken_back_to_the_last_column(
    connection: asyncpg.Connection, status: str, fresh_budget: bool
) -> None:
    await in_state(connection, status, "t")
    before = await the_row(connection)
    outcome = await done(connection, V.REQUEUE, "t", fresh_budget=fresh_budget)
    assert await the_row(connection) != before
    undone = await undo(connection, outcome.operation_id, OPS, "wrong rows")
    assert len(undone.applied) == 1
    assert await the_row(connection) == before
    did, undid = await audit(connection)
    assert (undid["verb"], undid["undoes"], undid["reason"]) == ("undo", did["id"], "wrong rows")
    assert (undid["before_state"]["status"], undid["after_state"]["status"]) == ("PENDING", status)


@pytest.mark.parametrize("verb", [V.FAIL, V.CANCEL])
async def test_what_was_ended_while_pending_waits_again_as_before(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    await enqueue(connection, "t", enqueued_at="now() - interval '1 h'", max_retries="2", unique_key="'k'")
    before = await the_row(connection)
    outcome = await done(connection, verb, "t")
    assert len((await undo(connection, outcome.operation_id, OPS, None)).applied) == 1
    assert await the_row(connection) == before
    assert [token.task_id for token in await claim_tokens(connection)] == ["t"]


async def test_what_was_ended_while_claimed_waits_again_without_its_claim(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    before = await the_row(connection)
    await claim_tokens(connection)
    outcome = await done(connection, V.CANCEL, "t")
    await undo(connection, outcome.operation_id, OPS, None)
    assert await the_row(connection) == before


async def test_a_hurried_retry_waits_for_its_time_again(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", next_retry_at="now() + interval '1 h'", enqueued_at="now() + interval '1 h'")
    before = await the_row(connection)
    outcome = await done(connection, V.RETRY_NOW, "t")
    await undo(connection, outcome.operation_id, OPS, None)
    assert await the_row(connection) == before


async def test_a_task_that_waits_again_wakes_its_workers(connection: asyncpg.Connection, database: str) -> None:
    await enqueue(connection, "t")
    outcome = await done(connection, V.CANCEL, "t")
    ears, woken = await asyncpg.connect(database), asyncio.Event()
    await ears.add_listener("task_queue_default", lambda *_: woken.set())
    await undo(connection, outcome.operation_id, OPS, None)
    await asyncio.wait_for(woken.wait(), 10)
    await ears.close()


async def test_a_preview_of_an_undo_says_what_the_undo_then_does(connection: asyncpg.Connection) -> None:
    await failed(connection, "back", "claimed", "gone")
    outcome = await done(connection, V.REQUEUE, "back", "claimed", "gone")
    await connection.execute("UPDATE horsies_tasks SET next_retry_at = now() + interval '1 h' WHERE id <> 'claimed'")
    await claim_tokens(connection)
    await connection.execute("DELETE FROM horsies_tasks WHERE id = 'gone'")
    before = await everything(connection)
    seen = await look_back(connection, outcome.operation_id)
    assert await everything(connection) == before
    assert seen.command == f"horsies audit undo {outcome.operation_id}"
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert [target.id for target in seen.eligible] == [row.target.id for row in undone.applied] == ["back"]
    assert {refusal.target.id: refusal.reason.split(" now")[0] for refusal in seen.refused} == {
        "claimed": "it is CLAIMED on worker-a",
        "gone": "its row was deleted",
    }


@pytest.mark.parametrize(
    ("verb", "status"),
    [(V.FAIL, "RUNNING"), (V.REQUEUE, "CLAIMED"), (V.RELEASE, "CLAIMED"), (V.RERUN, "FAILED"), (V.CANCEL, "PENDING")],
)
async def test_what_has_no_way_back_says_so_before(connection: asyncpg.Connection, verb: TaskVerb, status: str) -> None:
    await in_state(connection, status, "t")
    outcome = await done(connection, verb, "t")
    seen = await look_back(connection, outcome.operation_id)
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert len(seen.eligible) == len(undone.applied) == (verb is V.CANCEL)


async def test_a_requeue_that_was_claimed_and_given_back_has_not_started(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    outcome = await done(connection, V.REQUEUE, "t")
    await release(connection, ME, await claim_tokens(connection))
    assert len((await undo(connection, outcome.operation_id, OPS, None)).applied) == 1


async def test_a_requeue_that_is_claimed_runs_or_has_run_stays(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    outcome = await done(connection, V.REQUEUE, "t")
    (token,) = await claim_tokens(connection)
    assert await refusals(connection, outcome.operation_id) == ["it is CLAIMED on worker-a now, try 2"]
    await start_tokens(connection, [token])
    assert await refusals(connection, outcome.operation_id) == ["it is RUNNING on worker-a now, try 2"]
    await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED)])
    assert await refusals(connection, outcome.operation_id) == ["it is COMPLETED now, try 2"]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.FAIL, V.CANCEL])
async def test_a_run_that_was_taken_away_does_not_come_back(connection: asyncpg.Connection, verb: TaskVerb) -> None:
    await running(connection, "t")
    outcome = await done(connection, verb, "t")
    reason = "its run was taken from its worker, and that attempt has ended"
    assert await refusals(connection, outcome.operation_id) == [reason]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RELEASE])
async def test_a_claim_that_was_released_does_not_come_back(connection: asyncpg.Connection, verb: TaskVerb) -> None:
    await in_state(connection, "CLAIMED", "t")
    outcome = await done(connection, verb, "t")
    assert await refusals(connection, outcome.operation_id) == ["a claim cannot be returned to a worker"]


async def test_a_rerun_and_an_expiry_name_the_other_way_out(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    rerun = await done(connection, V.RERUN, "t")
    (copy,) = rerun.applied
    assert await refusals(connection, rerun.operation_id) == [
        f"the copy is a separate task: cancel {copy.new_id} instead"
    ]
    await enqueue(connection, "late", good_until="now() - interval '1 s'")
    expired = await done(connection, V.EXPIRE, "late")
    assert await refusals(connection, expired.operation_id) == [
        "its good_until has passed: requeue it to run it anyway"
    ]


async def test_an_undo_cannot_be_undone_nor_be_done_twice(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    outcome = await done(connection, V.CANCEL, "t")
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert await refusals(connection, undone.operation_id) == ["undo cannot be undone"]
    await done(connection, V.CANCEL, "t")
    since = "an operator has acted on it since: cancel by ops@bastion"
    assert await refusals(connection, outcome.operation_id) == [since]


async def test_two_operators_who_undo_at_once_undo_once(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    names = [f"t{number:02}" for number in range(40)]
    await enqueue(connection, *names)
    outcome = await done(connection, V.CANCEL, *names)
    both = await asyncio.gather(
        undo(connection, outcome.operation_id, OPS, None, batch=7),
        undo(other, outcome.operation_id, Actor("bob", "b"), None, batch=9),
    )
    assert sum(len(one.applied) for one in both) == sum(len(one.refused) for one in both) == len(names)
    undoing = [row for row in await audit(connection) if row["verb"] == "undo" and row["outcome"] == "applied"]
    assert sorted(row["target_id"] for row in undoing) == names


async def test_a_unique_key_that_lives_in_another_task_keeps_the_first_one_ended(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", unique_key="'k'")
    outcome = await done(connection, V.CANCEL, "t")
    await enqueue(connection, "new", unique_key="'k'")
    assert await refusals(connection, outcome.operation_id) == ["its unique key is held by the live task new"]
    await connection.execute("UPDATE horsies_tasks SET task_name = 'another' WHERE id = 'new'")
    again = await undo(connection, outcome.operation_id, OPS, None)
    assert [row.target.id for row in again.applied] == ["t"]


async def test_a_result_too_large_to_keep_is_told(connection: asyncpg.Connection) -> None:
    await completed(connection, "t")
    await connection.execute("UPDATE horsies_tasks SET result = repeat('x', 65537)")
    outcome = await done(connection, V.REQUEUE, "t")
    assert await refusals(connection, outcome.operation_id) == ["its result had more than 64 kB and was not kept"]


async def test_a_workflow_that_has_gone_on_is_not_called_back(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", is_workflow_task="true")
    outcome = await done(connection, V.FAIL, "t")
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'month_end', 'RUNNING');"
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
        " VALUES ('n', 'w', 0, 'demo.add', 'FAILED', 't')"
    )
    assert await refusals(connection, outcome.operation_id) == ["its workflow has gone on without it"]


async def test_a_pruned_row_is_refused_as_gone(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    outcome = await done(connection, V.CANCEL, "t")
    await connection.execute("DELETE FROM horsies_tasks")
    assert await refusals(connection, outcome.operation_id) == ["its row was deleted"]


async def test_rows_that_the_operation_refused_are_not_part_of_its_undo(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    seen = await look(connection, V.CANCEL, "a", "b")
    await done(connection, V.FAIL, "b")
    outcome = await apply(connection, seen, OPS, None)
    assert [row.target.id for row in (await undo(connection, outcome.operation_id, OPS, None)).rows] == ["a"]


async def test_an_unknown_operation_is_an_error_that_says_where_to_look(connection: asyncpg.Connection) -> None:
    with pytest.raises(OperationError, match="has changed nothing"):
        await undo(connection, uuid4(), OPS, None)


async def test_an_operation_whose_record_was_pruned_says_that_this_may_be_so(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    outcome = await done(connection, V.CANCEL, "t")
    await connection.execute(as_written("UPDATE horsies_operator_actions SET acted_at = now() - interval '366 days'"))
    await prune(connection, ages_of(RecoveryConfig()))
    for attempt in (look_back(connection, outcome.operation_id), undo(connection, outcome.operation_id, OPS, None)):
        with pytest.raises(OperationError, match="or its record was pruned") as refused:
            await attempt
        assert "operator_action_retention_hours" in str(refused.value.help_text)
    assert await connection.fetchval("SELECT status FROM horsies_tasks") == "CANCELLED"


async def test_what_is_held_waits_for_the_undo_and_goes_on_as_before_without_one(
    connection: asyncpg.Connection, database: str
) -> None:
    await failed(connection, "t")
    before = await the_row(connection)
    outcome = await done(connection, V.REQUEUE, "t")
    waiting = await the_row(connection)
    hold, woken, ears = Hold(str(outcome.operation_id)), asyncio.Event(), await asyncpg.connect(database)
    await ears.add_listener("task_queue_default", lambda *_: woken.set())
    for _ in range(2):  # the second one is a renewal
        assert await hold.renew(connection) == 1
        assert await claim_tokens(connection) == []
    await hold.release(connection)
    assert await the_row(connection) == waiting
    await asyncio.wait_for(woken.wait(), 10)
    await ears.close()
    await hold.renew(connection)
    assert len((await undo(connection, outcome.operation_id, OPS, None)).applied) == 1
    assert await the_row(connection) == before
    await hold.release(connection)
    assert await the_row(connection) == before


async def test_the_hold_of_a_console_that_died_ends_by_itself(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undoing, "HOLD_S", 0.25)
    await failed(connection, "t")
    outcome = await done(connection, V.REQUEUE, "t")
    assert await Hold(str(outcome.operation_id)).renew(connection) == 1
    assert await claim_tokens(connection) == []
    await until(connection, "(SELECT next_retry_at < clock_timestamp() FROM horsies_tasks)")
    assert len(await claim_tokens(connection)) == 1


async def test_a_row_that_is_being_claimed_is_not_waited_for(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await failed(connection, "a", "b")
    outcome = await done(connection, V.REQUEUE, "a", "b")
    async with other.transaction():
        await other.execute("UPDATE horsies_tasks SET status = 'CLAIMED' WHERE id = 'a'")
        assert await asyncio.wait_for(Hold(str(outcome.operation_id)).renew(connection), 10) == 1
    assert await claim_tokens(connection) == []


async def test_two_operators_hold_the_same_and_the_first_one_to_leave_lets_nothing_go(
    connection: asyncpg.Connection,
) -> None:
    await failed(connection, "t")
    before = await the_row(connection)
    outcome = await done(connection, V.REQUEUE, "t")
    alice, bob = Hold(str(outcome.operation_id)), Hold(str(outcome.operation_id))
    assert (await alice.renew(connection), await bob.renew(connection)) == (1, 1)
    await alice.release(connection)
    assert await claim_tokens(connection) == []
    assert len((await undo(connection, outcome.operation_id, OPS, None)).applied) == 1
    await bob.release(connection)
    assert await the_row(connection) == before


async def test_a_hold_gives_way_to_what_another_operator_does(connection: asyncpg.Connection) -> None:
    await failed(connection, "now", "again", "moved")
    outcome = await done(connection, V.REQUEUE, "again", "moved", "now")
    hold = Hold(str(outcome.operation_id))
    assert await hold.renew(connection) == 3
    await done(connection, V.RETRY_NOW, "now")
    await done(connection, V.CANCEL, "again")
    await done(connection, V.REQUEUE, "again")
    assert await hold.renew(connection) == 1
    await hold.release(connection)
    assert sorted(token.task_id for token in await claim_tokens(connection)) == ["again", "moved", "now"]


async def test_a_hold_hurries_no_task_that_waits_for_its_time(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", next_retry_at="now() + interval '1 h'")
    outcome = await done(connection, V.REPRIORITISE, "t", priority="7")
    before = await the_row(connection)
    hold = Hold(str(outcome.operation_id))
    assert await hold.renew(connection) == 0
    assert await the_row(connection) == before
    await connection.execute("UPDATE horsies_tasks SET next_retry_at = now() + interval '5 s'")
    before = await the_row(connection)
    assert await hold.renew(connection) == 1
    await hold.release(connection)
    assert await the_row(connection) == before


async def test_a_session_that_cannot_write_holds_nothing(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    outcome = await done(connection, V.REQUEUE, "t")
    before = await everything(connection)
    await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(OperationError, match="read-only"):
        await Hold(str(outcome.operation_id)).renew(connection)
    await connection.execute("RESET default_transaction_read_only")
    assert await everything(connection) == before


async def test_an_undo_names_its_operation(connection: asyncpg.Connection) -> None:
    await failed(connection, "a", "b")
    seen = await look(connection, V.REQUEUE, "a", "b")
    outcome = await apply(connection, seen, OPS, "the limit was raised")
    undone = (await look_back(connection, outcome.operation_id)).undone
    assert undone is not None
    assert undone.words(undone.acted_at) == 'requeue of 2 tasks · 0s ago · ops@bastion · "the limit was raised"'
