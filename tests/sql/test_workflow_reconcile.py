"""Inconsistent workflows, case by case, and their repairs; with hypothesis, previews are compared with repairs."""

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
    settled,
    states,
    task_ends,
    task_of,
    task_row,
    workflow_row,
)
from hypothesis import HealthCheck, given, settings, strategies as st
from workflow_plans import node, plan

from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.core.workflows.recovery import recover_stuck_workflows
from horsies.domain.errors import HorsiesError
from horsies.lifecycle.controlling import cancel, pause
from horsies.lifecycle.reconciling import plan_repairs, reconcile, reconcile_all, stuck_workflows
from horsies.lifecycle.repairs import DamagedWorkflowError

GRACE_MS = 10_000
WITH_CHILD = plan(node(0, sub_definition_key="child.v1"), node(1, 0))


async def repaired(conn: asyncpg.Connection, workflow_id: str = "w1", grace_ms: int = 0) -> list[str]:
    """Reconciles; the repairs as in `n0 RUNNING → COMPLETED`. A second run has nothing to repair."""
    assert workflow_id in await stuck_workflows(conn, grace_ms), "the scan does not find it"
    foreseen = await plan_repairs(conn, workflow_id, grace_ms)
    repairs = await reconcile(conn, workflow_id, grace_ms)
    assert repairs is not None
    assert repairs == foreseen
    before = await rows_of_workflows(conn)
    assert [repair for repair in await reconcile(conn, workflow_id, grace_ms) or () if repair.changes] == []
    assert await rows_of_workflows(conn) == before
    return [f"{repair.node_id or 'workflow'} {repair.before} → {repair.after}" for repair in repairs]


async def put(conn: asyncpg.Connection, index: int, workflow_id: str = "w1", **columns: str) -> None:
    """Set a node's row; a column is given as an SQL expression."""
    changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
    await conn.execute(
        f"UPDATE horsies_workflow_tasks SET {changes} WHERE workflow_id = $1 AND task_index = $2", workflow_id, index
    )


def error_code(row: dict[str, Any]) -> str:
    return str(json.loads(row["result"])["err"]["error_code"]["__builtin_task_code__"])


async def test_a_workflow_in_step_is_left_as_it_is(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0)
    await runs(connection, "w1", 1)
    before = await rows_of_workflows(connection)
    assert await stuck_workflows(connection, 0) == ()
    assert await reconcile(connection, "w1", 0) == ()
    assert await reconcile(connection, "nobody", 0) == ()
    assert await rows_of_workflows(connection) == before


async def test_a_pending_node_whose_dependencies_have_all_ended_is_evaluated(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0)
    await put(connection, 1, status="'PENDING'", task_id="NULL")
    assert await repaired(connection) == ["n1 PENDING → ENQUEUED"]
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED PENDING"


@pytest.mark.parametrize("status", ["READY", "ENQUEUED"])
async def test_a_node_whose_task_was_never_made_gets_one(connection: asyncpg.Connection, status: str) -> None:
    await planted(connection, CHAIN)
    await put(connection, 0, status=f"'{status}'", task_id="NULL")
    assert await repaired(connection) == [f"n0 {status} → ENQUEUED"]
    assert (await task_row(connection, "w1", 0))["status"] == "PENDING"


async def test_workers_are_told_again_of_a_ready_node_that_is_a_workflow(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    heard: list[str] = []
    await planted(connection, WITH_CHILD)
    await other.add_listener("horsies_workflow_ready", lambda *told: heard.append(told[3]))
    assert await repaired(connection) == ["n0 READY → READY"]
    await put(connection, 0, status="'ENQUEUED'")
    assert await repaired(connection) == ["n0 ENQUEUED → READY"]
    await other.fetchval("SELECT 1")
    assert set(heard) == {"w1"}


async def test_telling_workers_again_counts_as_no_repair(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    assert (await reconcile_all(connection, 0)).repairs == 0


@pytest.mark.parametrize(
    ("child_status", "after"), [("COMPLETED", "COMPLETED"), ("FAILED", "FAILED"), ("CANCELLED", "FAILED")]
)
async def test_a_parent_that_waits_for_a_child_that_has_ended_goes_on(
    connection: asyncpg.Connection, child_status: str, after: str
) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, plan(node(0)), "w1", 0)
    await put(connection, 0, "child", status="'COMPLETED'", result="'{}'")
    await connection.execute("UPDATE horsies_workflows SET status = $1 WHERE id = 'child'", child_status)
    follows = "n1 PENDING → ENQUEUED" if after == "COMPLETED" else "n1 PENDING → SKIPPED"
    ends_so = [] if after == "COMPLETED" else ["workflow RUNNING → FAILED"]
    assert await repaired(connection) == [f"n0 RUNNING → {after}", follows, *ends_so]


async def test_a_child_whose_row_is_gone_fails_the_node_and_the_text_says_so(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, plan(node(0)), "w1", 0)
    await connection.execute("DELETE FROM horsies_workflows WHERE id = 'child'")
    assert (await repaired(connection))[0] == "n0 RUNNING → FAILED"
    row = await node_row(connection, "w1", 0)
    assert error_code(row) == "SUBWORKFLOW_FAILED"
    assert "the row of its child workflow was deleted" in row["result"]


@pytest.mark.parametrize(
    ("status", "after"),
    [("COMPLETED", "COMPLETED"), ("FAILED", "FAILED"), ("CANCELLED", "FAILED"), ("EXPIRED", "FAILED")],
)
async def test_a_node_whose_task_has_ended_takes_its_stored_result(
    connection: asyncpg.Connection, status: str, after: str
) -> None:
    await planted(connection, plan(node(0)))
    await runs(connection, "w1", 0)
    await task_ends(connection, "w1", 0, status)
    assert await repaired(connection) == [f"n0 RUNNING → {after}", f"workflow RUNNING → {after}"]
    assert (await node_row(connection, "w1", 0))["result"] == (await task_row(connection, "w1", 0))["result"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("FAILED", "WORKER_CRASHED"),
        ("CANCELLED", "TASK_CANCELLED"),
        ("COMPLETED", "RESULT_NOT_AVAILABLE"),
        ("EXPIRED", "TASK_EXPIRED"),
    ],
)
async def test_if_no_result_is_stored_an_error_result_is_synthesized(
    connection: asyncpg.Connection, status: str, code: str
) -> None:
    await planted(connection, plan(node(0)))
    task_id = await task_ends(connection, "w1", 0, status)
    await connection.execute("UPDATE horsies_tasks SET result = NULL WHERE id = $1", task_id)
    assert await repaired(connection) == ["n0 ENQUEUED → FAILED", "workflow RUNNING → FAILED"]
    assert error_code(await node_row(connection, "w1", 0)) == code


async def test_what_ended_within_the_grace_is_left_to_the_worker_that_is_about_to_say_so(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, CHAIN)
    await task_ends(connection, "w1", 0, seconds_ago=5)
    assert await stuck_workflows(connection, GRACE_MS) == ()
    assert await reconcile(connection, "w1", GRACE_MS) == ()
    await connection.execute("UPDATE horsies_tasks SET completed_at = now() - interval '11 s'")
    assert await repaired(connection, grace_ms=GRACE_MS) == ["n0 ENQUEUED → COMPLETED", "n1 PENDING → ENQUEUED"]


async def test_dependents_are_resolved_in_the_same_pass_up_to_the_end_of_the_workflow(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0), node(2, 1)))
    await task_ends(connection, "w1", 0, "FAILED")
    expected = ["n0 ENQUEUED → FAILED", "n1 PENDING → SKIPPED", "n2 PENDING → SKIPPED", "workflow RUNNING → FAILED"]
    assert await repaired(connection) == expected
    assert await states(connection) == "FAILED: FAILED SKIPPED SKIPPED"


async def test_on_error_pause_stops_after_the_node_that_failed(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0), on_error="pause"))
    await task_ends(connection, "w1", 0, "FAILED")
    assert await repaired_and_paused(connection) == ["n0 ENQUEUED → FAILED", "workflow RUNNING → PAUSED"]
    assert await states(connection) == "PAUSED: FAILED PENDING"


async def repaired_and_paused(conn: asyncpg.Connection) -> list[str]:
    return [f"{one.node_id or 'workflow'} {one.before} → {one.after}" for one in await reconcile(conn, "w1", 0)]


async def test_all_nodes_terminal_and_the_workflow_running_is_ended(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0)))
    await put(connection, 0, status="'COMPLETED'", result="'{}'")
    assert await repaired(connection) == ["workflow RUNNING → COMPLETED"]


async def test_an_error_that_is_stored_already_is_kept(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0)))
    await put(connection, 0, status="'COMPLETED'", result="'{}'")
    error = '{"__task_error__":true,"error_code":"EARLIER","data":null,"message":"before"}'
    await connection.execute("UPDATE horsies_workflows SET error = $1", error)
    assert await repaired(connection) == ["workflow RUNNING → FAILED"]
    assert (await workflow_row(connection))["error"] == error


async def test_a_task_whose_row_is_gone_fails_its_node(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await connection.execute("DELETE FROM horsies_tasks")
    assert (await repaired(connection))[0] == "n0 ENQUEUED → FAILED"
    row = await node_row(connection, "w1", 0)
    assert error_code(row) == "RESULT_NOT_AVAILABLE"
    assert row["task_id"] in row["result"]


async def test_a_node_that_has_not_heard_that_its_task_runs_hears_it(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    await put(connection, 0, status="'ENQUEUED'")
    await connection.execute("UPDATE horsies_tasks SET started_at = now() - interval '5 s'")
    assert await stuck_workflows(connection, GRACE_MS) == ()
    assert await repaired(connection) == ["n0 ENQUEUED → RUNNING"]


@pytest.mark.parametrize("status", ["PENDING", "READY"])
async def test_a_node_with_a_task_in_the_queue_is_enqueued_and_gets_no_second_one(
    connection: asyncpg.Connection, status: str
) -> None:
    await planted(connection, CHAIN)
    task_id = await task_of(connection, "w1", 0)
    await put(connection, 0, status=f"'{status}'")
    assert await repaired(connection) == [f"n0 {status} → ENQUEUED"]
    assert await task_of(connection, "w1", 0) == task_id
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1


async def test_only_workflows_that_run_are_repaired(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await planted(connection, CHAIN, "w2")
    await pause(connection, "w1")
    await task_ends(connection, "w1", 0)
    await cancel(connection, "w2")
    await put(connection, 0, "w2", status="'RUNNING'")
    before = await rows_of_workflows(connection)
    assert await stuck_workflows(connection, 0) == ()
    assert (await reconcile(connection, "w1", 0), await reconcile(connection, "w2", 0)) == ((), ())
    assert await rows_of_workflows(connection) == before


async def test_repairs_of_a_child_reach_its_parent_in_the_same_transaction(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, plan(node(0)), "w1", 0)
    await task_ends(connection, "child", 0)
    await repaired(connection, "child")
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED"


async def test_one_broken_workflow_does_not_stop_the_rest(connection: asyncpg.Connection) -> None:
    for workflow_id in ("w1", "w2", "w3"):
        await planted(connection, plan(node(0)), workflow_id)
        await task_ends(connection, workflow_id, 0)
    await connection.execute(
        "CREATE FUNCTION poison() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$ LANGUAGE plpgsql;"
        "CREATE TRIGGER poison BEFORE UPDATE ON horsies_workflow_tasks FOR EACH ROW WHEN (OLD.workflow_id = 'w1')"
        " EXECUTE FUNCTION poison()"
    )
    done = await reconcile_all(connection, 0)
    assert (done.repairs, done.workflows) == (4, 2)
    assert [(one.item, one.error) for one in done.refused] == [("w1", "RaiseError: poison")]
    assert [await states(connection, one) for one in ("w2", "w3")] == ["COMPLETED: COMPLETED"] * 2
    assert done.report() == {
        "repairs": 4,
        "workflows": 2,
        "refused_workflows": [{"id": "w1", "error": "RaiseError: poison"}],
        "locked_workflows": [],
    }


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE horsies_workflow_tasks SET dependencies = '{7}' WHERE task_index = 1", "depends on"),
        ("UPDATE horsies_workflow_tasks SET join_type = 'most' WHERE task_index = 1", "has the unknown join 'most'"),
        ("UPDATE horsies_workflow_tasks SET status = 'LOST' WHERE task_index = 1", "has the unknown status 'LOST'"),
    ],
)
async def test_a_damaged_workflow_is_named_and_left_alone(
    connection: asyncpg.Connection, damage: str, words: str
) -> None:
    await planted(connection, CHAIN)
    await task_ends(connection, "w1", 0)
    await connection.execute(damage)
    before = await rows_of_workflows(connection)
    with pytest.raises(DamagedWorkflowError, match=words):
        await reconcile(connection, "w1", 0)
    done = await reconcile_all(connection, 0)
    assert [one.item for one in done.refused] == ["w1"]
    assert await rows_of_workflows(connection) == before


@pytest.mark.parametrize("policy", ["{}", '{"cases":7}', '[{"required_indices":[0]}]', '{"cases":[{"required":[0]}]}'])
async def test_a_success_policy_that_cannot_be_read_fails_the_workflow_and_says_why(
    connection: asyncpg.Connection, policy: str
) -> None:
    await planted(connection, plan(node(0), success_policy=policy))
    await task_ends(connection, "w1", 0)
    assert (await repaired(connection))[-1] == "workflow RUNNING → FAILED"
    assert "success_policy" in (await workflow_row(connection))["error"]


async def test_damaged_arguments_fail_the_node_and_not_the_pass(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0)))
    await put(connection, 1, task_kwargs="'{\"a\":'")
    await task_ends(connection, "w1", 0)
    done = await reconcile_all(connection, 0)
    assert done.refused == ()
    assert await states(connection) == "FAILED: COMPLETED FAILED"
    assert error_code(await node_row(connection, "w1", 1)) == "WORKER_SERIALIZATION_ERROR"


async def test_several_that_reconcile_at_once_do_it_once(connection: asyncpg.Connection, database: str) -> None:
    await planted(connection, DIAMOND)
    await task_ends(connection, "w1", 0)
    others = [await asyncpg.connect(database) for _ in range(3)]
    done = await asyncio.gather(*(reconcile(one, "w1", 0) for one in others))
    await asyncio.gather(*(one.close() for one in others))
    assert sorted(len(repairs or ()) for repairs in done) == [0, 0, 3]
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 3


async def test_more_workflows_than_are_read_at_once_are_all_repaired(connection: asyncpg.Connection) -> None:
    for number in range(5):
        await planted(connection, plan(node(0)), f"w{number}")
        await task_ends(connection, f"w{number}", 0)
    assert await stuck_workflows(connection, 0, 2) == ("w0", "w1")
    assert await stuck_workflows(connection, 0, 2, after="w1") == ("w2", "w3")
    assert (await reconcile_all(connection, 0)).workflows == 5


_STATES = ("PENDING", "READY", "ENQUEUED", "RUNNING", "COMPLETED", "FAILED", "SKIPPED")
_CHILDREN = (None, "RUNNING", "COMPLETED", "FAILED", "CANCELLED")
_TASKS = (None, "GONE", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED")


@st.composite
def wrecks(draw: st.DrawFn) -> tuple[Any, list[tuple[str, str | None]]]:
    """A small graph, with an arbitrary state of each node and its task."""
    nodes = []
    for index in range(draw(st.integers(1, 5))):
        dependencies = draw(st.sets(st.integers(0, index - 1))) if index else set()
        join = draw(st.sampled_from(("all", "any", "quorum") if dependencies else ("all", "any")))
        least = draw(st.integers(1, len(dependencies))) if join == "quorum" else None
        allowed = draw(st.booleans())
        key = draw(st.sampled_from((None, None, "child.v1")))
        columns = {"join": join, "min_success": least, "allow_failed_deps": allowed, "sub_definition_key": key}
        nodes.append(node(index, *sorted(dependencies), **columns))
    on_error = draw(st.sampled_from(("fail", "pause")))
    left = [
        (draw(st.sampled_from(_STATES)), draw(st.sampled_from(_CHILDREN if one.is_subworkflow else _TASKS)))
        for one in nodes
    ]
    return plan(*nodes, on_error=on_error), left


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wreck=wrecks())
async def test_every_wreck_becomes_what_was_foreseen_and_then_stays(
    connection: asyncpg.Connection, wreck: tuple[Any, list[tuple[str, str | None]]]
) -> None:
    made, left = wreck
    await connection.execute("DELETE FROM horsies_workflows; DELETE FROM horsies_tasks")
    await planted(connection, made)
    for one, (status, beneath) in zip(made.nodes, left, strict=True):
        await (_leave_child if one.is_subworkflow else _leave)(connection, one.index, status, beneath)
    foreseen = await plan_repairs(connection, "w1", 0)
    assert bool(foreseen) == ("w1" in await stuck_workflows(connection, 0))
    expected = {one.index: one.after for one in foreseen if one.index is not None}
    after = [expected.get(index, status) for index, (status, _) in enumerate(left)]
    of_workflow = next((one.after for one in foreseen if one.index is None), "RUNNING")
    assert await reconcile(connection, "w1", 0) == foreseen
    assert await states(connection) == f"{of_workflow}: {' '.join(after)}"
    await settled(connection, "w1")
    assert await states(connection) == f"{of_workflow}: {' '.join(after)}"
    assert [one for one in await plan_repairs(connection, "w1", 0) if one.changes] == []


async def _leave_child(conn: asyncpg.Connection, index: int, status: str, child_status: str | None) -> None:
    child = None if child_status is None else f"c{index}"
    if child is not None:
        await conn.execute(
            "INSERT INTO horsies_workflows (id, name, status, parent_workflow_id, parent_task_index, root_workflow_id)"
            " VALUES ($1, 'child', $2, 'w1', $3, 'w1')",
            child,
            child_status,
            index,
        )
    await conn.execute(
        "UPDATE horsies_workflow_tasks SET status = $2, sub_workflow_id = $3, result = '{}' WHERE task_index = $1",
        index,
        status,
        child,
    )


async def _leave(conn: asyncpg.Connection, index: int, status: str, task_status: str | None) -> None:
    task_id = None if task_status is None else f"t{index}"
    if task_status not in (None, "GONE"):
        await conn.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, result, started_at, is_workflow_task)"
            " VALUES ($1, 'demo.add', 'default', $2, '{}', now(), true)",
            task_id,
            task_status,
        )
    await conn.execute(
        "UPDATE horsies_workflow_tasks SET status = $2, task_id = $3, result = '{}' WHERE task_index = $1",
        index,
        status,
        task_id,
    )


async def test_the_public_helper_takes_a_broker_or_a_connection_and_counts_repairs(
    connection: asyncpg.Connection, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    await planted(connection, CHAIN)
    await planted(connection, CHAIN, "w2")
    await connection.execute("UPDATE horsies_workflow_tasks SET join_type = 'most' WHERE workflow_id = 'w2'")
    for workflow_id in ("w1", "w2"):
        await task_ends(connection, workflow_id, 0, seconds_ago=11)
    broker = PostgresBroker(PostgresConfig(database_url=database))
    assert await recover_stuck_workflows(broker) == 2
    assert "workflow w2 could not be repaired" in caplog.text
    assert await recover_stuck_workflows(broker) == 0
    await ends(connection, "w1", 1)
    await task_ends(connection, "w1", 2, seconds_ago=11)
    assert await recover_stuck_workflows(connection) == 2
    broker.close()


async def test_the_public_helper_says_when_it_cannot_ask() -> None:
    broker = PostgresBroker(PostgresConfig(database_url="postgresql://nobody@localhost:1/none"))
    with pytest.raises(HorsiesError):
        await recover_stuck_workflows(broker)
    broker.close()
