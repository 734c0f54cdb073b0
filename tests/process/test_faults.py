"""Kills of the worker, its child and its database session in the middle of each statement of a task's life.

A fault trigger blocks the statement, the kill happens meanwhile, then the statement is released. In every case each
task ends once, with a gapless history, and its code has run exactly as often as that history says."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import psutil
import pytest
from fault_scene import AGAIN, CRASH, DONE, STEPS, Scene, caught, chaos, kill_worker
from faults import FaultAction, FaultMoment, fault


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        *((name, FaultMoment.AFTER) for name in ("claim", "finish", "retry", "beat")),
        chaos("history", FaultMoment.AFTER),
        *(chaos(name, FaultMoment.BEFORE) for name in STEPS),
        *(chaos(name, FaultMoment.COMMIT) for name in STEPS),
    ],
)
async def test_a_lost_session_costs_nothing_but_a_second_try_of_its_statement(
    scene: Scene, name: str, moment: FaultMoment
) -> None:
    step = STEPS[name]
    async with fault(scene.connection, replace(step.point, moment=moment), FaultAction.BLOCK) as blocked:
        await caught(scene, step, blocked)
        await blocked.kill()
        await blocked.release()
    if step.task == "hold":
        await scene.let_go()
    await scene.settled()
    assert await scene.history() == ([AGAIN, DONE] if name == "retry" else [DONE])
    assert len(scene.runs("a")) == (2 if name == "retry" else 1)


@pytest.mark.parametrize("name", ["claim", "finish", "beat", chaos("retry"), chaos("history")])
async def test_a_dead_child_costs_a_run_only_if_one_was_in_it(scene: Scene, name: str) -> None:
    step = STEPS[name]
    async with fault(scene.connection, step.point, FaultAction.BLOCK) as blocked:
        worker = await caught(scene, step, blocked)
        (child,) = worker.children()
        child.kill()
        assert psutil.wait_procs([child], 5)[1] == []
        await blocked.release()
    if step.task == "hold":
        await scene.let_go()
    await scene.settled()
    assert await scene.history() == {"beat": [CRASH, DONE], "retry": [AGAIN, DONE]}.get(name, [DONE])
    assert len(scene.runs("a")) == (2 if name in ("beat", "retry") else 1)


@pytest.mark.parametrize(
    ("name", "history", "runs"),
    [
        ("claim", [CRASH, DONE], 1),
        ("finish", [DONE], 1),
        chaos("beat", [CRASH, DONE], 2),
        chaos("history", [DONE], 1),
        chaos("retry", [AGAIN, DONE], 2),
    ],
)
async def test_what_a_dead_worker_had_ordered_is_done_and_the_rest_is_recovered(
    scene: Scene, name: str, history: list[object], runs: int
) -> None:
    """Its last statement is committed, because the server does not learn that the client is dead."""
    step = STEPS[name]
    async with fault(scene.connection, step.point, FaultAction.BLOCK) as blocked:
        kill_worker(await caught(scene, step, blocked))
        await blocked.release()
    await scene.worker()
    if step.task == "hold":
        await scene.let_go()
    await scene.settled()
    assert (await scene.history(), len(scene.runs("a"))) == (history, runs)


@pytest.mark.parametrize(
    ("name", "history", "runs"),
    [
        ("finish", [CRASH, DONE], 2),
        chaos("claim", [DONE], 1),
        chaos("beat", [CRASH, DONE], 2),
        chaos("history", [CRASH, DONE], 2),
        chaos("retry", [CRASH, DONE], 2),
    ],
)
async def test_what_died_with_the_worker_and_its_session_is_done_again(
    scene: Scene, name: str, history: list[object], runs: int
) -> None:
    step = STEPS[name]
    async with fault(scene.connection, step.point, FaultAction.BLOCK) as blocked:
        kill_worker(await caught(scene, step, blocked))
        await blocked.kill()
        await blocked.release()
    await scene.worker()
    if step.task == "hold":
        await scene.let_go()
    await scene.settled()
    assert (await scene.history(), len(scene.runs("a"))) == (history, runs)


@pytest.mark.chaos
@pytest.mark.parametrize("name", ["claim", "finish", "beat"])
async def test_dead_workers_keep_no_place_under_a_cap_and_it_is_never_exceeded(scene: Scene, name: str) -> None:
    step = STEPS[name]
    async with fault(scene.connection, step.point, FaultAction.BLOCK) as blocked:
        worker = await caught(scene, step, blocked, TEST_CLUSTER_CAP="1")
        for label in "bc":
            await scene.send("work", label)
        await scene.worker(TEST_CLUSTER_CAP="1")
        kill_worker(worker)
        await blocked.release()
    if step.task == "hold":
        await scene.let_go()
    await scene.settled()
    changes = await scene.connection.fetch("SELECT old, new FROM transitions ORDER BY number")
    steps = [(change["new"] == "RUNNING") - (change["old"] == "RUNNING") for change in changes]
    assert max(accumulate(steps)) == 1
