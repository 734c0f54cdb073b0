"""Operators pause and resume queues: claims stop and continue, and the audit names the actor."""

from __future__ import annotations

import asyncio

import asyncpg
from lifecycle_steps import capped, claim_some, enqueue, running
from operation_steps import OPS, audit, heard, snapshot, undo

from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verb import OperationOutcome, QueueVerb
from horsies.operations.verbs import VERBS


async def act(conn: asyncpg.Connection, verb: QueueVerb, *queues: str) -> OperationOutcome:
    return await apply(conn, await preview(conn, verb, Selection.of_ids(queues)), OPS, "provider is down")


MAIL = [("mail", 5)]


async def test_nothing_is_claimed_from_a_paused_queue_until_it_is_resumed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", queue_name="'mail'")
    await enqueue(connection, "c")
    assert [row.applied for row in (await act(connection, VERBS["queue", "pause"], "mail")).rows] == [True]
    assert await claim_some(connection, queue="mail") == []
    assert await capped(connection, MAIL) == []
    assert len(await claim_some(connection, queue="default")) == 1
    woken = await heard(connection, "task_queue_mail")
    assert [row.applied for row in (await act(connection, VERBS["queue", "resume"], "mail")).rows] == [True]
    assert len(await claim_some(connection, queue="mail", limit=1)) == 1
    assert len(await capped(connection, MAIL)) == 1
    assert woken == ["resumed"]


async def test_who_paused_a_queue_and_why_is_kept_with_it_and_in_the_trace(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1", queues=("mail",))
    outcome = await act(connection, VERBS["queue", "pause"], "mail")
    state = await connection.fetchrow("SELECT * FROM horsies_queue_state")
    assert (state["queue_name"], state["paused_by"], state["reason"]) == ("mail", "ops@bastion", "provider is down")
    resumed = await act(connection, VERBS["queue", "resume"], "mail")
    first, second = await audit(connection)
    assert (first["operation_id"], first["verb"], first["target_kind"]) == (outcome.operation_id, "pause", "queue")
    assert first["before_state"] == {"paused_at": None}
    assert (second["operation_id"], second["verb"], second["outcome"]) == (resumed.operation_id, "resume", "applied")
    assert second["before_state"]["paused_at"] == first["after_state"]["paused_at"]
    assert second["before_state"]["paused_by"] == "ops@bastion"


async def test_a_preview_says_what_waits_and_what_goes_on(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1", queues=("mail",))
    await running(connection, "busy")
    await connection.execute("UPDATE horsies_tasks SET queue_name = 'mail'")
    await enqueue(connection, "due", queue_name="'mail'")
    await enqueue(connection, "later", queue_name="'mail'", enqueued_at="now() + interval '1 hour'")
    found = await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["mail"]))
    assert found.command == "horsies queues pause mail"
    (consequence,) = found.consequences
    assert consequence.startswith("mail: 2 tasks wait")
    assert "1 claimed or running continues" in consequence
    await act(connection, VERBS["queue", "pause"], "mail")
    found = await preview(connection, VERBS["queue", "resume"], Selection.of_ids(["mail"]))
    assert found.consequences == ("mail: 2 tasks wait, 1 of them due; served by 1 living worker",)


async def test_a_name_that_is_no_queue_is_refused_with_the_nearest_one(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", queue_name="'mail'")
    found = await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["mial", "mail", "zzz"]))
    assert [target.id for target in found.eligible] == ["mail"]
    assert [refusal.reason for refusal in found.refused] == [
        "no task waits in such a queue and no worker serves it; did you mean mail?",
        "no task waits in such a queue and no worker serves it",
    ]


async def test_what_is_so_already_is_refused(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1", queues=("mail",))
    found = await preview(connection, VERBS["queue", "resume"], Selection.of_ids(["mail"]))
    assert [refusal.reason for refusal in found.refused] == ["it is open"]
    await act(connection, VERBS["queue", "pause"], "mail")
    (refusal,) = (await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["mail"]))).refused
    assert refusal.reason.startswith("it is paused since ")
    assert refusal.reason.endswith('by ops@bastion "provider is down"')


async def test_of_two_operators_who_pause_one_queue_one_is_told_who_was_first(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", queue_name="'mail'")
    found = await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["mail"]))
    outcomes = await asyncio.gather(*(apply(conn, found, OPS, None) for conn in (connection, other)))
    applied, refused = sorted((outcome.rows[0] for outcome in outcomes), key=lambda row: not row.applied)
    assert (applied.applied, refused.applied) == (True, False)
    assert refused.detail.startswith("it is paused since")
    assert sorted(row["outcome"] for row in await audit(connection)) == ["applied", "refused"]


async def test_a_pause_made_after_the_preview_is_not_lifted_with_the_one_that_was_seen(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "a", queue_name="'mail'")
    await act(connection, VERBS["queue", "pause"], "mail")
    found = await preview(connection, VERBS["queue", "resume"], Selection.of_ids(["mail"]))
    await act(connection, VERBS["queue", "resume"], "mail")
    await act(connection, VERBS["queue", "pause"], "mail")
    outcome = await apply(connection, found, OPS, None)
    assert [row.applied for row in outcome.rows] == [False]
    assert await claim_some(connection, queue="mail") == []


async def test_many_queues_are_one_operation(connection: asyncpg.Connection) -> None:
    for queue in ("a", "b", "c"):
        await enqueue(connection, queue, queue_name=f"'{queue}'")
    await act(connection, VERBS["queue", "pause"], "b")
    found = await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["c", "b", "a"]))
    outcome = await apply(connection, found, OPS, None)
    assert [(row.target.id, row.applied) for row in outcome.rows] == [("c", True), ("a", True)]
    assert {row["operation_id"] for row in (await audit(connection))[1:]} == {outcome.operation_id}


async def test_a_pause_is_undone_once_and_its_undoing_names_it(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", queue_name="'mail'")
    paused = await act(connection, VERBS["queue", "pause"], "mail")
    first = await undo(connection, paused.operation_id, OPS, "back")
    second = await undo(connection, paused.operation_id, OPS, "again")
    assert ([row.applied for row in first.rows], [row.applied for row in second.rows]) == ([True], [False])
    assert second.rows[0].detail == "an operator has acted on it since: resume by ops@bastion"
    assert len(await claim_some(connection, queue="mail")) == 1
    pause, resume = await audit(connection)
    assert (resume["verb"], resume["undoes"], resume["operation_id"]) == ("resume", pause["id"], first.operation_id)


async def test_undoing_a_resume_pauses_again(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", queue_name="'mail'")
    await act(connection, VERBS["queue", "pause"], "mail")
    resumed = await act(connection, VERBS["queue", "resume"], "mail")
    assert [row.applied for row in (await undo(connection, resumed.operation_id, OPS, None)).rows] == [True]
    assert await claim_some(connection, queue="mail") == []
