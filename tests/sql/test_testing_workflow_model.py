"""Random workflows end in `inline()`, where rows in memory answer the engine, as on the database with `drain()`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from database_server import DatabaseServer
from workflow_model import Act, Expected, Facts, Flow, catalogue, expected, plain, plan_of, random_flow, value_of
from workflow_plans import Spec

from horsies import (
    AppConfig,
    Horsies,
    PostgresConfig,
    TaskError,
    TaskResult,
    WorkflowHandle,
    WorkflowMeta,
    WorkflowTaskInfo,
    start_workflow,
)
from horsies.domain.codec import dump_task_result
from horsies.domain.plan import WorkflowPlan
from horsies.testing import Ran, drain, inline
from horsies.testing.embedded import database_replaced
from horsies.workflow import subworkflow_plan

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
CANCELLED = slice(3, None, 5)
catalog: dict[str, Flow] = {}
runs: Counter[tuple[str, int]] = Counter()


@app.task("model")
def model(
    step: list[Any] | None = None,
    item: int | None = None,
    fixed: int = 0,
    workflow_meta: WorkflowMeta | None = None,
    **given: TaskResult[Any, TaskError],
) -> TaskResult[Any, TaskError]:
    """What a node's code does; see workflow_model.Act. HEAL fails until the workflow is retried."""
    broke: TaskResult[Any, TaskError] = TaskResult(err=TaskError(error_code="BROKE"))
    if item is not None:
        return broke if item < 0 else TaskResult(ok=item * 10)
    assert step is not None
    assert workflow_meta is not None
    key, index = step
    act = catalog[key].steps[index].act
    place = workflow_meta.workflow_id, index
    runs[place] += 1
    if act is Act.FAIL or (act is Act.HEAL and runs[place] == 1):
        return broke
    if act is Act.FLAKY and runs[place] < 3:
        return TaskResult(err=TaskError(error_code="TRY_AGAIN"))
    told = {name: plain(json.loads(dump_task_result(result))) for name, result in given.items()}
    return TaskResult(ok=value_of(act, key, index, told if catalog[key].steps[index].is_strict else {}))


@pytest.fixture(autouse=True)
def _definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children of flows are found by their keys, as definitions are."""

    def child_plan(app: Horsies, key: str, kwargs_json: str | None) -> WorkflowPlan:
        return plan_of(catalog[key], key) if key in catalog else subworkflow_plan.child_plan(app, key, kwargs_json)

    for module in ("horsies.run.worker.subworkflow_builder", "horsies.testing.inline_workflows"):
        monkeypatch.setattr(f"{module}.child_plan", child_plan)


def tree(workflow_id: str) -> Tree:
    """The states and results of a workflow, of its nodes, and of the workflows below it."""
    handle: WorkflowHandle[Any] = WorkflowHandle(workflow_id, app.get_broker())
    nodes = handle.tasks().unwrap()
    below = {node.index: tree(node.sub_workflow_id) for node in nodes if node.sub_workflow_id is not None}
    ends = {node.node_id: (node.status.value, stored(node.result), counts(node)) for node in nodes}
    return Tree(workflow_id, handle.status().unwrap().value, stored(handle.get(0)), ends, below)


@dataclass
class Tree:
    workflow_id: str = field(compare=False)
    status: str
    result: Any
    nodes: dict[str | None, Any]
    children: dict[int, Tree]

    def paused(self) -> list[str]:
        own = [self.workflow_id] if self.status == "PAUSED" else []
        return own + [each for child in self.children.values() for each in child.paused()]

    def check(self, model: Expected) -> None:
        """As the model of the engine's own tests foresees it."""
        assert self.status == model.status
        assert [(node[0], node[1]) for node in self.nodes.values()] == [(end.status, end.plain) for end in model.ends]


def stored(result: TaskResult[Any, Any] | None) -> Any:
    return None if result is None else plain(json.loads(dump_task_result(result)))


def counts(node: WorkflowTaskInfo) -> Any:
    summary = node.sub_workflow_summary
    if summary is None:
        return None
    return summary.status, summary.total_tasks, summary.completed_tasks, summary.failed_tasks, summary.skipped_tasks


def played(plots: list[Flow], run: Callable[[], Ran]) -> list[Tree]:
    """The ends of all, before and after a retry of what has failed.

    Before anything runs, some are paused and some are cancelled; what is paused, also by an error, is resumed later.
    """
    runs.clear()
    broker = app.get_broker()
    for number, flow in enumerate(plots):
        start_workflow(Spec(plan_of(flow, f"m{number}"), broker), broker, f"w{number}").unwrap()
    ids = [f"w{number}" for number in range(len(plots))]
    for workflow_id in ids[1::5]:
        assert WorkflowHandle[Any](workflow_id, broker).pause().unwrap()
    for workflow_id in ids[CANCELLED]:
        WorkflowHandle[Any](workflow_id, broker).cancel().unwrap()
    before = rested(ids, run)
    for workflow_id in ids:
        WorkflowHandle[Any](workflow_id, broker).retry().unwrap()
    return before + rested(ids, run)


def rested(ids: list[str], run: Callable[[], Ran]) -> list[Tree]:
    for _ in range(20):
        run()
        trees = [tree(each) for each in ids]
        paused = [each for found in trees for each in found.paused()]
        if not paused:
            return trees
        for workflow_id in paused:
            WorkflowHandle[Any](workflow_id, app.get_broker()).resume().unwrap()
    raise AssertionError("they never come to rest")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 41))])
def test_workflows_end_in_memory_as_on_the_database(server: DatabaseServer, seed: int) -> None:
    rng = Random(seed)
    plots = [random_flow(rng) for _ in range(15)]
    catalog.clear()
    for number, flow in enumerate(plots):
        catalog.update(catalogue(flow, f"m{number}"))
    with inline(app, at_once=False) as queue:
        in_memory = played(plots, lambda: queue.run(100))
    with server.database() as url, database_replaced(app, url):
        on_database = played(plots, lambda: drain(app, seconds=100))
    for number, flow in enumerate(plots):
        again = number + len(plots)
        assert in_memory[number] == on_database[number], flow
        assert in_memory[again] == on_database[again], flow
        if number not in range(len(plots))[CANCELLED]:
            in_memory[number].check(expected(flow, Facts(), f"m{number}"))
