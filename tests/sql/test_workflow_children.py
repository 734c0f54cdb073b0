"""A node whose child cannot be built fails with a code that says why; otherwise it ends as its child does."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from functools import partial
from typing import Any

import asyncpg
import pytest
from advance_steps import complete, fail, grow, nodes_of, ok, states, workflow
from workflow_plans import node, plan

from horsies import (
    AppConfig,
    Horsies,
    PostgresConfig,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowDefinition,
    WorkflowSpec,
)
from horsies.domain.codec import load_task_result
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import SubWorkflowError
from horsies.lifecycle.advancing import lock_families, update_workflows
from horsies.lifecycle.create_workflow import start_child
from horsies.run import threads
from horsies.run.worker.subworkflow_builder import build_child
from horsies.workflow.subworkflow_plan import BuildFailed, UnknownDefinition

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
let_go = threading.Event()


@app.task("number")
def number(value: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value)


class Raising(WorkflowDefinition[int]):
    name = "raising"
    definition_key = "test.children.raising"

    @classmethod
    def build_with(cls, app: Horsies, **params: Any) -> WorkflowSpec[int]:
        raise LookupError("no such price list")


class Hanging(WorkflowDefinition[int]):
    name = "hanging"
    definition_key = "test.children.hanging"
    only = TaskNode(number, kwargs={"value": 1})

    @classmethod
    def build_with(cls, app: Horsies, **params: Any) -> WorkflowSpec[int]:
        let_go.wait(20)
        return cls.build(app)


def map_of(items: str, most: int = 3) -> str:
    return (
        '{"__horsies_map__":{"task":"number","param":"value","queue":"default","priority":100,"task_options":null,'
        f'"max_items":{most}{items}}}}}'
    )


async def build(conn: asyncpg.Connection, flow: str, index: int = 0) -> Exception | None:
    return await build_child(app, partial(nullcontext, conn), flow, index)


async def code_of(conn: asyncpg.Connection, flow: str, index: int = 0) -> str:
    error = load_task_result(str((await nodes_of(conn, flow))[index]["result"])).err
    return str(error.error_code.value)


async def test_a_definition_that_is_not_imported_here(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, sub_definition_key="shop.gone"))
    assert isinstance(await build(connection, flow), UnknownDefinition)
    assert await code_of(connection, flow) == "SUBWORKFLOW_LOAD_FAILED"
    assert await states(connection, flow) == "FAILED: failed"


async def test_a_build_that_raises(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, sub_definition_key=Raising.definition_key), node(1, 0))
    refused = await build(connection, flow)
    assert "LookupError: no such price list" in str(refused)
    assert await code_of(connection, flow) == "WORKFLOW_ENQUEUE_FAILED"
    assert await states(connection, flow) == "FAILED: failed skipped"


async def test_a_build_that_hangs_makes_no_other_workflow_wait(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LONGEST_BUILD_S", 0.05)
    flow = await grow(connection, node(0, sub_definition_key=Hanging.definition_key))
    refused = await build(connection, flow)
    assert isinstance(refused, BuildFailed)
    assert "within 0.05 s" in str(refused)
    assert await states(connection, flow) == "FAILED: failed"
    # Each build that hangs keeps its thread: what is tried again for ever must not take all of them.
    for _ in range(6):
        flow = await grow(connection, node(0, sub_definition_key=Hanging.definition_key))
        refused = await build(connection, flow)
    assert "4 earlier builds have not ended" in str(refused)
    hanging = [thread for thread in threading.enumerate() if thread.name.endswith(Hanging.definition_key)]
    assert len(hanging) == 4
    let_go.set()
    for thread in hanging:
        thread.join(5)
    flow = await grow(connection, node(0, sub_definition_key=Hanging.definition_key))
    assert await build(connection, flow) is None


async def test_a_map_over_more_items_than_it_allows_names_both_numbers(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, kwargs_json=map_of(',"items":[1,2,3,4]'), sub_definition_key=MAP_DEFINITION))
    refused = await build(connection, flow)
    assert "4 items" in str(refused)
    assert "max_items=3" in str(refused)
    assert await code_of(connection, flow) == "WORKFLOW_ENQUEUE_FAILED"


@pytest.mark.parametrize("kwargs", ["[1]", "{", "{}", '{"__horsies_map__":7}'])
async def test_arguments_that_cannot_be_read(connection: asyncpg.Connection, kwargs: str) -> None:
    flow = await grow(connection, node(0, kwargs_json=kwargs, sub_definition_key=MAP_DEFINITION))
    await build(connection, flow)
    assert await code_of(connection, flow) == "WORKER_SERIALIZATION_ERROR"
    assert await build(connection, flow) is None


@pytest.mark.parametrize(
    ("was", "damaged"),
    [('"priority":100', '"priority":99999999999'), ('"queue":"default"', f'"queue":"{"q" * 300}"')],
)
async def test_a_child_that_no_column_holds_fails_its_node(
    connection: asyncpg.Connection, was: str, damaged: str
) -> None:
    kwargs = map_of(',"items":[1]').replace(was, damaged)
    flow = await grow(connection, node(0, kwargs_json=kwargs, sub_definition_key=MAP_DEFINITION))
    assert "cannot be stored" in str(await build(connection, flow))
    assert await code_of(connection, flow) == "WORKFLOW_ENQUEUE_FAILED"
    assert await states(connection, flow) == "FAILED: failed"


async def test_a_definition_that_contains_itself_without_end_comes_to_one(connection: asyncpg.Connection) -> None:
    mapping = node(0, kwargs_json=map_of(',"items":[1]'), sub_definition_key=MAP_DEFINITION)
    flow = await grow(connection, mapping)
    await connection.execute("UPDATE horsies_workflows SET depth = 100 WHERE id = $1", flow)
    assert "101 levels deep" in str(await build(connection, flow))
    assert await code_of(connection, flow) == "WORKFLOW_ENQUEUE_FAILED"
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflows") == 1


async def test_a_large_list_reaches_the_map_that_goes_over_it(connection: asyncpg.Connection) -> None:
    mapping = node(1, 0, kwargs_json=map_of("", 1_000), args_from={"__items__": 0}, sub_definition_key=MAP_DEFINITION)
    flow = await grow(connection, node(0), mapping)
    done = await complete(connection, flow, 0, ["x" * 1_000] * 100)
    assert done.ready_children == (flow,)
    assert await build(connection, flow, 1) is None
    child = (await nodes_of(connection, flow))[1]["sub_workflow_id"]
    assert len(await nodes_of(connection, child)) == 100


async def test_a_map_over_nothing_is_over_at_once(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, kwargs_json=map_of(',"items":[]'), sub_definition_key=MAP_DEFINITION))
    assert await build(connection, flow) is None
    (mapped,) = await nodes_of(connection, flow)
    assert (mapped["status"], mapped["result"]) == ("COMPLETED", ok([]))
    assert await states(connection, flow) == "COMPLETED: completed"


async def test_one_failed_item_fails_the_node_and_tells_how_many_went_well(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, kwargs_json=map_of(',"items":[1,2,3]'), sub_definition_key=MAP_DEFINITION))
    await build(connection, flow)
    (mapped,) = await nodes_of(connection, flow)
    assert mapped["status"] == "RUNNING"
    for index in range(2):
        await complete(connection, mapped["sub_workflow_id"], index)
    await fail(connection, mapped["sub_workflow_id"], 2)
    (mapped,) = await nodes_of(connection, flow)
    error = load_task_result(mapped["result"]).err
    assert isinstance(error, SubWorkflowError)
    summary = error.sub_workflow_summary
    assert (summary.status, summary.completed_tasks, summary.failed_tasks) == (WorkflowStatus.FAILED, 2, 1)
    assert summary.error_summary == "BROKE: it broke"
    assert json.loads(mapped["sub_workflow_summary"])["data"]["total_tasks"] == 3


async def test_a_child_hands_its_value_and_its_summary_to_what_waits_for_it(connection: asyncpg.Connection) -> None:
    flow = await grow(
        connection,
        node(0, sub_definition_key="child"),
        node(1, 0, args_from={"a": 0}, ctx_from=("n0",)),
        output_index=1,
    )
    child = str(await start_child(connection, flow, 0, plan(node(0), output_index=0)))
    row = await workflow(connection, child)
    assert (row["depth"], row["parent_workflow_id"], row["root_workflow_id"]) == (1, flow, flow)
    await complete(connection, child, 0, {"total": 5})
    kwargs = json.loads(
        await connection.fetchval("SELECT kwargs FROM horsies_tasks task WHERE kwargs LIKE '%summaries_by_id%'")
    )
    assert kwargs["a"]["data"] == ok({"total": 5})
    summary = json.loads(kwargs["__horsies_workflow_ctx__"]["summaries_by_id"]["n0"])["data"]
    assert (summary["status"], summary["output"], summary["completed_tasks"]) == ("COMPLETED", {"total": 5}, 1)


async def test_a_child_cancelled_by_itself_fails_the_node_of_its_parent(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0, sub_definition_key="child"), node(1))
    child = str(await start_child(connection, flow, 0, plan(node(0))))
    await connection.execute("UPDATE horsies_workflows SET status = 'CANCELLED' WHERE id = $1", child)
    async with connection.transaction():
        await lock_families(connection, [child])
        await update_workflows(connection, [child])
    assert await states(connection, flow) == "RUNNING: failed enqueued"
    assert await code_of(connection, flow) == "SUBWORKFLOW_FAILED"


async def test_grandchildren_end_up_to_the_root_in_one_step(connection: asyncpg.Connection) -> None:
    root = await grow(connection, node(0, sub_definition_key="child"))
    child = str(await start_child(connection, root, 0, plan(node(0, sub_definition_key="child"), output_index=0)))
    grandchild = str(await start_child(connection, child, 0, plan(node(0), output_index=0)))
    assert await lock_families(connection, [grandchild, child]) == (root,)
    done = await complete(connection, grandchild, 0, 9)
    assert [flow for flow, _ in done.finished] == [grandchild, child, root]
    assert (await workflow(connection, root))["result"].count('"ok":9') == 1
