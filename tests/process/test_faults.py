"""Kills of the worker, its child and its database session in the middle of each statement of a task's life.

A fault trigger blocks the statement, the kill happens meanwhile, then the statement is released. In every case each
task ends once, with a gapless history, and its code has run exactly as often as that history says."""

from __future__ import annotations

import asyncio
import random
import signal
from dataclasses import replace
from itertools import accumulate

import psutil
import pytest
from fault_scene import AGAIN, CRASH, DONE, ENDED, STEPS, Scene, caught, chaos, kill_worker
from faults import Fault, FaultAction, FaultMoment, FaultPoint, fault
from test_worker import PATIENCE_S, Worker


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
    ("name", "session_dies", "history", "runs"),
    [
        ("claim", False, [CRASH, DONE], 1),
        ("finish", False, [DONE], 1),
        chaos("beat", False, [CRASH, DONE], 2),
        chaos("history", False, [DONE], 1),
        chaos("retry", False, [AGAIN, DONE], 2),
        ("finish", True, [CRASH, DONE], 2),
        chaos("claim", True, [DONE], 1),
        chaos("beat", True, [CRASH, DONE], 2),
        chaos("history", True, [CRASH, DONE], 2),
        chaos("retry", True, [CRASH, DONE], 2),
    ],
)
async def test_what_a_dead_worker_had_committed_is_kept_and_the_rest_is_recovered(
    scene: Scene, name: str, session_dies: bool, history: list[object], runs: int
) -> None:
    """Unless its session dies with it, its last statement is committed: the server does not learn of its death."""
    step = STEPS[name]
    async with fault(scene.connection, step.point, FaultAction.BLOCK) as blocked:
        kill_worker(await caught(scene, step, blocked))
        if session_dies:
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


@pytest.fixture
def database(embedded_database: str) -> str:
    return embedded_database


WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
# A waiting snapshot would hold the lock of all notifications, so the finish could not begin to wait.
LOST = f"""
SELECT bool_or(pg_terminate_backend(pid, 5000) AND application_name = 'horsies worker finish') {WAITING}
   AND application_name IN ('horsies worker finish', 'horsies worker upkeep')
"""


# The state of a standby that lacks the finish, or also the start; then the sessions to the old primary end.
BEHIND = """
SET session_replication_role = replica;
DELETE FROM horsies_task_attempts;
UPDATE horsies_tasks SET status = '{status}', completed_at = NULL, failed_at = NULL, result = NULL, error_code = NULL,
       claimed = '{status}' = 'CLAIMED',
       claim_expires_at = CASE '{status}' WHEN 'CLAIMED' THEN now() + interval '1 min' END;
SET session_replication_role = origin;
"""
CUT = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name LIKE 'horsies worker%' AND datname = current_database()
"""


@pytest.mark.parametrize("status", ["RUNNING", "CLAIMED"])
async def test_what_had_ended_is_stored_again_after_a_failover_that_lost_it(scene: Scene, status: str) -> None:
    worker = await scene.worker(TEST_STALE_MS="60000")
    await scene.send("work", "a", retries=0)
    await scene.send("flaky", "b", retries=0)
    await scene.until(ENDED)
    before = {label: await scene.table.row(scene.ids[label]) for label in "ab"}
    history = {label: await scene.history(label) for label in "ab"}
    await scene.connection.execute(BEHIND.format(status=status))
    await scene.connection.execute(CUT)  # afterwards, because the worker reconnects at once and reads
    await scene.until(ENDED)
    told = [await asyncio.to_thread(worker.wait_for, "commit of an outcome lost") for _ in "ab"]
    assert {one["id"] for one in told} == set(scene.ids.values())
    for label in "ab":
        row = await scene.table.row(scene.ids[label])
        for column in ("status", "result", "error_code", "failed_reason", "retry_count", "claimed_at"):
            assert row[column] == before[label][column]
        assert (await scene.history(label), len(scene.runs(label))) == (history[label], 1)


async def test_a_finish_whose_answer_is_lost_is_not_a_second_outcome(scene: Scene) -> None:
    """Committed, and the session dies before the reply: the server waits for a standby that does not exist."""
    await scene.connection.execute("SET synchronous_commit = local")
    worker = await scene.worker(TEST_STALE_MS="60000")  # its beats will not be seen for a while
    await scene.send("hold", "a")
    await scene.begun("a")
    try:
        await scene.connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        await scene.connection.execute("SELECT pg_reload_conf()")
        # From now on every commit waits.
        await scene.until(f"SELECT true {WAITING} AND application_name = 'horsies worker beat'")
        await scene.let_go()
        await scene.until(LOST)
    finally:
        await scene.connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await scene.connection.execute("SELECT pg_reload_conf()")
    assert (await scene.table.row(scene.ids["a"]))["status"] == "COMPLETED"
    finished = await asyncio.to_thread(worker.wait_for, "finished")
    assert finished["id"] == scene.ids["a"]
    await scene.settled()
    assert (await scene.history("a"), len(scene.runs("a"))) == ([DONE], 1)


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
