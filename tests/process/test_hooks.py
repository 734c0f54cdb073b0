"""What hooks of an application receive from real workers, and that none of them can hold a worker up."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_worker import Table, Worker, options

QUICK = {"check_interval_ms": 1_000, "running_stale_threshold_ms": 2_000}


@pytest.fixture
def told_to(tmp_path: Path) -> Path:
    return tmp_path / "told"


@pytest.fixture
def start(start: Callable[..., Worker], told_to: Path) -> Callable[..., Worker]:
    return partial(start, app="hook_app:app", TEST_TOLD=str(told_to))


async def told(file: Path, event: str, **fields: Any) -> dict[str, Any]:
    """The one record of this event, as soon as it is there."""
    async with asyncio.timeout(20):
        while not (found := records(file, event, **fields)):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.02)
    (record,) = found
    return record


def records(file: Path, event: str, **fields: Any) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if line["event"] == event and fields.items() <= line.items()]


async def test_a_failure_and_a_retry_are_told_once_and_a_hook_that_raises_is_logged_with_its_traceback(
    table: Table, start: Callable[..., Worker], told_to: Path, tmp_path: Path
) -> None:
    worker = start()
    record = await asyncio.to_thread(worker.wait_for, "hook failed", hook="broken")
    assert (record["level"], record["of"]) == ("ERROR", "WorkerStarted")
    assert record["error"] == f"SystemExit: no use for {worker.process.pid}"
    assert "hook_app.py" in record["traceback"]
    refused = await table.send("refuse")
    flaky = await table.send("flaky", str(tmp_path / "runs"), 1, max_retries=2, task_options=options(["TRY_AGAIN"]))
    died = await table.send("leave", 3)
    for task_id in (refused, flaky, died):
        await table.done(task_id)
    record = await told(told_to, "TaskFailed", task_id=refused)
    assert record.pop("worker_id").split("-")[-2] == str(worker.process.pid)
    assert record == {
        "event": "TaskFailed",
        "pid_of_hook": worker.process.pid,
        "thread": "horsies hook failed",
        "task_id": refused,
        "task_name": "refuse",
        "queue_name": "default",
        "error_code": "CARD_DECLINED",
        "error_message": "no",
        "attempt": 1,
        "found_by_sweep": False,
    }
    record = await told(told_to, "TaskRetried", task_id=flaky)
    retry_at = (await table.row(flaky))["next_retry_at"]
    assert datetime.fromisoformat(record["retry_at"]) == retry_at
    assert (record["attempt"], record["error_code"]) == (1, "TRY_AGAIN")
    assert (await told(told_to, "TaskFailed", task_id=died))["error_code"] == "WORKER_CRASHED"
    assert await asyncio.to_thread(worker.stop) == 0
    assert len(records(told_to, "TaskFailed")) == 2
    assert len(records(told_to, "TaskRetried")) == 1
    (began,) = records(told_to, "WorkerStarted")
    assert (began["pid"], began["queues"]) == (worker.process.pid, ["default"])
    (ended,) = records(told_to, "WorkerStopped")
    assert (ended["worker_id"], ended["lost"]) == (began["worker_id"], [])


async def test_hooks_that_hang_hold_up_neither_tasks_nor_other_hooks_nor_the_stop(
    table: Table, start: Callable[..., Worker], told_to: Path
) -> None:
    worker = start(TEST_HANGING="1")
    for _ in range(3):
        refused = await table.send("refuse")
        await table.done(refused)
        await told(told_to, "TaskFailed", task_id=refused)
    assert (await table.done(await table.send("add", 1, 2)))["status"] == "COMPLETED"
    assert await asyncio.to_thread(worker.stop) == 0
    left = {one["hook"]: one["events"] for one in worker.all_records() if one["event"] == "hook not awaited"}
    assert left == {"hangs": 3, "blocks_its_loop": 3, "never_ends": 1}


@pytest.mark.chaos
async def test_the_worker_whose_sweep_finds_a_crash_tells_it(
    table: Table, start: Callable[..., Worker], told_to: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    environ = {"TEST_RECOVERY": json.dumps(QUICK), "TEST_BEAT_MS": "1000"}
    victim = start(**environ)
    lost = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(lost, "RUNNING")
    rescuer = start(**environ)
    victim.process.kill()
    record = await told(told_to, "TaskFailed", task_id=lost)
    assert record["pid_of_hook"] == rescuer.process.pid
    assert (record["task_name"], record["error_code"], record["attempt"]) == ("wait_for_file", "WORKER_CRASHED", 1)
    assert record["found_by_sweep"]
    assert "its worker crashed" in record["error_message"]
    assert (await table.row(lost))["status"] == "FAILED"
