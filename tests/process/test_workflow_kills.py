"""Workers are killed in the middle of each write to a shop's workflow: it ends as if none had been killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from family_audit import LOG, Ledger, check_nothing_is_left, read
from fault_scene import POLICY, chaos, kill_worker
from faults import FaultAction, FaultMoment, FaultPoint, fault
from test_worker import Table, Worker
from worker_flows import Flows

from horsies.domain.ids import new_task_id
from horsies.domain.plan import NodePlan, WorkflowPlan
from horsies.lifecycle.create_workflow import create_workflow

NODES, WORKFLOWS, TASKS = "horsies_workflow_tasks", "horsies_workflows", "horsies_tasks"
OPTIONS = json.dumps({"retry_policy": POLICY | {"max_retries": 5}, "good_until": None})
LABELS = ("n0", "n1", "n2-pick", "n2-pack", "a", "b", "n4", "n6")

# By the statement that does the write.
POINTS = {
    "finish": FaultPoint.status("RUNNING", "COMPLETED"),
    "retry": FaultPoint.status("RUNNING", "PENDING"),
    "advance_started": FaultPoint(NODES, "UPDATE", "OLD.status = 'ENQUEUED' AND NEW.status = 'RUNNING'"),
    "advance_ends": FaultPoint(NODES, "UPDATE", "NEW.status = 'COMPLETED' AND NEW.task_id IS NOT NULL"),
    "advance_on_error": FaultPoint(WORKFLOWS, "UPDATE", "OLD.error IS NULL AND NEW.error IS NOT NULL"),
    "advance_wave ready": FaultPoint(NODES, "UPDATE", "OLD.status = 'PENDING' AND NEW.status = 'READY'"),
    "advance_wave skipped": FaultPoint(NODES, "UPDATE", "OLD.status = 'PENDING' AND NEW.status = 'SKIPPED'"),
    "advance_enqueue": FaultPoint(TASKS, "INSERT", "NEW.kwargs LIKE '%n6%'"),
    "advance commits": FaultPoint(
        NODES, "UPDATE", "NEW.task_index = 1 AND NEW.status = 'ENQUEUED'", FaultMoment.COMMIT
    ),
    "insert_workflow": FaultPoint(WORKFLOWS, "INSERT", "NEW.parent_workflow_id IS NOT NULL"),
    "insert_nodes": FaultPoint(NODES, "INSERT", "NEW.node_id = 'item:1'"),
    "child_link": FaultPoint(NODES, "UPDATE", "OLD.sub_workflow_id IS NULL AND NEW.sub_workflow_id IS NOT NULL"),
    "advance_finish child": FaultPoint(WORKFLOWS, "UPDATE", "NEW.status = 'COMPLETED' AND NEW.depth = 1"),
    "advance_end_nodes": FaultPoint(NODES, "UPDATE", "NEW.status = 'COMPLETED' AND NEW.sub_workflow_id IS NOT NULL"),
    "advance_finish": FaultPoint(WORKFLOWS, "UPDATE", "NEW.status = 'COMPLETED' AND NEW.depth = 0"),
}


class Shop(Flows):
    """A scene with one order, whose parcel and list of letters are sub-workflows."""

    async def worker(self, app: str = "kill_shop:app", **environ: str) -> Worker:
        worker = await asyncio.to_thread(self._start, app=app, **environ)
        self.workers.append(worker)
        return worker

    def step(self, index: int, *dependencies: int, **columns: Any) -> NodePlan:
        return self.node(index, *dependencies, task_options=OPTIONS, **columns)

    async def order(self) -> str:
        workflow_id = new_task_id()
        nodes = (
            self.step(0),
            self.step(1, 0, task="flaky"),
            self.step(2, 0, sub_definition_key="kills.parcel"),
            self.letters(3, 0),
            self.step(4, 0, task="broken"),
            self.step(5, 4),
            self.step(6, 1, 2, 3, 4, 5, allow_failed_deps=True),
        )
        policy = '{"cases":[{"required_indices":[2,3,6]}],"optional_indices":[]}'
        async with self.connection.transaction():
            planned = WorkflowPlan("order", "kills.order", "fail", 6, policy, nodes)
            await create_workflow(self.connection, planned, workflow_id=workflow_id)
        return workflow_id

    def letters(self, index: int, *dependencies: int) -> NodePlan:
        made = self.map_node(index, ["a", "b"])
        tree = json.loads(made.kwargs_json or "")
        tree["__horsies_map__"]["task_options"] = OPTIONS
        return self.step(index, *dependencies, kwargs_json=json.dumps(tree), sub_definition_key=made.sub_definition_key)

    async def check(self, workflow_id: str) -> None:
        """All is done, only crashed runs were repeated, and all rows agree."""
        row = await self.over(workflow_id)
        assert (row["status"], json.loads(row["result"])["ok"]) == ("COMPLETED", len(self.runs("n6"))), row["error"]
        done = ["COMPLETED"] * 4 + ["FAILED", "SKIPPED", "COMPLETED"]
        assert await self.nodes(workflow_id) == done
        assert await self.connection.fetchval("SELECT count(*) FROM horsies_workflows") == 3
        attempts = await self.connection.fetch("SELECT task_id, error_code FROM horsies_task_attempts")
        ledger = Ledger(starts=Counter(row["task_id"] for row in attempts), killed=True)
        family = await read(self.connection, ledger)
        family.check_rest(resumed=True)
        self._check_runs(attempts)
        await check_nothing_is_left(self.connection)

    def _check_runs(self, attempts: list[Any]) -> None:
        """Each run is an attempt; an attempt that is recorded as crashed may not have begun."""
        crashed = sum(row["error_code"] == "WORKER_CRASHED" for row in attempts)
        runs = sum(len(self.runs(label)) for label in LABELS)
        assert len(attempts) - crashed <= runs <= len(attempts)
        # The flaky task fails once by itself, unless that attempt was lost.
        assert len(attempts) - crashed - len(LABELS) in (0, 1)


@pytest.fixture
async def shop(table: Table, start: Callable[..., Worker], tmp_path: Path) -> Shop:
    await table.connection.execute(LOG)
    return Shop(table, start, tmp_path)


DEFAULT = [("advance_ends", True), ("child_link", True), ("insert_nodes", True), ("finish", False)]


@pytest.mark.parametrize(
    ("point", "with_its_session"),
    [
        *DEFAULT,
        *(chaos(point, lost) for point in POINTS for lost in (True, False) if (point, lost) not in DEFAULT),
    ],
)
async def test_an_order_ends_the_same_whatever_its_worker_was_writing_when_it_died(
    shop: Shop, point: str, with_its_session: bool
) -> None:
    """If only the process is killed, its last statement is executed; if its session is, the transaction is lost."""
    async with fault(shop.connection, POINTS[point], FaultAction.BLOCK) as blocked:
        worker = await shop.worker()
        order = await shop.order()
        await blocked.reached()
        kill_worker(worker)
        if with_its_session:
            await blocked.kill()
        await blocked.release()
    await shop.worker()
    await shop.check(order)


async def test_a_worker_that_does_not_know_a_definition_leaves_it_to_one_that_does(shop: Shop) -> None:
    """As during the rollout of a new version."""
    without = await shop.worker("fault_app:app")
    flow = await shop.create_workflow(shop.node(0, sub_definition_key="kills.parcel"))
    await asyncio.to_thread(without.wait_for, "child workflow left to other workers")
    await shop.worker()
    assert await shop.values(flow) == {"n0": 1}
    await shop.once_each("n0-pick", "n0-pack")
