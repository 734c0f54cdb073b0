"""Workers, children and sessions are killed at random under load, again and again."""

from __future__ import annotations

import asyncio
import random

import psutil
import pytest
from fault_scene import Scene
from test_worker import Worker

TASKS = 400
KILLS = 40
SESSIONS = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'horsies worker%' ORDER BY pid
"""


async def kill_a_session(scene: Scene, choose: random.Random) -> None:
    if pids := [row["pid"] for row in await scene.connection.fetch(SESSIONS)]:
        await scene.connection.execute("SELECT pg_terminate_backend($1)", choose.choice(pids))


async def kill_a_child(scene: Scene, choose: random.Random) -> None:
    if children := choose.choice(living(scene)).children():
        child = choose.choice(children)
        try:
            child.kill()
        except psutil.NoSuchProcess:
            return  # it has ended in the meantime


async def kill_a_worker(scene: Scene, choose: random.Random) -> None:
    choose.choice(living(scene)).process.kill()
    await scene.worker(TEST_PREFETCH="4")


def living(scene: Scene) -> list[Worker]:
    return [worker for worker in scene.workers if worker.process.poll() is None]


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_kills_loses_no_task_and_repeats_none_behind_its_history(scene: Scene, seed: int) -> None:
    choose = random.Random(seed)
    for number in range(TASKS):
        await scene.send("flaky" if number % 4 == 0 else "nap", str(number), retries=20)
    await asyncio.gather(*(scene.worker(TEST_PREFETCH="4") for _ in range(2)))
    for _ in range(KILLS):
        strike = choose.choices([kill_a_session, kill_a_child, kill_a_worker], weights=[6, 3, 1])[0]
        await strike(scene, choose)
        await asyncio.sleep(choose.uniform(0.0, 0.6))  # kills at any moment
    await scene.settled(patience_s=120)
    struck = "SELECT count(*) > 10 FROM horsies_task_attempts WHERE error_code = 'WORKER_CRASHED'"
    assert await scene.connection.fetchval(struck)  # otherwise no kill hit anything
