"""Kills during a worker's other work: prefetched starts, returning tasks, recovering tasks of others."""

from __future__ import annotations

import asyncio
import signal

import pytest
from fault_scene import CRASH, DONE, Scene, chaos, kill_worker
from faults import Fault, FaultAction, FaultPoint, fault
from test_worker import PATIENCE_S, Worker

START = FaultPoint.status("CLAIMED", "RUNNING")
RELEASE = FaultPoint.status("CLAIMED", "PENDING")
RECOVER = FaultPoint(
    "horsies_tasks",
    "UPDATE",
    "OLD.status = 'RUNNING' AND NEW.status = 'PENDING'"
    " AND current_setting('application_name') = 'horsies worker recovery'",
)
VICTIMS = ["session", chaos("worker"), chaos("worker and session")]


async def strike(victim: str, worker: Worker, blocked: Fault) -> None:
    """Kill the process blocked at the fault; if only a worker is killed, its last statement is committed."""
    if "worker" in victim:
        kill_worker(worker)
    if "session" in victim:
        await blocked.kill()
    await blocked.release()


async def one_runs_and_one_waits(scene: Scene) -> Worker:
    """A worker whose only child runs `a`, with `b` prefetched for it."""
    worker = await scene.worker(TEST_PREFETCH="2")
    await scene.send("hold", "a")
    await scene.begun("a")
    await scene.send("work", "b")
    await scene.table.until(scene.ids["b"], "CLAIMED")
    return worker


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_prefetched_task_starts_once(scene: Scene, victim: str) -> None:
    worker = await one_runs_and_one_waits(scene)
    async with fault(scene.connection, START, FaultAction.BLOCK) as blocked:
        await scene.let_go()
        await blocked.reached()
        await scene.table.done(scene.ids["a"])
        await strike(victim, worker, blocked)
    if "worker" in victim:
        await scene.worker()
    await scene.settled()
    assert await scene.history("a") == [DONE]
    assert await scene.history("b") == ([CRASH, DONE] if victim == "worker" else [DONE])
    assert (len(scene.runs("a")), len(scene.runs("b"))) == (1, 1)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_claim_that_a_stopping_worker_gives_back_is_run_once_by_another(scene: Scene, victim: str) -> None:
    worker = await one_runs_and_one_waits(scene)
    async with fault(scene.connection, RELEASE, FaultAction.BLOCK) as blocked:
        worker.process.send_signal(signal.SIGTERM)
        await blocked.reached()
        await strike(victim, worker, blocked)
    await scene.worker()
    await scene.let_go()
    await asyncio.to_thread(worker.process.wait, PATIENCE_S)
    await scene.settled()
    assert await scene.history("a") == ([CRASH, DONE] if "worker" in victim else [DONE])
    assert await scene.history("b") == [DONE]
    assert len(scene.runs("b")) == 1


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_sweep_that_dies_in_the_middle_is_done_by_the_next_one(scene: Scene, victim: str) -> None:
    doomed = await scene.worker()
    await scene.send("hold", "a")
    await scene.begun("a")
    async with fault(scene.connection, RECOVER, FaultAction.BLOCK) as blocked:
        kill_worker(doomed)
        sweeping = await scene.worker()
        await blocked.reached()
        await strike(victim, sweeping, blocked)
    if "worker" in victim:
        await scene.worker()
    await scene.let_go()
    await scene.settled()
    assert (await scene.history("a"), len(scene.runs("a"))) == ([CRASH, DONE], 2)
