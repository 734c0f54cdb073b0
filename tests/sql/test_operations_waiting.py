"""Another priority, queue or time for tasks that wait: what changes, who wakes up, what is refused, and the undo."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from diagnose_steps import pause, worker
from lifecycle_steps import (
    ME,
    OTHER,
    capped as under_cap,
    claim_some,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    task,
    waits_for_a_lock,
)
from operation_steps import GIVEN, OPS, audit, done, heard, look, named, undo

from horsies.lifecycle.claiming import release
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.operations.verb import TaskVerb
from horsies.query.values import read_ahead

V = named("task")
VERBS = [V.REPRIORITISE, V.MOVE, V.RESCHEDULE]
HOUR = "now() + interval '1 h'"
NOON = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def ids(rows: Any) -> list[str]:
    return [row.token.task_id for row in rows]


async def test_the_first_priority_is_claimed_first(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", "c")
    outcome = await done(connection, V.REPRIORITISE, "c", priority=" 01 ")
    assert [row.detail for row in outcome.applied] == ["PENDING, priority 1"]
    assert ids(await claim_some(connection, limit=1)) == ["c"]
    (did,) = await audit(connection)
    assert (did["verb"], did["before_state"]["priority"], did["after_state"]["priority"]) == ("reprioritise", 100, 1)


async def test_a_moved_task_wakes_the_workers_of_its_new_queue_and_is_claimed_there(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "a", "b", unique_key="'key-' || id")
    there, here = await heard(connection, "task_queue_mail"), await heard(connection, "task_queue_default")
    outcome = await done(connection, V.MOVE, "a", queue="mail")
    assert [row.detail for row in outcome.applied] == ["PENDING in mail"]
    assert ids(await claim_some(connection)) == ["b"]
    assert ids(await claim_some(connection, queue="mail")) == ["a"]
    assert (there, here) == (["retry"], [])
    assert (await task(connection, "a"))["unique_key"] == "key-a"
    (did,) = await audit(connection)
    assert (did["before_state"]["queue_name"], did["after_state"]["queue_name"]) == ("default", "mail")


@pytest.mark.parametrize("column", ["enqueued_at", "next_retry_at"])
async def test_a_task_that_is_made_due_now_is_claimed_at_once(connection: asyncpg.Connection, column: str) -> None:
    await enqueue(connection, "t", **{column: HOUR})
    assert await claim_tokens(connection) == []
    payloads = await heard(connection, "task_queue_default")
    outcome = await done(connection, V.RESCHEDULE, "t", now=True)
    assert [row.detail for row in outcome.applied] == ["PENDING, due now"]
    assert [token.task_id for token in await claim_tokens(connection)] == ["t"]
    assert payloads == ["retry"]


@pytest.mark.parametrize("next_retry_at", ["NULL", "now() + interval '1 min'"])
async def test_a_task_that_is_put_off_is_due_at_the_moment_that_was_previewed(
    connection: asyncpg.Connection, next_retry_at: str
) -> None:
    await enqueue(connection, "t", next_retry_at=next_retry_at)
    seen = await look(connection, V.RESCHEDULE, "t", delay="10m")
    assert seen.command == "horsies tasks reschedule t --in 10m"
    await apply(connection, seen, OPS, None)
    row = await task(connection, "t")
    assert row["enqueued_at"] == seen.taken_at + timedelta(minutes=10)
    assert row["next_retry_at"] == (None if next_retry_at == "NULL" else row["enqueued_at"])
    assert await claim_tokens(connection) == []


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-11-20T03:00", datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("2026-11-20T03:00+02:00", datetime(2026, 11, 20, 1, tzinfo=UTC)),
        ("03:00", datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("23:30Z", datetime(2026, 11, 19, 23, 30, tzinfo=UTC)),
        ("2026-11-19T12:00", "has passed"),
        ("2300-01-01", "hundred years"),
        ("tomorrow", "not a time"),
        ("25:00", "no such time"),
        ("3h", "not a time"),
    ],
)
def test_a_time_ahead_is_read_or_refused_with_the_reason(text: str, due: datetime | str) -> None:
    if isinstance(due, str):
        with pytest.raises(ValueError, match=due):
            read_ahead(text, NOON)
    else:
        assert read_ahead(text, NOON) == due


@pytest.mark.parametrize(
    ("verb", "options", "words"),
    [
        (V.REPRIORITISE, {}, "--priority is missing"),
        (V.REPRIORITISE, {"priority": "0"}, "'0' is not a priority"),
        (V.REPRIORITISE, {"priority": "101"}, "'101' is not a priority"),
        (V.REPRIORITISE, {"priority": "-1"}, "'-1' is not a priority"),
        (V.REPRIORITISE, {"priority": "1.5"}, "is not a priority"),
        (V.MOVE, {"queue": "  "}, "--queue is missing"),
        (V.MOVE, {"queue": "q" * 53}, "cannot be the name"),
        (V.MOVE, {"queue": "a\x1b[2Jb"}, "cannot be the name"),
        (V.RESCHEDULE, {}, "no time is given"),
        (V.RESCHEDULE, {"at": "03:00", "now": True}, "more than one time is given"),
        (V.RESCHEDULE, {"delay": "soon"}, "'soon' is not a duration"),
        (V.RESCHEDULE, {"at": "2020-01-01"}, "2020-01-01 has passed"),
    ],
)
async def test_a_value_out_of_range_is_refused_before_anything_is_read(
    connection: asyncpg.Connection, verb: TaskVerb, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(OperationError, match=words):
        await preview(connection, verb, Selection.of_ids(["t"]), **options)


async def test_what_has_the_value_already_is_refused(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", priority="7")
    asked = [(V.REPRIORITISE, {"priority": "7"}), (V.MOVE, {"queue": "default"}), (V.RESCHEDULE, {"now": True})]
    reasons = [(await look(connection, verb, "t", **options)).refused[0].reason for verb, options in asked]
    assert reasons == [
        "it has this priority already",
        "it waits in that queue already",
        "it is due already and waits for a worker",
    ]


async def test_a_time_after_the_deadline_is_refused_by_the_preview_and_by_the_statement(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", good_until="now() + interval '30 min'", enqueued_at="now() + interval '10 min'")
    seen = await look(connection, V.RESCHEDULE, "t", delay="1h")
    assert [refusal.reason for refusal in seen.refused] == [
        "it would be due after its good_until, so no worker would start it"
    ]
    in_time = await look(connection, V.RESCHEDULE, "t", delay="20m")
    await connection.execute("UPDATE horsies_tasks SET good_until = now() + interval '15 min'")
    outcome = await apply(connection, in_time, OPS, None)
    assert [row.detail for row in outcome.refused] == [seen.refused[0].reason]


@pytest.mark.parametrize("verb", VERBS, ids=str)
async def test_a_task_that_a_worker_claims_after_the_preview_is_left_to_it(
    connection: asyncpg.Connection, other: asyncpg.Connection, verb: TaskVerb
) -> None:
    """Also if the claim is not committed yet: the operator waits for it, and sees it."""
    await enqueue(connection, "t", "later", enqueued_at=f"CASE number WHEN 1 THEN now() ELSE {HOUR} END")
    seen = await look(connection, verb, "t", "later", **GIVEN[verb.name])
    claiming = other.transaction()
    await claiming.start()
    assert len(await claim_tokens(other)) == 1
    acting = await waits_for_a_lock(other, connection, apply(connection, seen, OPS, None))
    await claiming.commit()
    outcome = await acting
    assert [row.target.id for row in outcome.applied] == ["later"]
    assert [row.detail for row in outcome.refused] == [f"it is CLAIMED on {ME} now, try 1"]


@pytest.mark.parametrize("capped", [False, True])
async def test_a_claim_that_saw_the_task_before_it_was_moved_does_not_take_it_from_its_old_queue(
    connection: asyncpg.Connection, other: asyncpg.Connection, capped: bool
) -> None:
    await enqueue(connection, "t", is_workflow_task="true")
    await connection.execute(
        "CREATE OR REPLACE FUNCTION horsies_is_held(task varchar) RETURNS boolean LANGUAGE plpgsql STABLE AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN false; END $$"
    )

    async def claim() -> list[str]:
        if not capped:
            return ids(await claim_some(other))
        return ids(await under_cap(other, [("default", 5)]))

    await connection.execute("SELECT pg_advisory_lock(7)")
    claiming = await waits_for_a_lock(connection, other, claim())
    assert not claiming.done()
    await done(connection, V.MOVE, "t", queue="mail")
    await connection.execute("SELECT pg_advisory_unlock(7)")
    assert await claiming == []
    row = await task(connection, "t")
    assert (row["status"], row["queue_name"]) == ("PENDING", "mail")


@pytest.mark.parametrize("verb", VERBS, ids=str)
async def test_of_two_operators_who_saw_the_same_row_one_is_told_of_the_other(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    await enqueue(connection, "t")
    stale = await look(connection, verb, "t", **GIVEN[verb.name])
    await done(connection, V.REPRIORITISE, "t", priority="3")
    before = await everything(connection)
    outcome = await apply(connection, stale, OPS, None)
    assert [row.detail for row in outcome.refused] == [
        "an operator has acted on it since the preview: reprioritise by ops@bastion"
    ]
    assert await everything(connection) == before


async def test_a_task_between_two_tries_keeps_its_new_queue_and_priority_for_the_next(
    connection: asyncpg.Connection,
) -> None:
    (token,) = await running(connection, "t", max_retries="2")
    await finish(connection, ME, [ended(token, OutcomeKind.RETRY)])
    await done(connection, V.MOVE, "t", queue="mail")
    await done(connection, V.REPRIORITISE, "t", priority="2")
    await done(connection, V.RESCHEDULE, "t", now=True)
    (claimed,) = await claim_some(connection, OTHER, queue="mail")
    assert (claimed.priority, claimed.retry_count) == (2, 1)


@pytest.mark.parametrize("verb", VERBS, ids=str)
async def test_an_undo_restores_the_row_and_wakes_its_workers(connection: asyncpg.Connection, verb: TaskVerb) -> None:
    await enqueue(connection, "t", next_retry_at="now() - interval '1 min'")
    before = {**await task(connection, "t"), "updated_at": None}
    outcome = await done(connection, verb, "t", **GIVEN[verb.name])
    assert {**await task(connection, "t"), "updated_at": None} != before
    assert outcome.can_be_undone
    payloads = await heard(connection, "task_queue_default")
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert len(undone.applied) == 1
    assert {**await task(connection, "t"), "updated_at": None} == before
    assert [token.task_id for token in await claim_tokens(connection)] == ["t"]
    assert payloads == ["requeue"]


@pytest.mark.parametrize("verb", VERBS, ids=str)
async def test_an_undo_leaves_what_runs_and_what_was_changed_since(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    names = ("given-back", "runs", "changed", "moved-by-sql", "delayed-by-sql")
    await enqueue(connection, *names)
    outcome = await done(connection, verb, *names, **GIVEN[verb.name])
    if verb is V.RESCHEDULE:
        await connection.execute("UPDATE horsies_tasks SET enqueued_at = now() WHERE id IN ('given-back', 'runs')")
    queue = "bulk" if verb is V.MOVE else "default"
    tokens = {one.token.task_id: one.token for one in await claim_some(connection, queue=queue, limit=9)}
    await release(connection, ME, [token for name, token in tokens.items() if name != "runs"])
    if verb is not V.RESCHEDULE:
        assert tokens.keys() == {*names}
    await done(connection, V.CANCEL, "changed")
    await connection.execute("UPDATE horsies_tasks SET queue_name = 'x', priority = 9 WHERE id = 'moved-by-sql'")
    later = "UPDATE horsies_tasks SET enqueued_at = now() + interval '2 h' WHERE id = 'delayed-by-sql'"
    await connection.execute(later)
    undone = await undo(connection, outcome.operation_id, OPS, None)
    since = "its queue, its priority or its time has changed since"
    assert {row.target.id: row.detail for row in undone.refused} == {
        "runs": f"it is CLAIMED on {ME} now, try 1",
        "changed": "an operator has acted on it since: cancel by ops@bastion",
        **dict.fromkeys(("moved-by-sql", "delayed-by-sql"), since),
        **({"given-back": since} if verb is V.RESCHEDULE else {}),
    }


async def test_the_preview_of_a_move_says_who_serves_the_queue(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    await enqueue(connection, "old", good_until="now() - interval '1 s'")
    await worker(connection, queues=["default", "bulk", "mail"], names=["demo.sum"], caps={"bulk": 3})
    await pause(connection, "mail")

    async def said(queue: str) -> str:
        return "\n".join((await look(connection, V.MOVE, "a", "b", "old", queue=queue)).consequences)

    wrong = "no living worker serves the queue bulky: they wait until one does; did you mean bulk?"
    assert wrong in await said("bulky")
    bulk = await said("bulk")
    assert "3 tasks demo.add: no living worker of the queue bulk knows that name, none starts" in bulk
    assert "at most 3 tasks of the queue bulk run at once" in bulk
    assert "1 past the deadline: workers do not start them" in bulk
    assert "the queue mail is paused since" in await said("mail")


async def test_the_preview_names_the_paused_queue_in_which_a_hurried_task_waits(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", enqueued_at=HOUR)
    await pause(connection, "default")
    seen = await look(connection, V.RESCHEDULE, "t", now=True)
    assert any(line.startswith("the queue default is paused since") for line in seen.consequences)
    await apply(connection, seen, OPS, None)
    assert await claim_tokens(connection) == []


async def test_tasks_of_workflows_keep_their_nodes(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", is_workflow_task="true")
    await connection.execute("INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'month_end', 'RUNNING')")
    await connection.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
        " VALUES ('n', 'w', 0, 'demo.add', 'ENQUEUED', 't')"
    )
    nodes = await connection.fetch("SELECT * FROM horsies_workflow_tasks")
    for verb in VERBS:
        seen = await look(connection, verb, "t", **GIVEN[verb.name])
        assert any(line.startswith("1 in workflows (month_end): ") for line in seen.consequences)
        await apply(connection, seen, OPS, None)
    assert await connection.fetch("SELECT * FROM horsies_workflow_tasks") == nodes
