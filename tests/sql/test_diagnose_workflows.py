"""Workflows in the recovery report: inconsistent ones, the evidence, what will happen and what an operator can do."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from control_steps import CHAIN, ends, planted, planted_below, runs, states, task_ends
from diagnose_steps import of_kind, swept, the_only, worker
from operation_steps import OPS
from workflow_plans import node, plan

from horsies.config.recovery import RecoveryConfig
from horsies.findings import Finding, Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.workflows import DAMAGED_WORKFLOW, KINDS, PAUSED_BY_ERROR
from horsies.lifecycle.controlling import pause, resume
from horsies.lifecycle.reconciling import reconcile_all
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

WITH_CHILD = plan(node(0, sub_definition_key="child.v1"), node(1, 0), name="parent")


async def told(conn: asyncpg.Connection) -> list[Finding]:
    return [finding for finding in (await diagnose(conn)).findings if finding.target_kind == "workflow"]


async def out_of_step(conn: asyncpg.Connection, workflow_id: str = "w1", *, seconds: float = 60) -> None:
    """A node whose task has ended, by a worker that was killed before its second transaction."""
    await planted(conn, CHAIN, workflow_id)
    await runs(conn, workflow_id, 0)
    await task_ends(conn, workflow_id, 0, seconds_ago=seconds)


async def test_workflows_in_step_are_not_in_the_report(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0)
    await planted(connection, WITH_CHILD, "w2")
    await planted_below(connection, CHAIN, "w2", 0)
    await planted(connection, CHAIN, "w3")
    await pause(connection, "w3")
    assert await told(connection) == []


async def test_a_node_out_of_step_is_told_with_its_evidence_its_fate_and_its_remedies(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection)
    await swept(connection, 10)
    await out_of_step(connection)
    finding = await the_only(connection, KINDS["inconsistent"])
    assert (finding.prediction.severity, finding.target_kind, finding.name) == (Severity.HANDLED, "workflow", "demo")
    assert (finding.ids, finding.count, finding.at_least) == (("w1",), 1, False)
    assert finding.evidence == "n0 is RUNNING: its task is COMPLETED"
    assert finding.prediction.action == "repair"
    assert finding.prediction.in_seconds == pytest.approx(20, abs=1)
    assert [(remedy.verb, remedy.target_kind, remedy.ids) for remedy in finding.remedies] == [
        ("reconcile", "workflow", ("w1",)),
        ("cancel", "workflow", ("w1",)),
    ]
    assert "killed between the two" in finding.why[0]


async def test_the_sweep_comes_after_the_grace(connection: asyncpg.Connection) -> None:
    await worker(connection)
    await swept(connection, 29)
    await out_of_step(connection, seconds=6)
    (finding,) = of_kind(await diagnose(connection), KINDS["inconsistent"])
    assert finding.prediction.in_seconds == pytest.approx(31, abs=1)


async def test_what_ended_a_moment_ago_is_not_reported(connection: asyncpg.Connection) -> None:
    await out_of_step(connection, seconds=1)
    assert await told(connection) == []


async def test_without_a_living_worker_the_repair_needs_an_operator(connection: asyncpg.Connection) -> None:
    await out_of_step(connection)
    finding = await the_only(connection, KINDS["inconsistent"])
    assert (finding.prediction.severity, finding.prediction.in_seconds) == (Severity.NEEDS_ACTION, None)
    assert finding.prediction.action.startswith("nothing")


async def test_workflows_of_one_name_share_a_line(connection: asyncpg.Connection) -> None:
    for number in range(3):
        await out_of_step(connection, f"w{number}", seconds=60 + number)
    finding = await the_only(connection, KINDS["inconsistent"])
    assert (finding.ids, finding.count) == (("w2", "w1", "w0"), 3)
    assert finding.evidence == "n0 is RUNNING: its task is COMPLETED (and 2 more)"


@pytest.mark.parametrize(
    ("made", "damage", "kind", "evidence"),
    [
        (
            plan(node(0)),
            "_tasks SET status = 'COMPLETED', result = '{}'",
            "stalled workflow",
            "all of its nodes have ended",
        ),
        (
            CHAIN,
            "_tasks SET status = 'COMPLETED' WHERE task_index = 0",
            "stalled workflow",
            "n1 is PENDING: its join (all) is met",
        ),
        (
            CHAIN,
            "_tasks SET status = 'READY', task_id = NULL WHERE task_index = 0",
            "node has no task",
            "n0 is READY: it has no task",
        ),
        (
            CHAIN,
            "_tasks SET task_id = 'gone' WHERE task_index = 0",
            "task row gone",
            "n0 is ENQUEUED: the row of its task gone was deleted",
        ),
        (
            WITH_CHILD,
            "s SET status = 'COMPLETED' WHERE id = 'child'",
            "child finished",
            "n0 is RUNNING: its child workflow is COMPLETED",
        ),
    ],
)
async def test_each_way_to_be_out_of_step_is_a_finding_of_its_own(
    connection: asyncpg.Connection, made: Any, damage: str, kind: str, evidence: str
) -> None:
    await worker(connection)
    await planted(connection, made)
    if made is WITH_CHILD:
        await planted_below(connection, CHAIN, "w1", 0)
    await connection.execute(f"UPDATE horsies_workflow{damage}")
    finding = await the_only(connection, KINDS[kind])
    assert (finding.name, finding.evidence) == (made.name, evidence)
    assert finding.prediction.action == ("fail the node" if kind == "task row gone" else "repair")


async def test_a_child_that_no_worker_has_built_for_long(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    assert await told(connection) == []
    await connection.execute("UPDATE horsies_workflows SET updated_at = now() - interval '1 min'")
    finding = await the_only(connection, KINDS["child not begun"])
    assert "no worker has started its child workflow" in finding.evidence


async def test_a_workflow_that_an_error_has_paused_waits_for_a_decision(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    finding = await the_only(connection, PAUSED_BY_ERROR)
    assert (finding.prediction.severity, finding.ids) == (Severity.NEEDS_ACTION, ("w1",))
    assert finding.evidence == "a node failed: BROKE: n0 broke"
    assert [remedy.verb for remedy in finding.remedies] == ["retry", "resume", "cancel"]


async def completed_by_hand(conn: asyncpg.Connection, workflow_id: str, index: int) -> None:
    selection = Selection.of_node(workflow_id, index)
    outcome = await apply(conn, await preview(conn, VERBS["node", "complete"], selection, value="7"), OPS, None)
    assert outcome.applied != ()


async def test_a_paused_workflow_whose_failed_node_was_completed_by_hand_waits_for_a_resume(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    await completed_by_hand(connection, "w1", 0)
    finding = await the_only(connection, PAUSED_BY_ERROR)
    assert (finding.prediction.severity, finding.ids, finding.count) == (Severity.NEEDS_ACTION, ("w1",), 1)
    assert finding.evidence == "n0 was completed by hand, and no node is failed any more"
    assert finding.prediction.action == "waits for you"
    assert [remedy.verb for remedy in finding.remedies] == ["resume", "cancel"]
    await resume(connection, "w1")
    assert await told(connection) == []
    await pause(connection, "w1")
    assert await told(connection) == []


async def test_a_failed_node_beside_the_one_that_was_completed_by_hand_can_be_retried(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1), on_error="pause"))
    await ends(connection, "w1", 0, 1, status="FAILED")
    await completed_by_hand(connection, "w1", 1)
    finding = await the_only(connection, PAUSED_BY_ERROR)
    assert finding.evidence == "n1 was completed by hand, and other nodes are still failed"
    assert [remedy.verb for remedy in finding.remedies] == ["retry", "resume", "cancel"]
    await completed_by_hand(connection, "w1", 0)
    finding = await the_only(connection, PAUSED_BY_ERROR)
    assert [remedy.verb for remedy in finding.remedies] == ["resume", "cancel"]


async def test_a_parents_node_whose_child_failed_and_that_was_completed_by_hand_waits_for_a_resume(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0, sub_definition_key="child.v1"), node(1, 0), name="parent", on_error="pause"))
    await planted_below(connection, plan(node(0)), "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    await completed_by_hand(connection, "w1", 0)
    finding = await the_only(connection, PAUSED_BY_ERROR)
    assert (finding.name, [remedy.verb for remedy in finding.remedies]) == ("parent", ["resume", "cancel"])


async def test_a_workflow_that_an_operator_has_paused_is_not_reported(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), on_error="pause"))
    await pause(connection, "w1")
    assert await told(connection) == []


@pytest.mark.parametrize(
    ("damage", "evidence"),
    [
        (
            "UPDATE horsies_workflows SET success_policy = '{\"cases\":7}'",
            "its success_policy names no case that could be met",
        ),
        (
            "UPDATE horsies_workflow_tasks SET dependencies = '{9}' WHERE task_index = 1",
            "its node n1 depends on a node that does not exist",
        ),
        ("UPDATE horsies_workflow_tasks SET join_type = 'most' WHERE task_index = 1", "its node n1 has the join most"),
        ("UPDATE horsies_workflow_tasks SET status = 'LOST' WHERE task_index = 1", "its node n1 has the status LOST"),
        (
            "UPDATE horsies_workflow_tasks SET args_from = '[1]' WHERE task_index = 2",
            "its node n2 has args_from that is not an object",
        ),
        (
            "UPDATE horsies_workflow_tasks SET join_type = 'quorum' WHERE task_index = 2",
            "its node n2 has a quorum without min_success",
        ),
        (
            "UPDATE horsies_workflow_tasks SET dependencies = '{2}', status = 'PENDING', task_id = NULL"
            " WHERE task_index = 0",
            "its nodes wait for each other",
        ),
    ],
)
async def test_a_damaged_workflow_is_a_line_that_needs_you(
    connection: asyncpg.Connection, damage: str, evidence: str
) -> None:
    await worker(connection)
    await planted(connection, CHAIN)
    await connection.execute(damage)
    finding = await the_only(connection, DAMAGED_WORKFLOW)
    assert (finding.prediction.severity, finding.evidence) == (Severity.NEEDS_ACTION, evidence)
    assert [remedy.verb for remedy in finding.remedies] == ["cancel"]


async def test_a_child_that_names_another_node_is_a_line_that_needs_you_and_the_repairs_go_on(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, WITH_CHILD, "p")
    await planted_below(connection, plan(node(0)), "p", 0)
    await out_of_step(connection)
    await connection.execute("UPDATE horsies_workflows SET parent_task_index = 9 WHERE id = 'child'")
    await ends(connection, "child", 0)
    (finding,) = of_kind(await diagnose(connection), DAMAGED_WORKFLOW)
    assert (finding.ids, finding.evidence) == (("p",), "its node n0 waits for child, which names another parent")
    done = await reconcile_all(connection, 0)
    assert [(one.item, "which names another parent" in one.error) for one in done.refused] == [("p", True)]
    assert await states(connection, "w1") == "RUNNING: COMPLETED ENQUEUED PENDING"


async def test_every_verb_that_is_offered_would_be_accepted_and_the_sweep_does_what_is_told(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection)
    await out_of_step(connection, "a")
    await planted(connection, plan(node(0)), "b")
    await planted(connection, CHAIN, "c")
    await planted(connection, WITH_CHILD, "d")
    await planted_below(connection, CHAIN, "d", 0, "d-child")
    await planted(connection, CHAIN, "e")
    await planted(connection, WITH_CHILD, "f")
    await planted(connection, CHAIN, "g")
    await planted(connection, plan(node(0), on_error="pause"), "h")
    await ends(connection, "h", 0, status="FAILED")
    await connection.execute(
        "UPDATE horsies_workflow_tasks SET status = 'COMPLETED', result = '{}' WHERE workflow_id = 'b';"
        "UPDATE horsies_workflow_tasks SET status = 'READY', task_id = NULL WHERE workflow_id = 'c' AND task_index = 0;"
        "UPDATE horsies_workflows SET status = 'COMPLETED' WHERE id = 'd-child';"
        "DELETE FROM horsies_tasks WHERE id = (SELECT task_id FROM horsies_workflow_tasks"
        " WHERE workflow_id = 'e' AND task_index = 0);"
        "UPDATE horsies_workflows SET updated_at = now() - interval '1 min' WHERE id = 'f';"
        "UPDATE horsies_workflow_tasks SET join_type = 'most' WHERE workflow_id = 'g'"
    )
    findings = await told(connection)
    assert {finding.kind.name for finding in findings} == {
        *("damaged workflow", "paused by error", "task row gone", "inconsistent", "node has no task", "child finished"),
        *("child not begun", "stalled workflow"),
    }
    for finding in findings:
        for remedy in finding.remedies:
            selection = Selection.of_ids(remedy.ids)
            assert (await preview(connection, VERBS["workflow", remedy.verb], selection)).refused == ()
    done = await reconcile_all(connection, RecoveryConfig().crashed_worker_recovery_grace_ms)
    assert done.refused == ()
    left = await told(connection)
    assert {finding.kind for finding in left} == {
        KINDS["child not begun"],
        DAMAGED_WORKFLOW,
        PAUSED_BY_ERROR,
    }
    assert await states(connection, "a") == "RUNNING: COMPLETED ENQUEUED PENDING"
