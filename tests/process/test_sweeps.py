"""Workers that are really killed: others recover their tasks within the promised time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
import test_worker
from test_worker import PATIENCE_S, Table, Worker, options

table, start = test_worker.table, test_worker.start  # the fixtures

THRESHOLD_S, CHECK_S = 2, 1
RECOVERY = {
    "running_stale_threshold_ms": THRESHOLD_S * 1000,
    "claimed_stale_threshold_ms": THRESHOLD_S * 1000,
    "finalizing_stale_threshold_ms": THRESHOLD_S * 1000,
    "check_interval_ms": CHECK_S * 1000,
}
QUICK = {"TEST_RECOVERY": json.dumps(RECOVERY)}
# Beats and sweeps begin at any moment, and two processors are shared by all tests.
LATEST = timedelta(seconds=THRESHOLD_S + CHECK_S + 1)


async def last_sign(table: Table, task_id: str) -> object:
    return await table.connection.fetchval(
        "SELECT GREATEST(started_at, claimed_at, (SELECT max(sent_at) FROM horsies_heartbeats WHERE task_id = $1))"
        " FROM horsies_tasks WHERE id = $1",
        task_id,
    )


async def sweeper(table: Table, sweep: str = "recovery") -> asyncpg.Record | None:
    return await table.connection.fetchrow("SELECT * FROM horsies_sweep_state WHERE sweep = $1", sweep)


async def next_sweep(table: Table, after: asyncpg.Record) -> asyncpg.Record:
    """The state after the next sweep by any worker."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            row = await sweeper(table)
            if row is not None and row["ran_at"] > after["ran_at"]:
                return row
            await breathe(table)


async def first_sweep(table: Table) -> asyncpg.Record:
    async with asyncio.timeout(PATIENCE_S):
        while (row := await sweeper(table)) is None:
            await breathe(table)
    return row


async def breathe(table: Table) -> None:
    """A sweep that finds nothing sends no notification, so its row is polled, inside the database."""
    await table.connection.execute("SELECT pg_sleep(0.04)")


async def kill(worker: Worker) -> None:
    await asyncio.to_thread(worker.kill)


async def test_what_a_killed_worker_ran_fails_as_crashed_within_threshold_and_interval(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    victim = start(**QUICK)
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    other = start(**QUICK)
    await kill(victim)
    seen = await last_sign(table, task_id)
    row = await table.done(task_id)
    assert (row["status"], row["error_code"]) == ("FAILED", "WORKER_CRASHED")
    assert timedelta(seconds=THRESHOLD_S) <= row["failed_at"] - seen < LATEST
    data = json.loads(row["result"])["err"]["data"]
    assert (data["stale_threshold_ms"], data["worker_pid"]) == (2_000, row["worker_pid"])
    (attempt,) = await table.attempts(task_id)
    assert (attempt["outcome"], attempt["error_code"]) == ("FAILED", "WORKER_CRASHED")
    record = await asyncio.to_thread(other.wait_for, "swept", level="INFO")
    assert (record["failed"], record["retried"], record["requeued"], record["expired"]) == (1, 0, 0, 0)


async def test_what_a_killed_worker_ran_is_run_again_elsewhere_where_the_policy_says_so(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    victim = start(**QUICK)
    task_id = await table.send(
        "wait_for_file",
        str(tmp_path / "started"),
        str(tmp_path / "go"),
        max_retries=2,
        task_options=options(["WORKER_CRASHED"]),
    )
    first = await table.until(task_id, "RUNNING")
    start(**QUICK)
    await kill(victim)
    waiting = await table.until(task_id, "PENDING")
    again = await table.until(task_id, "RUNNING")
    assert again["claimed_by_worker_id"] != first["claimed_by_worker_id"]
    late = again["started_at"] - waiting["next_retry_at"]
    assert timedelta(0) <= late < timedelta(seconds=1)  # the sweep notifies the claimers; the poll comes later
    await asyncio.to_thread((tmp_path / "go").write_text, "second")
    assert json.loads((await table.done(task_id))["result"])["ok"] == "second"
    history = [(one["attempt"], one["outcome"], one["error_code"]) for one in await table.attempts(task_id)]
    assert history == [(1, "FAILED", "WORKER_CRASHED"), (2, "COMPLETED", None)]


async def test_what_a_killed_worker_had_claimed_is_run_at_once_after_the_sweep(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    victim = start(TEST_PREFETCH="8", **QUICK)
    running = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(running, "RUNNING")
    claimed = [await table.send("add", number, 1) for number in range(3)]
    for task_id in claimed:
        await table.until(task_id, "CLAIMED")
    start(**QUICK)
    await kill(victim)
    for task_id in claimed:
        seen = await last_sign(table, task_id)
        row = await table.done(task_id)
        assert row["status"] == "COMPLETED"
        assert row["completed_at"] - seen < LATEST + timedelta(seconds=1)
        assert [one["attempt"] for one in await table.attempts(task_id)] == [1]
    ended = await table.done(running)
    lost = await table.connection.fetchrow(
        "SELECT array_agg(DISTINCT one.id) FILTER (WHERE one.how = 'failed'),"
        "       array_agg(DISTINCT one.id ORDER BY one.id) FILTER (WHERE one.how = 'returned')"
        "  FROM horsies_worker_losses loss CROSS JOIN LATERAL (SELECT unnest(failed) AS id, 'failed' AS how"
        " UNION ALL SELECT unnest(returned), 'returned') one WHERE worker_id = $1",
        ended["claimed_by_worker_id"],
    )
    assert tuple(lost) == ([running], sorted(claimed))


async def test_a_long_healthy_run_is_not_swept_however_short_the_threshold(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    for _ in range(2):
        start(**QUICK)
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    state = await first_sweep(table)
    for _ in range(2 * THRESHOLD_S):
        state = await next_sweep(table, state)
    await asyncio.to_thread((tmp_path / "go").write_text, "slow but sure")
    assert (await table.done(task_id))["status"] == "COMPLETED"
    assert len(await table.attempts(task_id)) == 1


async def test_one_of_three_workers_sweeps_and_when_it_is_killed_another_does(
    table: Table, start: Callable[..., Worker]
) -> None:
    workers = {start(**QUICK).process.pid: None for _ in range(3)}
    assert len(workers) == 3
    state = await first_sweep(table)
    for _ in range(2):  # whichever worker it is by now
        state = await next_sweep(table, state)
        pid = int(state["worker_id"].rsplit("-", 2)[1])
        os.kill(pid, signal.SIGKILL)
        after = await next_sweep(table, state)
        gap = after["ran_at"] - state["ran_at"]
        assert timedelta(seconds=CHECK_S) <= gap < timedelta(seconds=CHECK_S + 0.5)
        assert after["worker_id"] != state["worker_id"]
        state = after


@pytest.mark.chaos  # a second of processor time
async def test_sweeps_come_once_an_interval_however_many_workers_there_are(
    table: Table, start: Callable[..., Worker]
) -> None:
    for _ in range(3):
        start(**QUICK)
    state = await first_sweep(table)
    for _ in range(4):
        after = await next_sweep(table, state)
        assert after["ran_at"] - state["ran_at"] >= timedelta(seconds=CHECK_S)
        state = after


async def test_only_the_worker_on_duty_holds_a_connection_for_it_and_only_meanwhile(
    table: Table, start: Callable[..., Worker], database: str
) -> None:
    """Blocked by a lock, both sweeps of two workers continue until they have been seen."""
    seldom = {"TEST_RECOVERY": json.dumps(RECOVERY | {"check_interval_ms": 60_000})}
    holder = await asyncpg.connect(database)
    async with holder.transaction():
        await holder.execute("LOCK TABLE horsies_workflows IN ACCESS EXCLUSIVE MODE")
        for _ in range(2):
            start(**seldom)
        await until_held_for_sweeps(table, ["horsies worker recovery", "horsies worker retention"])
    await holder.close()
    await until_held_for_sweeps(table, [])


async def until_held_for_sweeps(table: Table, names: list[str]) -> None:
    """Wait until the sweeps of all workers hold exactly these connections."""
    async with asyncio.timeout(PATIENCE_S):
        while names != await table.connection.fetchval(
            "SELECT COALESCE(array_agg(application_name ORDER BY application_name), '{}') FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name ~ '^horsies worker re(covery|tention)$'"
        ):
            await breathe(table)


async def test_tasks_that_came_too_late_expire_while_a_worker_is_busy(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    start(**QUICK)
    busy = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(busy, "RUNNING")
    late = await table.send("add", 1, 1, good_until=(await table.row(busy))["started_at"] + timedelta(seconds=1))
    row = await table.done(late)
    assert (row["status"], row["error_code"]) == ("EXPIRED", "TASK_EXPIRED")
    assert timedelta(0) <= row["failed_at"] - row["good_until"] < timedelta(seconds=CHECK_S + 1)
    await asyncio.to_thread((tmp_path / "go").write_text, "go")


async def test_workers_told_not_to_recover_leave_it_to_hands(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    off = {"auto_fail_stale_running": False, "auto_requeue_stale_claimed": False}
    environ = {"TEST_RECOVERY": json.dumps(RECOVERY | off)}
    os.mkfifo(tmp_path / "go")
    victim = start(**environ)
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    start(**environ)
    await kill(victim)
    state = await first_sweep(table)
    for _ in range(THRESHOLD_S + 2 * CHECK_S):
        state = await next_sweep(table, state)
    row = await table.row(task_id)
    assert (row["status"], row["finalizing_at"]) == ("RUNNING", None)


async def test_retention_runs_once_for_all_workers_and_not_at_each_start(
    table: Table, start: Callable[..., Worker]
) -> None:
    await table.connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT 't', 'w', 'runner', now() - interval '25 h' FROM generate_series(1, 7)"
    )
    first = start(**QUICK)
    record = await asyncio.to_thread(first.wait_for, "pruned")
    assert (record["heartbeats"], record["worker_states"], record["tasks"], record["workflows"]) == (7, 0, 0, 0)
    async with asyncio.timeout(PATIENCE_S):
        while (row := await sweeper(table, "retention")) is None or row["report"] is None:
            await breathe(table)
    report = json.loads(row["report"])
    assert (report["heartbeats"], report["refused"], report["complete"]) == (7, 0, True)
    await table.connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('t', 'w', 'runner', now() - interval '25 h')"
    )
    second = start(**QUICK)
    state = await first_sweep(table)
    for _ in range(2):
        state = await next_sweep(table, state)
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_heartbeats") == 1
    assert await sweeper(table, "retention") == row
    await table.connection.execute(
        "UPDATE horsies_sweep_state SET ran_at = ran_at - interval '1 h' WHERE sweep = 'retention'"
    )
    for worker in (first, second):
        await asyncio.to_thread(worker.stop)
    third = start(**QUICK)
    assert (await asyncio.to_thread(third.wait_for, "pruned"))["heartbeats"] == 1


async def test_a_stop_tells_other_workers_what_it_gave_back(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    """Without the notification they would find it at their next poll, up to 5 s later."""
    os.mkfifo(tmp_path / "go")
    stopping = start(TEST_PREFETCH="8")
    running = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(running, "RUNNING")
    waiting = [await table.send("add", 1, 1) for _ in range(3)]
    for task_id in waiting:
        await table.until(task_id, "CLAIMED")
    start()
    begin = await table.connection.fetchval("SELECT clock_timestamp()")
    stopping.process.send_signal(signal.SIGTERM)
    for task_id in waiting:
        row = await table.done(task_id)
        assert row["completed_at"] - begin < timedelta(seconds=2)
    await asyncio.to_thread((tmp_path / "go").write_text, "go")
    assert await asyncio.to_thread(stopping.end) == 0


async def test_a_backend_killed_in_the_middle_of_a_sweep_costs_neither_task_nor_sweeper(
    table: Table, start: Callable[..., Worker]
) -> None:
    execute, fetchval = table.connection.execute, table.connection.fetchval
    await execute(
        "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$"
        " LANGUAGE plpgsql; CREATE TRIGGER slow AFTER UPDATE ON horsies_tasks EXECUTE FUNCTION slow()"
    )
    await execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at)"
        " SELECT gen_random_uuid(), 'gone', 'default', 'RUNNING', 'dead', at, at"
        " FROM generate_series(1, 2000), LATERAL (SELECT now() - interval '1 h' AS at) time"
    )
    worker = start(**QUICK)
    running, left = "SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING'", 2_000
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(3):
            while (now := await fetchval(running)) == left:
                await breathe(table)
            assert now > 0
            left = now
            killed = await fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'horsies worker recovery'"
            )
            assert killed == 1
            left = await fetchval(running)
        while await fetchval(running):
            await breathe(table)
    assert await fetchval("SELECT count(*) FROM horsies_task_attempts WHERE attempt = 1") == 2_000
    assert await fetchval("SELECT count(*) FROM horsies_task_attempts") == 2_000
    assert worker.process.poll() is None
