"""Operator verbs on workflows and nodes: previews, changes, refusals, and audit rows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from control_steps import (
    CHAIN,
    DIAMOND,
    ends,
    node_row,
    planted,
    planted_below,
    rows_of_workflows,
    runs,
    states,
    task_ends,
    task_of,
    workflow_row,
)
from operation_steps import OPS, audit, look_back, named, undo
from sweep_steps import poison
from workflow_plans import node, plan

from horsies.lifecycle.controlling import cancel, pause
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.operations.verb import OperationOutcome, Preview, WorkflowVerb
from horsies.operations.verbs import verbs_for

V = named("workflow", "node")


class Types:
    """An application whose task returns lists."""

    def __init__(self, task_name: str = "demo.add") -> None:
        self._task_name = task_name

    def result(self, task_name: str, definition_key: str | None, text: str) -> str | None:
        if text == "0":
            raise OperationError("0 is no result")
        return f"[{text}]" if (task_name, definition_key) == (self._task_name, None) else None


async def look(conn: asyncpg.Connection, verb: WorkflowVerb, *ids: str) -> Preview:
    return await preview(conn, verb, Selection.of_ids(ids))


async def act(conn: asyncpg.Connection, verb: WorkflowVerb, *ids: str) -> OperationOutcome:
    return await apply(conn, await look(conn, verb, *ids), OPS, "why")


async def look_at_node(conn: asyncpg.Connection, verb: WorkflowVerb, index: int, **options: Any) -> Preview:
    return await preview(conn, verb, Selection.of_node("w1", index), **options)


async def act_on_node(conn: asyncpg.Connection, verb: WorkflowVerb, index: int, **options: Any) -> OperationOutcome:
    return await apply(conn, await look_at_node(conn, verb, index, **options), OPS, "why")


async def refusals(conn: asyncpg.Connection, *ids: str) -> dict[str, str]:
    """By verb, why it is refused."""
    told = {}
    for verb in verbs_for("workflow"):
        looked = await look(conn, verb, *ids)
        told.update((verb.name, refusal.reason) for refusal in looked.refused)
    return told


async def test_each_verb_says_why_a_running_workflow_is_not_for_it(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    assert await refusals(connection, "w1") == {
        "reconcile": "it is consistent",
        "resume": "it is RUNNING, not PAUSED",
        "retry": "none of its nodes has failed",
        "rerun": "it is RUNNING: only an ended workflow can be started again",
    }


async def test_each_verb_says_why_a_cancelled_workflow_is_not_for_it(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    await cancel(connection, "w1")
    assert await refusals(connection, "w1") == {
        "reconcile": "it is CANCELLED: only a RUNNING workflow can be repaired",
        "pause": "it is CANCELLED, not RUNNING",
        "resume": "it is CANCELLED, not PAUSED",
        "cancel": "it is already CANCELLED",
        "retry": "its workflow demo is CANCELLED",
    }


async def test_an_id_that_no_workflow_has_is_refused_by_every_verb(connection: asyncpg.Connection) -> None:
    told = await refusals(connection, "nobody")
    assert set(told) == {verb.name for verb in verbs_for("workflow")}
    assert set(told.values()) == {"no workflow has this id"}


async def test_a_preview_changes_nothing(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0)
    await task_ends(connection, "w1", 1)
    before = await rows_of_workflows(connection)
    async with connection.transaction(readonly=True):
        for verb in verbs_for("workflow"):
            await look(connection, verb, "w1")
        await look_at_node(connection, V.SKIP, 1)
        await look_at_node(connection, V.COMPLETE, 1, value="1")
    assert await rows_of_workflows(connection) == before
    assert await audit(connection) == []


async def test_reconciling_lists_each_repair_before_it_acts_and_then_does_just_that(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    await task_ends(connection, "w1", 0)
    looked = await look(connection, V.RECONCILE, "w1")
    assert looked.consequences == (
        "demo: n0 RUNNING → COMPLETED: its task is COMPLETED",
        "demo: then n1 PENDING → ENQUEUED: its join (all) is met",
    )
    outcome = await apply(connection, looked, OPS, None)
    assert outcome.applied[0].detail == "2 repairs"
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED PENDING"
    (row,) = await audit(connection)
    assert row["after_state"]["repairs"] == [
        {"node": "n0", "from": "RUNNING", "to": "COMPLETED", "why": "its task is COMPLETED"},
        {"node": "n1", "from": "PENDING", "to": "ENQUEUED", "why": "its join (all) is met"},
    ]
    assert not outcome.can_be_undone


async def test_a_repair_that_another_operator_has_made_meanwhile_is_refused(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await task_ends(connection, "w1", 0)
    looked = await look(connection, V.RECONCILE, "w1")
    await ends(connection, "w1", 0)
    outcome = await apply(connection, looked, OPS, None)
    assert [row.detail for row in outcome.refused] == ["it is consistent now"]


async def test_pause_and_resume_leave_their_trace_and_can_be_undone(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    paused = await act(connection, V.PAUSE, "w1")
    assert paused.can_be_undone
    assert await states(connection) == "PAUSED: ENQUEUED PENDING PENDING"
    (row,) = await audit(connection)
    assert (row["verb"], row["target_kind"], row["target_id"], row["outcome"]) == ("pause", "workflow", "w1", "applied")
    assert (row["os_user"], row["os_host"], row["reason"]) == ("ops", "bastion", "why")
    assert row["before_state"] == {"status": "RUNNING", "nodes": {"ENQUEUED": 1, "PENDING": 2}}
    assert row["after_state"]["status"] == "PAUSED"

    undone = await undo(connection, paused.operation_id, OPS, None)
    assert [row.applied for row in undone.rows] == [True]
    assert (await workflow_row(connection))["status"] == "RUNNING"
    assert (await audit(connection))[-1]["undoes"] == row["id"]

    await act(connection, V.PAUSE, "w1")
    resumed = await act(connection, V.RESUME, "w1")
    assert (await undo(connection, resumed.operation_id, OPS, None)).rows[0].applied
    assert (await workflow_row(connection))["status"] == "PAUSED"


async def test_a_pause_is_not_undone_after_a_later_operation(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    paused = await act(connection, V.PAUSE, "w1")
    await act(connection, V.RESUME, "w1")
    await act(connection, V.PAUSE, "w1")
    undone = await undo(connection, paused.operation_id, OPS, None)
    assert undone.rows[0].detail == "an operator has acted on it since: pause by ops@bastion"
    assert (await workflow_row(connection))["status"] == "PAUSED"


async def test_there_is_a_plain_no_for_what_has_no_way_back(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    cancelled = await act(connection, V.CANCEL, "w1")
    assert not cancelled.can_be_undone
    no = "its nodes have ended: rerun starts it again"
    looked = await look_back(connection, cancelled.operation_id)
    assert [refusal.reason for refusal in looked.refused] == [no]
    undone = await undo(connection, cancelled.operation_id, OPS, None)
    assert [(row.applied, row.detail) for row in undone.rows] == [(False, no)]
    assert await states(connection) == "CANCELLED: FAILED SKIPPED SKIPPED"


async def test_cancel_says_what_becomes_of_nodes_children_and_the_parent(connection: asyncpg.Connection) -> None:
    child = plan(node(0), node(1, sub_definition_key="x"), name="middle")
    await planted(connection, plan(node(0, sub_definition_key="c")))
    await planted_below(connection, child, "w1", 0)
    await planted_below(connection, CHAIN, "child", 1, "low")
    await runs(connection, "low", 0)
    looked = await look(connection, V.CANCEL, "child")
    assert looked.consequences == (
        "middle: 2 running nodes fail with TASK_CANCELLED, their workers are notified to stop them, and side"
        " effects of user code remain; 3 waiting nodes are skipped",
        "middle: 1 child workflow below is cancelled as well",
        "middle: its parent demo continues with this node as failed",
    )
    assert looked.command == "horsies workflows cancel child"


async def test_a_retry_names_what_runs_again_and_what_waits_for_it(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0, 1)
    failed = await task_of(connection, "w1", 2)
    await ends(connection, "w1", 2, status="FAILED")
    looked = await look(connection, V.RETRY, "w1")
    assert looked.consequences == (
        "demo: run again, with a new task, all retries and without a past deadline: n2",
        "demo: skipped before, now wait for them: n3",
    )
    outcome = await apply(connection, looked, OPS, None)
    assert outcome.applied[0].detail == "RUNNING, 1 node again"
    assert await states(connection) == "RUNNING: COMPLETED COMPLETED ENQUEUED PENDING"
    (row,) = await audit(connection)
    assert row["after_state"]["former_tasks"] == {"n2": failed}


KEPT = (
    "demo: these ran with the failure as their input, or without it, and do not run again: n1; only a rerun of the"
    " whole workflow computes them again"
)


async def test_what_completed_with_a_failed_input_keeps_its_result_and_a_retry_says_so(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0, allow_failed_deps=True, args_from={"a": 0}), node(2, 0)))
    await ends(connection, "w1", 0, status="FAILED")
    await ends(connection, "w1", 1)
    kept = (await node_row(connection, "w1", 1))["result"]
    looked = await look(connection, V.RETRY, "w1")
    assert looked.consequences[1:] == ("demo: skipped before, now wait for them: n2", KEPT)
    await apply(connection, looked, OPS, None)
    await ends(connection, "w1", 0, 2)
    assert await states(connection) == "COMPLETED: COMPLETED COMPLETED COMPLETED"
    assert (await node_row(connection, "w1", 1))["result"] == kept


async def test_what_completed_with_a_failed_input_is_not_told_to_go_on_with_a_value_by_hand(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0, allow_failed_deps=True), node(2, 0)))
    await ends(connection, "w1", 0, status="FAILED")
    await ends(connection, "w1", 1)
    looked = await look_at_node(connection, V.COMPLETE, 0, value="1", types=Types())
    assert looked.consequences == (
        "n2: may continue with this value",
        KEPT,
        "demo is FAILED and will be RUNNING again, with the nodes skipped after this one",
    )


async def test_a_retry_in_a_child_names_what_its_parent_computed_from_its_failure(
    connection: asyncpg.Connection,
) -> None:
    parent = plan(node(0, sub_definition_key="child.v1"), node(1, 0, allow_failed_deps=True), name="demo")
    await planted(connection, parent)
    await planted_below(connection, plan(node(0), name="inner"), "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    await ends(connection, "w1", 1)
    looked = await look(connection, V.RETRY, "child")
    assert KEPT.replace("demo: ", "inner: ") in looked.consequences


async def test_a_retry_below_a_parent_that_does_not_have_its_node_says_which_row_is_damaged(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0, sub_definition_key="child.v1"), name="parent"))
    await planted_below(connection, plan(node(0)), "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    looked = await look(connection, V.RETRY, "child")
    await connection.execute("UPDATE horsies_workflows SET parent_task_index = 9 WHERE id = 'child'")
    (refused,) = (await apply(connection, looked, OPS, None)).refused
    reason = (
        "its workflow demo (child) is damaged: its parent_task_index is 9, and its parent parent (w1) has no such node;"
        " correct the row in SQL"
    )
    assert refused.detail == reason
    looked = await look(connection, V.RETRY, "child")
    assert [one.reason for one in looked.refused] == [reason]
    assert await states(connection, "child") == "FAILED: FAILED"


async def test_a_retry_in_a_child_does_not_take_back_what_its_parents_node_was_given_by_hand(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0, sub_definition_key="child.v1"), node(1, 0), name="parent"))
    await planted_below(connection, plan(node(0)), "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    await act_on_node(connection, V.COMPLETE, 0, value="7")
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED"
    looked = await look(connection, V.RETRY, "child")
    assert [one.reason for one in looked.refused] == ["an operator has set n0 of its parent to COMPLETED"]
    assert await states(connection, "child") == "FAILED: FAILED"


async def test_two_operators_who_retry_at_once_make_one_retry(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0, status="FAILED")
    looks = [await look(connection, V.RETRY, "w1"), await look(other, V.RETRY, "w1")]
    outcomes = await asyncio.gather(
        apply(connection, looks[0], OPS, "one"),
        apply(other, looks[1], OPS, "other"),
    )
    assert sorted(len(outcome.applied) for outcome in outcomes) == [0, 1]
    (refused,) = [row.detail for outcome in outcomes for row in outcome.refused]
    assert refused == "it is RUNNING now"
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'PENDING'") == 1
    assert sorted(row["outcome"] for row in await audit(connection)) == ["applied", "refused"]


async def test_a_rerun_is_a_workflow_of_its_own_from_the_beginning(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0, 1, 2, 3)
    before = await workflow_row(connection)
    outcome = await act(connection, V.RERUN, "w1")
    (row,) = outcome.applied
    assert row.new_id is not None
    assert await states(connection, row.new_id) == "RUNNING: ENQUEUED PENDING PENDING PENDING"
    copy = await workflow_row(connection, row.new_id)
    assert (copy["name"], copy["root_workflow_id"], copy["parent_workflow_id"]) == ("demo", row.new_id, None)
    assert await workflow_row(connection) == before
    await ends(connection, row.new_id, 0, 1, 2, 3)
    assert (await workflow_row(connection, row.new_id))["result"] == before["result"]
    assert (await audit(connection))[0]["after_state"]["new_workflow_id"] == row.new_id


async def test_a_rerun_of_a_child_stands_alone_and_drops_deadlines_that_have_passed(
    connection: asyncpg.Connection,
) -> None:
    past = '{"retry_policy":null,"good_until":"2020-01-01T00:00:00+00:00"}'
    ahead = '{"retry_policy":null,"good_until":"2090-01-01T00:00:00+00:00"}'
    await planted(connection, plan(node(0, sub_definition_key="c")))
    await planted_below(connection, plan(node(0, task_options=past), node(1, task_options=ahead)), "w1", 0)
    await cancel(connection, "child")
    (row,) = (await act(connection, V.RERUN, "child")).applied
    copy = await workflow_row(connection, row.new_id or "")
    assert (copy["parent_workflow_id"], copy["parent_task_index"], copy["depth"]) == (None, None, 0)
    options = [(await node_row(connection, row.new_id or "", index))["task_options"] for index in (0, 1)]
    assert options == ['{"retry_policy":null,"good_until":null}', ahead]


async def test_two_operators_who_rerun_at_once_make_one_copy(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0)))
    await ends(connection, "w1", 0)
    looks = [await look(connection, V.RERUN, "w1") for _ in range(2)]
    outcomes = [await apply(connection, looked, OPS, None) for looked in looks]
    assert [row.detail for row in outcomes[1].refused] == ["an operator has acted on it since the preview"]
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflows") == 2


async def test_a_skipped_node_is_audited_as_a_node(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    looked = await look_at_node(connection, V.SKIP, 0)
    assert looked.consequences == (
        "n0: its task is cancelled before it starts",
        "n1: follow their joins, as after a skipped dependency",
    )
    assert looked.command == "horsies workflows skip w1 n0"
    outcome = await apply(connection, looked, OPS, None)
    assert [row.detail for row in outcome.applied] == ["SKIPPED"]
    assert await states(connection) == "COMPLETED: SKIPPED SKIPPED SKIPPED"
    (row,) = await audit(connection)
    assert (row["target_kind"], row["target_id"]) == ("node", "w1:0")
    assert (row["after_state"]["node"], row["after_state"]["node_before"]) == ("n0", "ENQUEUED")


async def test_a_node_that_moved_since_it_was_seen_is_refused(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    looked = await look_at_node(connection, V.SKIP, 0)
    await runs(connection, "w1", 0)
    outcome = await apply(connection, looked, OPS, None)
    assert [row.detail for row in outcome.refused] == ["it is RUNNING now"]
    assert await states(connection) == "RUNNING: RUNNING PENDING PENDING"


async def test_an_outcome_that_arrives_before_the_skip_stays(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    looked = await look_at_node(connection, V.SKIP, 0)
    await task_ends(connection, "w1", 0)
    outcome = await apply(connection, looked, OPS, None)
    assert [row.detail for row in outcome.refused] == ["its task has just ended"]
    assert await states(connection) == "RUNNING: ENQUEUED PENDING PENDING"


async def test_what_may_be_decided_of_a_node_depends_on_its_state(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1), node(2, 1)))
    await ends(connection, "w1", 0)
    await ends(connection, "w1", 1, status="FAILED")
    skip = [(await look_at_node(connection, V.SKIP, index)).refused[0].reason for index in range(4)]
    assert skip == [
        "it is already COMPLETED",
        "it is already FAILED; retry runs it again, complete gives it a value",
        "it is already SKIPPED",
        "it has no node with this index",
    ]
    complete = [await look_at_node(connection, V.COMPLETE, index, value="1") for index in range(3)]
    assert [bool(looked.eligible) for looked in complete] == [False, True, True]


async def test_a_node_completed_by_hand_hands_its_value_to_what_follows(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0)))
    await ends(connection, "w1", 0, status="FAILED")
    looked = await look_at_node(connection, V.COMPLETE, 0, value='{ "n": 1 }')
    assert looked.consequences == (
        "n1: may continue with this value",
        "demo is FAILED and will be RUNNING again, with the nodes skipped after this one",
        "the return type of its task is not known here, so the value is stored as written; "
        "`horsies workflows complete --module APP` checks and converts it",
    )
    assert looked.command == "horsies workflows complete w1 n0 --value '{\"n\":1}'"
    await apply(connection, looked, OPS, None)
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED"
    assert json.loads((await node_row(connection, "w1", 0))["result"]) == {
        "__task_result__": True,
        "ok": {"n": 1},
        "err": None,
    }
    assert (await audit(connection))[0]["after_state"]["value"] == '{"n":1}'


async def test_a_node_decided_in_a_paused_workflow_says_that_it_stays_paused(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0), node(2, 1), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    fitting = {"value": "1", "types": Types()}
    for verb, index, options, detail in ((V.COMPLETE, 0, fitting, "COMPLETED"), (V.SKIP, 1, {}, "SKIPPED")):
        looked = await look_at_node(connection, verb, index, **options)
        assert looked.consequences[-1] == "demo stays PAUSED: its nodes continue after a resume"
        outcome = await apply(connection, looked, OPS, None)
        assert outcome.rows[0].detail == f"{detail}; its workflow stays PAUSED until it is resumed"
    assert await states(connection) == "PAUSED: COMPLETED SKIPPED PENDING"


@pytest.mark.parametrize("value", ["", "{", "NaN", '"\\ud800"', '{"__datetime__":true,"value":"today"}'])
async def test_a_value_that_cannot_be_stored_is_refused_before_the_node_is_read(
    connection: asyncpg.Connection, value: str
) -> None:
    await planted(connection, CHAIN)
    with pytest.raises(OperationError, match="the value cannot be stored"):
        await look_at_node(connection, V.COMPLETE, 0, value=value)


async def test_a_value_of_the_wrong_type_is_refused_where_the_task_is_known(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    with pytest.raises(OperationError, match="0 is no result"):
        await look_at_node(connection, V.COMPLETE, 0, value="0", types=Types())
    judged = await look_at_node(connection, V.COMPLETE, 0, value="1", types=Types())
    assert judged.command == "horsies workflows complete w1 n0 --value '[1]'"
    for unknown in ({}, {"types": Types("another")}):
        unjudged = await look_at_node(connection, V.COMPLETE, 0, value="1", **unknown)
        assert unjudged.command == "horsies workflows complete w1 n0 --value 1"
        (said,) = set(unjudged.consequences) - set(judged.consequences)
        assert "--module APP` checks and converts it" in said


@pytest.mark.parametrize(
    ("verb", "selection", "value", "words"),
    [
        (V.SKIP, Selection.of_ids(["w1"]), None, "skip takes a node"),
        (V.COMPLETE, Selection.of_node("w1", 0), None, "complete needs a value"),
        (V.SKIP, Selection.of_node("w1", 0), "1", "skip has no option 'value'"),
    ],
)
async def test_a_verb_with_the_wrong_selection_is_refused_whole(
    connection: asyncpg.Connection, verb: WorkflowVerb, selection: Selection, value: str | None, words: str
) -> None:
    with pytest.raises(OperationError, match=words):
        await preview(connection, verb, selection, value=value)


async def test_one_workflow_that_cannot_be_changed_leaves_the_others_done(connection: asyncpg.Connection) -> None:
    for workflow_id in ("w1", "w2", "w3"):
        await planted(connection, CHAIN, workflow_id)
    looked = await look(connection, V.PAUSE, "w1", "w2", "w3")
    await pause(connection, "w2")
    await poison(connection, "horsies_workflows", "UPDATE", "w1")
    outcome = await apply(connection, looked, OPS, None)
    assert [row.target.id for row in outcome.applied] == ["w3"]
    assert {row.target.id: row.detail for row in outcome.refused} == {
        "w1": "the database rejects it: RaiseError: row w1 is poison",
        "w2": "it is PAUSED now",
    }


async def test_a_role_that_may_not_write_workflows_is_told_what_it_lacks(
    connection: asyncpg.Connection, role: str
) -> None:
    await planted(connection, CHAIN)
    looked = await look(connection, V.PAUSE, "w1")
    await connection.execute(
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT ALL ON horsies_tasks, horsies_task_attempts, horsies_operator_actions TO {role};"
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}; SET ROLE {role}"
    )
    with pytest.raises(OperationError, match="lacks") as caught:
        await apply(connection, looked, OPS, None)
    assert "GRANT UPDATE ON horsies_workflows" in (caught.value.help_text or "")
