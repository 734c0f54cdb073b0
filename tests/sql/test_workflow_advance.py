"""When a task of a workflow has ended, all consequences are stored in one step, and only once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from advance_steps import (
    advancer_alone,
    complete,
    end_task,
    everything,
    fail,
    failure,
    grow,
    nodes_of,
    ok,
    states,
    task_of,
    workflow,
)
from lifecycle_steps import waits_for_a_lock
from workflow_plans import node

from horsies import PostgresConfig
from horsies.config.contexts import DatabaseChoice
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.lifecycle.advancing import advance, end_node, lock_families, nodes_started, update_workflows
from horsies.run.worker.advancer import Advancer
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection


async def test_a_chain_goes_from_node_to_node_and_ends_with_the_result_of_its_last(
    connection: asyncpg.Connection,
) -> None:
    flow = await grow(connection, node(0), node(1, 0), node(2, 1))
    assert await states(connection, flow) == "RUNNING: enqueued pending pending"
    done = await complete(connection, flow, 0, 7)
    assert done.ended == ((flow, 0),)
    assert done.enqueued == ((await task_of(connection, flow, 1))["id"],)
    assert await states(connection, flow) == "RUNNING: completed enqueued pending"
    await complete(connection, flow, 1)
    done = await complete(connection, flow, 2, "end")
    assert done.finished == ((flow, WorkflowStatus.COMPLETED),)
    row = await workflow(connection, flow)
    assert row["result"] == '{"__task_result__":true,"ok":{"n2":' + ok("end") + '},"err":null}'
    assert (row["error"], row["completed_at"] is not None) == (None, True)


async def test_a_node_takes_over_what_its_task_was(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0))
    await complete(connection, flow, 0, [1, 2])
    task, (taken,) = await task_of(connection, flow, 0), await nodes_of(connection, flow)
    assert (taken["result"], taken["started_at"], taken["completed_at"]) == (
        ok([1, 2]),
        task["started_at"],
        task["completed_at"],
    )


async def test_a_task_of_a_node_is_as_one_that_was_sent(connection: asyncpg.Connection) -> None:
    options = '{"retry_policy":{"max_retries":3,"intervals":[1],"backoff_strategy":"fixed","jitter":false,' + (
        '"auto_retry_for":["A"]},"good_until":"2099-01-01T00:00:00+00:00"}'
    )
    flow = await grow(connection, node(0, queue_name="fast", priority=7, task_options=options, kwargs_json='{"b":2}'))
    task = await task_of(connection, flow, 0)
    assert (task["queue_name"], task["priority"], task["max_retries"], task["good_until"].year) == ("fast", 7, 3, 2099)
    assert (task["task_options"], task["args"], task["is_workflow_task"]) == (options, None, True)
    meta = {"workflow_id": flow, "task_index": 0, "task_name": "demo.add", "node_id": "n0"}
    assert json.loads(task["kwargs"]) == {"b": 2, "__horsies_workflow_meta__": meta}
    assert len(task["enqueue_sha"]) == 64


async def test_results_travel_to_the_parameters_that_ask_for_them(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2, 0, 1, args_from={"left": 0, "right": 1}, ctx_from=("n1",)))
    await complete(connection, flow, 0, 3)
    await complete(connection, flow, 1, 4)
    kwargs = json.loads((await task_of(connection, flow, 2))["kwargs"])
    assert kwargs["left"] == {"__horsies_taskresult__": True, "data": ok(3)}
    assert kwargs["right"] == {"__horsies_taskresult__": True, "data": ok(4)}
    assert kwargs["__horsies_workflow_ctx__"]["results_by_id"] == {"n1": ok(4)}


async def test_a_large_result_is_referred_to_and_not_copied(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1, 0, args_from={"big": 0}))
    await complete(connection, flow, 0, "x" * 70_000)
    kwargs = (await task_of(connection, flow, 1))["kwargs"]
    assert json.loads(kwargs)["big"] == {
        "__horsies_taskresult__": True,
        "node": {"workflow_id": flow, "task_index": 0},
    }
    assert len(kwargs) < 1000


async def test_what_is_skipped_skips_what_needs_it_down_to_the_end(connection: asyncpg.Connection) -> None:
    flow = await grow(
        connection, node(0), node(1, 0), node(2, 1), node(3, 2, allow_failed_deps=True, args_from={"a": 2})
    )
    done = await fail(connection, flow, 0)
    assert await states(connection, flow) == "RUNNING: failed skipped skipped enqueued"
    assert set(done.ended) == {(flow, 0), (flow, 1), (flow, 2)}
    given = json.loads(json.loads((await task_of(connection, flow, 3))["kwargs"])["a"]["data"])
    assert given["err"]["error_code"] == {"__builtin_task_code__": "UPSTREAM_SKIPPED"}
    await complete(connection, flow, 3)
    assert (await workflow(connection, flow))["status"] == "FAILED"


async def test_a_failed_workflow_has_the_error_of_its_first_failed_node(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2))
    await fail(connection, flow, 2, "LATE")
    assert json.loads((await workflow(connection, flow))["error"])["error_code"] == "LATE"
    await fail(connection, flow, 1, "EARLY")
    await complete(connection, flow, 0, 5)
    row = await workflow(connection, flow)
    assert (row["status"], json.loads(row["error"])["error_code"]) == ("FAILED", "EARLY")
    assert json.loads(row["result"])["ok"]["n0"]["ok"] == 5


async def test_on_error_pause_stops_the_workflow_where_it_is(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2, 0, allow_failed_deps=True), on_error="pause")
    done = await fail(connection, flow, 0)
    assert done.finished == ((flow, WorkflowStatus.PAUSED),)
    assert await states(connection, flow) == "PAUSED: failed enqueued pending"
    await complete(connection, flow, 1)
    assert await states(connection, flow) == "PAUSED: failed completed pending"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("FAILED", "WORKER_CRASHED"),
        ("CANCELLED", "TASK_CANCELLED"),
        ("EXPIRED", "TASK_EXPIRED"),
        ("COMPLETED", "RESULT_NOT_AVAILABLE"),
    ],
)
async def test_a_task_without_a_result_fails_its_node_with_a_code(
    connection: asyncpg.Connection, status: str, code: str
) -> None:
    flow = await grow(connection, node(0))
    await advance(connection, [await end_task(connection, flow, 0, status, None)])
    (ended,) = await nodes_of(connection, flow)
    assert ended["status"] == "FAILED"
    assert json.loads(ended["result"])["err"]["error_code"] == {"__builtin_task_code__": code}
    assert (await workflow(connection, flow))["status"] == "FAILED"


async def test_once_more_changes_nothing(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1, 0), node(2))
    first = await end_task(connection, flow, 0)
    still_queued = (await task_of(connection, flow, 2))["id"]
    await advance(connection, [first])
    before = await everything(connection)
    done = await advance(connection, [first, still_queued, "no such task"])
    assert (done.ended, done.enqueued, done.finished) == ((), (), ())
    assert await everything(connection) == before


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
async def test_a_workflow_that_is_over_is_never_changed(connection: asyncpg.Connection, status: str) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    task_id = await end_task(connection, flow, 0)
    await connection.execute("UPDATE horsies_workflows SET status = $1", status)
    before = await everything(connection)
    await advance(connection, [task_id])
    async with connection.transaction():
        await lock_families(connection, [flow])
        await update_workflows(connection, [flow])
        assert not await end_node(connection, flow, 0, WorkflowTaskStatus.COMPLETED, ok(1))
    assert await everything(connection) == before


async def test_one_advance_serves_many_workflows(connection: asyncpg.Connection) -> None:
    flows = [await grow(connection, node(0), node(1, 0)) for _ in range(5)]
    done = await advance(connection, [await end_task(connection, flow, 0) for flow in flows])
    assert {flow for flow, _ in done.ended} == set(flows)
    assert len(done.enqueued) == 5


async def test_a_task_that_is_tried_again_makes_its_node_run_too(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0))
    await connection.execute("UPDATE horsies_tasks SET retry_count = 1")
    assert (await nodes_started(connection, [(await task_of(connection, flow, 0))["id"]])).nodes == 1
    assert await states(connection, flow) == "RUNNING: running"


async def test_a_started_task_makes_its_node_run(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1))
    task = await task_of(connection, flow, 0)
    await connection.execute(
        "UPDATE horsies_tasks SET status = 'RUNNING', started_at = now() WHERE id = $1", task["id"]
    )
    queued = (await task_of(connection, flow, 1))["id"]
    assert (await nodes_started(connection, [task["id"], queued, "no such task"])).nodes == 1
    assert await states(connection, flow) == "RUNNING: running enqueued"
    assert (await nodes_started(connection, [task["id"]])).nodes == 0
    await complete(connection, flow, 0)
    assert (await nodes_started(connection, [task["id"]])).nodes == 0
    assert await states(connection, flow) == "RUNNING: completed enqueued"


@pytest.mark.parametrize(
    "damage",
    [
        "task_kwargs = '[1]'",
        "task_kwargs = '{'",
        "args_from = '[3]'",
        'args_from = \'{"a": "b"}\'',
        "args_from = '{\"a\": 99999999999}'",
        "task_options = '{'",
        'task_options = \'{"good_until":"soon"}\'',
        'task_options = \'{"good_until":"0001-01-01T00:00:00+14:00"}\'',
    ],
)
async def test_a_node_whose_row_is_damaged_fails_and_the_others_go_on(
    connection: asyncpg.Connection, damage: str
) -> None:
    flow = await grow(connection, node(0), node(1, 0), node(2, 0), node(3, 1, allow_failed_deps=True))
    await connection.execute(f"UPDATE horsies_workflow_tasks SET {damage} WHERE task_index = 1")
    await complete(connection, flow, 0)
    assert await states(connection, flow) == "RUNNING: completed failed enqueued enqueued"
    broken = json.loads((await nodes_of(connection, flow))[1]["result"])["err"]
    assert broken["error_code"] == {"__builtin_task_code__": "WORKER_SERIALIZATION_ERROR"}


POLICY = '{"cases":[{"required_indices":[0]},{"required_indices":[1,2]}],"optional_indices":[]}'


async def test_a_success_case_makes_up_for_failures_elsewhere(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2), success_policy=POLICY, output_index=2)
    await fail(connection, flow, 0)
    await complete(connection, flow, 1)
    await complete(connection, flow, 2, "two")
    row = await workflow(connection, flow)
    assert (row["status"], row["result"]) == ("COMPLETED", ok("two"))
    assert json.loads(row["error"])["error_code"] == "BROKE"


async def test_where_no_case_is_met_the_first_required_failure_is_told(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2), node(3), success_policy=POLICY)
    for index in (3, 2, 0):
        await fail(connection, flow, index, f"E{index}")
    await complete(connection, flow, 1)
    assert json.loads((await workflow(connection, flow))["error"])["error_code"] == "E0"


async def test_a_damaged_result_spoils_neither_the_workflow_nor_its_others(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2))
    await advance(connection, [await end_task(connection, flow, 0, result="{no json")])
    await advance(connection, [await end_task(connection, flow, 1, "FAILED", "[]")])
    await complete(connection, flow, 2, 5)
    row = await workflow(connection, flow)
    assert json.loads(row["result"])["ok"] == {"n0": None, "n1": [], "n2": json.loads(ok(5))}
    assert json.loads(row["error"])["error_code"] == {"__builtin_task_code__": "WORKFLOW_FAILED"}
    assert failure() != row["error"]


@pytest.mark.parametrize("join", ["all", "any", "quorum"])
async def test_a_node_with_a_status_that_is_none_has_not_ended(connection: asyncpg.Connection, join: str) -> None:
    flow = await grow(
        connection,
        node(0),
        node(1),
        node(2, 0, 1, join=join, min_success=2 if join == "quorum" else None, allow_failed_deps=True),
    )
    await connection.execute("UPDATE horsies_workflow_tasks SET status = 'FOO' WHERE task_index = 1")
    await fail(connection, flow, 0) if join == "any" else await complete(connection, flow, 0)
    before = (await states(connection, flow)).split()
    assert before[2:] == ["foo", "pending"]
    async with connection.transaction():
        await lock_families(connection, [flow])
        assert (await update_workflows(connection, [flow])).finished == ()
    assert (await states(connection, flow)).split() == before


async def test_the_context_of_a_node_waits_for_one_with_a_status_that_is_none(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1), node(2, 0, 1, join="any", ctx_from=("n1",)))
    await connection.execute("UPDATE horsies_workflow_tasks SET status = 'FOO' WHERE task_index = 1")
    await complete(connection, flow, 0)
    assert await states(connection, flow) == "RUNNING: completed foo pending"


async def test_a_workflow_does_not_end_with_a_node_whose_status_is_none(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1))
    await connection.execute("UPDATE horsies_workflow_tasks SET status = 'FOO' WHERE task_index = 1")
    assert (await complete(connection, flow, 0)).finished == ()
    assert await states(connection, flow) == "RUNNING: completed foo"
    done = await complete(connection, flow, 1)
    assert done.finished == ((flow, WorkflowStatus.COMPLETED),)


@pytest.fixture
async def advancer(database: str) -> AsyncIterator[Advancer]:
    choice = DatabaseChoice(PostgresConfig(database_url=database).url, "given by the test")
    async with open_database(choice) as opened:
        dedicated = DedicatedConnection(opened, "worker advance", behind_pooler=False)
        yield advancer_alone(dedicated)
        await dedicated.close()


async def test_a_task_that_ends_again_while_its_end_is_under_way_is_advanced_again(
    advancer: Advancer, connection: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    task_id = await end_task(connection, flow, 0)
    advancer.ended(task_id)
    async with connection.transaction():
        await connection.execute("SELECT FROM horsies_tasks WHERE id = $1 FOR NO KEY UPDATE", task_id)
        await connection.execute("SELECT FROM horsies_workflow_tasks WHERE workflow_id = $1 FOR NO KEY UPDATE", flow)
        step = await waits_for_a_lock(connection, await advancer.dedicated.ready(), advancer.step())
        advancer.ended(task_id)
        assert not step.done()
    await asyncio.wait_for(step, 10)
    assert await states(connection, flow) == "RUNNING: completed enqueued"
    assert advancer.pending == 1
    await advancer.step()
    assert advancer.pending == 0
