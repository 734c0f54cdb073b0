"""Workers that are really killed: others recover their tasks after the threshold."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
from test_worker import PATIENCE_S, Table, Worker

THRESHOLD_S, CHECK_S = 2, 1
RECOVERY = {
    "running_stale_threshold_ms": THRESHOLD_S * 1000,
    "claimed_stale_threshold_ms": THRESHOLD_S * 1000,
    "finalizing_stale_threshold_ms": THRESHOLD_S * 1000,
    "check_interval_ms": CHECK_S * 1000,
}
QUICK = {"TEST_RECOVERY": json.dumps(RECOVERY)}


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


async def test_what_a_killed_worker_ran_fails_as_crashed_after_the_threshold(
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
    assert row["failed_at"] - seen >= timedelta(seconds=THRESHOLD_S)
    data = json.loads(row["result"])["err"]["data"]
    assert (data["stale_threshold_ms"], data["worker_pid"]) == (2_000, row["worker_pid"])
    (attempt,) = await table.attempts(task_id)
    assert (attempt["outcome"], attempt["error_code"]) == ("FAILED", "WORKER_CRASHED")
    record = await asyncio.to_thread(other.wait_for, "swept", level="INFO")
    assert (record["failed"], record["retried"], record["requeued"], record["expired"]) == (1, 0, 0, 0)


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
        assert after["ran_at"] - state["ran_at"] >= timedelta(seconds=CHECK_S)
        assert after["worker_id"] != state["worker_id"]
        state = after


async def test_a_worker_prunes_and_reports_it(table: Table, start: Callable[..., Worker]) -> None:
    await table.connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT 't', 'w', 'runner', now() - interval '25 h' FROM generate_series(1, 7)"
    )
    worker = start(**QUICK)
    record = await asyncio.to_thread(worker.wait_for, "pruned")
    assert (record["heartbeats"], record["worker_states"], record["tasks"], record["workflows"]) == (7, 0, 0, 0)
    async with asyncio.timeout(PATIENCE_S):
        while (row := await sweeper(table, "retention")) is None or row["report"] is None:
            await breathe(table)
    report = json.loads(row["report"])
    assert (report["heartbeats"], report["refused"], report["complete"]) == (7, 0, True)
