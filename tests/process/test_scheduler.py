"""Schedulers as real processes: each slot once, whichever of them are killed, stopped or frozen."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from forked_commands import Command, Program, run_command
from schedule_scene import add_schedule, definition

HERE = Path(__file__).parent
SECOND = timedelta(seconds=1)
PATIENCE_S = 30.0


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Also after a test that has failed."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


def scheduler(database: str, *options: str, command: str = "scheduler", **environ: str) -> subprocess.Popen[str]:
    process: Command[str] = Command(
        [command, "schedule_app:app", *options],
        env={**os.environ, "HORSIES_DATABASE_URL": database, **environ},
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    STARTED.append(process)
    return process


def ended(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
    """The exit code and everything that it printed."""
    process.send_signal(number)
    output = process.communicate(timeout=PATIENCE_S)[0]
    return process.returncode, output


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < end, f"never so: {what}"
        await asyncio.sleep(0.05)


@pytest.fixture
async def at_least(connection: asyncpg.Connection) -> Callable[[int], Awaitable[None]]:
    async def wait(count: int) -> None:
        async def holds() -> bool:
            return bool(await connection.fetchval("SELECT count(*) >= $1 FROM horsies_tasks", count))

        await until(holds, f"{count} tasks were sent")

    return wait


async def slots(connection: asyncpg.Connection) -> dict[str, list[float]]:
    """By schedule, how many seconds lie between its slots, in their order."""
    rows = await connection.fetch("SELECT args, sent_at FROM horsies_tasks ORDER BY sent_at")
    found: dict[str, list[float]] = {}
    last: dict[str, float] = {}
    for args, sent_at in rows:
        at = sent_at.timestamp()
        found.setdefault(args, []).append(round(at - last.get(args, at), 3))
        last[args] = at
    return found


async def test_it_says_what_it_schedules_sends_it_and_stops_cleanly(
    database: str, connection: asyncpg.Connection, at_least: Callable[[int], Awaitable[None]]
) -> None:
    running = scheduler(database)
    await at_least(6)
    sql = "SELECT pid, schedules FROM horsies_schedulers"
    assert await connection.fetch(sql) == [(running.pid, ["blue", "green", "red"])]
    code, output = ended(running)
    assert (code, await connection.fetch(sql)) == (0, [])
    assert "  app        schedule_app:app, 1 task\n" in output
    assert "  schedule   red: tick, every 1 s (UTC)\n" in output
    assert output.count("scheduled   schedule=red") >= 2
    assert {1.0} == {gap for gaps in (await slots(connection)).values() for gap in gaps[1:]}


async def test_a_worker_can_schedule_as_well(database: str, connection: asyncpg.Connection) -> None:
    running = scheduler(database, "--with-scheduler", command="worker", TEST_FLOWS='{"nightly": "go"}')

    async def done() -> bool:
        sql = "SELECT count(DISTINCT args) = 3 FROM horsies_tasks WHERE status = 'COMPLETED'"
        flows = "SELECT count(*) > 0 FROM horsies_workflows WHERE status = 'COMPLETED'"
        return bool(await connection.fetchval(sql)) and bool(await connection.fetchval(flows))

    await until(done, "a task of each schedule has run, and a workflow")
    sql = "SELECT scheduler_id FROM horsies_schedulers"
    (scheduler_id,) = await connection.fetchrow(sql) or ("",)
    code, output = ended(running)
    assert (code, await connection.fetch(sql)) == (0, [])
    assert f"worker={scheduler_id}" in output
    assert "  schedules red, green, blue, nightly\n" in output


WEB_PROCESS = """
import asyncio, sys, schedule_app

async def main():
    async with schedule_app.app.run_worker(scheduler=True):
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


def web_process(database: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "HORSIES_DATABASE_URL": database}
    process: Program[str] = Program(WEB_PROCESS, env=environ, cwd=HERE, stdin=subprocess.PIPE, text=True)
    STARTED.append(process)
    return process


async def test_a_worker_inside_another_program_can_schedule_as_well(
    database: str, connection: asyncpg.Connection
) -> None:
    running = web_process(database)

    async def done() -> bool:
        sql = "SELECT count(DISTINCT args) = 3 FROM horsies_tasks WHERE status = 'COMPLETED'"
        return bool(await connection.fetchval(sql))

    await until(done, "a task of each schedule has run")
    await asyncio.to_thread(running.communicate, "\n", timeout=PATIENCE_S)
    assert running.returncode == 0
    assert await connection.fetchval("SELECT count(*) FROM horsies_schedulers") == 0


async def test_a_scheduler_that_is_killed_or_frozen_is_replaced_by_the_others_slot_by_slot(
    database: str, connection: asyncpg.Connection, at_least: Callable[[int], Awaitable[None]]
) -> None:
    one, two, three = (scheduler(database, TEST_SCHEDULE='{"catch_up_missed": true}') for _ in range(3))
    await at_least(3)
    one.send_signal(signal.SIGSTOP)
    two.kill()
    await at_least(12)
    one.send_signal(signal.SIGCONT)
    assert ended(three)[0] == 0
    await at_least(21)
    assert ended(one)[0] == 0
    two.communicate()
    found = await slots(connection)
    assert {gap for gaps in found.values() for gap in gaps[1:]} == {1.0}, "a slot is missing or was sent twice"
    assert await connection.fetchval("SELECT count(*) = count(DISTINCT (args, sent_at)) FROM horsies_tasks")


@pytest.mark.chaos
async def test_three_schedulers_under_random_signals_for_three_minutes_send_each_slot_once(
    database: str, connection: asyncpg.Connection
) -> None:
    rng = random.Random(15)
    running = [scheduler(database, TEST_SCHEDULE='{"catch_up_missed": true}') for _ in range(3)]
    frozen: dict[int, float] = {}
    end = time.monotonic() + 180
    verbs = itertools.cycle(["skip blue", "pause red", "resume red", "run-now green"])
    skips, pauses, last_verb = 0, 0, time.monotonic()
    ordered: list[str] = []
    while time.monotonic() < end:
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        if time.monotonic() - last_verb > 5.0:
            verb, name = next(verbs).split()
            code, output = await asyncio.to_thread(command, database, verb, name, "--yes", "--json")
            last_verb = time.monotonic()
            skips += verb == "skip" and code == 0
            pauses += verb == "resume" and code == 0
            ordered += [row["new_id"] for row in json.loads(output)["rows"] if verb == "run-now"]
        for thawed in [one for one, until_then in frozen.items() if until_then < time.monotonic()]:
            del frozen[thawed]
            running[thawed].send_signal(signal.SIGCONT)
        place = rng.randrange(3)
        if place in frozen:
            continue
        how = rng.choice([signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
        running[place].send_signal(how)
        if how is signal.SIGSTOP:
            frozen[place] = time.monotonic() + rng.uniform(1.0, 8.0)
        else:
            await asyncio.to_thread(running[place].communicate)
            running[place] = scheduler(database, TEST_SCHEDULE='{"catch_up_missed": true}')
    for process in running:
        process.send_signal(signal.SIGCONT)
        await asyncio.to_thread(ended, process)
    done = await connection.fetchval("DELETE FROM horsies_tasks WHERE id = ANY ($1) RETURNING 1", ordered)
    assert (done, len(ordered) > 5) == (1, True)
    found = await slots(connection)
    assert set(found) == {'["red"]', '["green"]', '["blue"]'}
    assert set(found['["green"]'][1:]) == {1.0}
    assert sum(gap - 1.0 for gap in found['["blue"]'][1:]) == skips > 5, "each skip leaves out one slot"
    assert sum(gap != 1.0 for gap in found['["red"]'][1:]) == pauses > 5, "each pause leaves out the slots in it"
    assert all(gap.is_integer() for gap in found['["red"]'])
    assert (len(found['["green"]']) > 150, len(found['["blue"]']) > 140) == (True, True)


def command(database: str, *words: str, group: str = "schedules") -> tuple[int, str]:
    done = run_command([group, *words, "--database-url", database], text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.chaos
async def test_a_workflow_is_started_once_a_slot_whichever_scheduler_is_killed(
    database: str, connection: asyncpg.Connection
) -> None:
    flows = '{"nightly": "go"}'
    one, two = (scheduler(database, TEST_FLOWS=flows) for _ in range(2))

    async def started(count: int) -> bool:
        return bool(await connection.fetchval("SELECT count(*) >= $1 FROM horsies_workflows", count))

    await until(lambda: started(2), "two workflows were started")
    one.kill()
    await until(lambda: started(4), "the other one starts them")
    code, output = await asyncio.to_thread(command, database, "run-now", "nightly", "--yes", "--json")
    (row,) = json.loads(output)["rows"]

    async def started_now() -> bool:
        return bool(
            await connection.fetchval("SELECT EXISTS (SELECT FROM horsies_workflows WHERE id = $1)", row["new_id"])
        )

    await until(started_now, "the ordered one was started")
    one.communicate()
    code, output = ended(two)
    assert code == 0
    assert re.search(rf"run now +schedule=nightly workflow={row['new_id']}\b", output)
    rows = await connection.fetch("SELECT id, sent_at, status FROM horsies_workflows ORDER BY sent_at")
    assert row["new_id"] in {found["id"] for found in rows}
    slots = [found["sent_at"] for found in rows if found["id"] != row["new_id"]]
    assert {after - before for before, after in itertools.pairwise(slots)} == {SECOND}
    recorded = await connection.fetchval("SELECT count(DISTINCT workflow_id) FROM horsies_schedule_runs")
    assert recorded == len(rows)


async def test_a_workflow_that_hangs_or_fails_while_it_is_built_delays_no_other_schedule_and_is_logged_rarely(
    database: str, connection: asyncpg.Connection, at_least: Callable[[int], Awaitable[None]]
) -> None:
    running = scheduler(database, TEST_FLOWS='{"hangs": "hang", "fails": "fail", "fine": "go"}')
    await at_least(8)
    code, output = ended(running)
    assert code == 0
    rows = [line for line in output.splitlines() if "schedule not sent" in line]
    assert [("fails" in line, "LookupError: no such day" in line) for line in rows] == [(True, True)] * len(rows)
    assert 1 <= len(rows) <= 3
    kwargs = await connection.fetch("SELECT DISTINCT task_kwargs FROM horsies_workflow_tasks")
    assert [row["task_kwargs"] for row in kwargs] == ['{"name":"fine"}']
    sql = "SELECT count(*) FROM horsies_schedule_state WHERE schedule_name = 'fails' AND next_run_at < now()"
    assert await connection.fetchval(sql) == 1
    await connection.execute("DELETE FROM horsies_tasks WHERE is_workflow_task")
    assert {gap for gaps in (await slots(connection)).values() for gap in gaps[1:]} == {1.0}


async def test_a_schedule_is_completed_by_its_name_and_run_by_its_command(
    database: str, connection: asyncpg.Connection
) -> None:
    await add_schedule(connection, "green", definition())
    await add_schedule(connection, "blue", definition())
    environ = {"_HORSIES_COMPLETE": "complete_bash", "COMP_WORDS": "horsies schedules pause gr", "COMP_CWORD": "3"}
    for url, names in ((database, "green"), ("postgresql://u@127.0.0.1:1/nowhere", "")):
        environ = {**os.environ, **environ, "HORSIES_DATABASE_URL": url}
        done = await asyncio.to_thread(run_command, [], env=environ, text=True)
        assert (done.stdout.strip(), done.stderr) == (names, "")
    code, output = await asyncio.to_thread(command, database, "run-now", "green", "--yes", "--json")
    (row,) = json.loads(output)["rows"]
    assert (code, row["result"]) == (0, "applied")
    assert await connection.fetchval("SELECT id FROM horsies_tasks") == row["new_id"]


async def test_what_cannot_be_scheduled_or_a_database_without_the_table_of_schedules_is_said_at_the_start(
    database: str, connection: asyncpg.Connection
) -> None:
    refused = scheduler(database, TEST_SCHEDULE='{"task_name": "tock"}')
    output = (await asyncio.to_thread(refused.communicate, timeout=PATIENCE_S))[0]
    assert refused.returncode == 1
    assert output.count("error[HRS-300]: schedule '") == 3
    assert "did you mean 'tick'?" in output
    await connection.execute("DROP TABLE horsies_schedules")
    refused = scheduler(database)
    output = (await asyncio.to_thread(refused.communicate, timeout=PATIENCE_S))[0]
    assert refused.returncode == 1
    assert output.count("error") == 1
    assert "horsies_schedules" in output
