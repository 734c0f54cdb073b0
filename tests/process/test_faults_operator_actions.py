"""Kills in the middle of an operator's changes: a whole batch with its audit rows, or nothing."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from fault_scene import DONE, Scene, chaos
from faults import Fault, FaultAction, FaultMoment, FaultPoint, fault
from forked_commands import Program
from test_worker import PATIENCE_S

OPERATOR = """
import asyncio, sys, asyncpg
from horsies.operations.target import Actor
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

async def main(url, verb, *ids):
    connection = await asyncpg.connect(url, server_settings={"application_name": "operator"})
    seen = await preview(connection, VERBS["task", verb], Selection.of_ids(ids))
    await apply(connection, seen, Actor.current(), "a test", batch=2)

asyncio.run(main(*sys.argv[1:]))
"""
TAKE_AWAY = FaultPoint(
    "horsies_tasks",
    "UPDATE",
    "OLD.status = 'RUNNING' AND NEW.status = 'PENDING' AND current_setting('application_name') = 'operator'",
)
AUDIT = FaultPoint("horsies_operator_actions", "INSERT")
CANCEL = FaultPoint.status("PENDING", "CANCELLED")
GONE = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'operator' AND datname = current_database()"


class Operator:
    """Starts operator verbs in separate processes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, verb: str, *ids: str) -> subprocess.Popen[bytes]:
        process: Program[bytes] = Program(OPERATOR, self._url, verb, *ids, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process


@pytest.fixture
async def operate(database: str) -> AsyncIterator[Operator]:
    operator = Operator(database)
    yield operator
    for process in operator.processes:
        process.kill()
        process.wait()


async def strike(scene: Scene, victim: str, operator: subprocess.Popen[bytes], blocked: Fault) -> None:
    """Kill the operator's process, which the server notices later; or his session, which he is notified of."""
    if victim == "operator":
        operator.kill()
    else:
        await blocked.kill()
    await blocked.release()
    await asyncio.to_thread(operator.wait, PATIENCE_S)
    await scene.until(GONE)


async def audited(scene: Scene) -> int:
    return int(await scene.connection.fetchval("SELECT count(*) FROM horsies_operator_actions"))


@pytest.mark.parametrize("victim", ["operator", "session"])
@pytest.mark.parametrize(
    "point",
    [TAKE_AWAY, replace(TAKE_AWAY, moment=FaultMoment.COMMIT), chaos(AUDIT)],
    ids=["task", "commit", "audit"],
)
async def test_a_running_task_is_taken_from_its_worker_with_history_and_audit_or_not_at_all(
    scene: Scene, operate: Operator, point: FaultPoint, victim: str
) -> None:
    await scene.worker()
    await scene.send("hold")
    await scene.begun()
    async with fault(scene.connection, point, FaultAction.BLOCK) as blocked:
        operator = operate("requeue", scene.ids["a"])
        await blocked.reached()
        await strike(scene, victim, operator, blocked)
    taken = await audited(scene) == 1
    if victim == "session":
        assert not taken
    elif point.moment is FaultMoment.COMMIT:  # the batch was complete when the operator died
        assert taken
    await scene.begun(runs=2 if taken else 1)
    await scene.let_go()
    await scene.settled()
    assert await scene.history() == ([("WORKER_FAILURE", "OPERATOR_REQUEUED"), DONE] if taken else [DONE])
    assert len(scene.runs("a")) == (2 if taken else 1)


@pytest.mark.parametrize("victim", ["operator", "session"])
@pytest.mark.parametrize("moment", [FaultMoment.AFTER, FaultMoment.COMMIT])
async def test_each_batch_is_done_with_one_audit_row_for_each_task_or_not_at_all(
    scene: Scene, operate: Operator, moment: FaultMoment, victim: str
) -> None:
    for label in "abcde":
        await scene.send("work", label)
    async with fault(scene.connection, replace(CANCEL, moment=moment), FaultAction.BLOCK, nth=3, times=3) as blocked:
        operator = operate("cancel", *scene.ids.values())  # two at a time
        await blocked.reached()
        await strike(scene, victim, operator, blocked)
    cancelled = await scene.connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'CANCELLED'")
    assert cancelled == await audited(scene)
    if victim == "session":
        assert cancelled == 2  # the operator is asked; the rest is not tried without an answer
    else:
        assert cancelled in ((4,) if moment is FaultMoment.COMMIT else (2, 4))
