"""Every event of a worker is one JSON object with the documented fields."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from blackhole_proxy import BlackholeProxy
from test_worker import PATIENCE_S, Served, Table, Worker, options

TASK = {"at", "level", "event", "task", "id"}


async def told(worker: Worker, event: str, **fields: Any) -> dict[str, Any]:
    """The next record of this event, without the fields that all events have."""
    record = await asyncio.to_thread(worker.wait_for, event, **fields)
    assert isinstance(record.pop("at"), float)
    return record


async def blocked(worker: Worker, table: Table, tmp_path: Path, name: str = "wait_for_file") -> str:
    """A task that runs until the test writes to `go`; also the worker, not only the table, knows that it runs."""
    os.mkfifo(tmp_path / "go")
    task_id = await table.send(name, str(tmp_path / "started"), str(tmp_path / "go"))
    await asyncio.to_thread(worker.wait_for, "started", id=task_id)
    return task_id


async def let_go(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "go").write_text, "went")


async def test_a_task_that_goes_well_is_started_and_finished(served: Served) -> None:
    task_id = await served.send("pause", 0.1)
    row = await served.done(task_id)
    started = {"level": "DEBUG", "event": "started", "task": "pause", "id": task_id, "child": row["worker_pid"]}
    assert await told(served.worker, "started", id=task_id) == started
    finished = await told(served.worker, "finished", id=task_id)
    assert finished.pop("took") >= 0.1
    assert finished == {"level": "INFO", "event": "finished", "task": "pause", "id": task_id}


async def test_a_failure_tells_its_code_and_message(served: Served) -> None:
    task_id = await served.send("refuse")
    assert await told(served.worker, "failed", id=task_id) == {
        "level": "WARNING",
        "event": "failed",
        "task": "refuse",
        "id": task_id,
        "code": "CARD_DECLINED",
        "message": "no",
    }


async def test_a_retry_tells_when_and_after_how_many(served: Served, tmp_path: Path) -> None:
    task_id = await served.send("flaky", str(tmp_path / "runs"), 9, max_retries=2, task_options=options(["TRY_AGAIN"]))
    for attempt in (1, 2):
        assert await told(served.worker, "retry", id=task_id) == {
            "level": "WARNING",
            "event": "retry",
            "task": "flaky",
            "id": task_id,
            "code": "TRY_AGAIN",
            "due_in": 1.0,
            "failed_attempts": attempt,
        }
    assert (await told(served.worker, "failed", id=task_id))["code"] == "TRY_AGAIN"


async def test_a_crash_is_told_of_the_child_and_of_the_task(served: Served) -> None:
    (child,) = served.worker.children()
    task_id = await served.send("leave", 7)
    assert await told(served.worker, "crashed") == {
        "level": "ERROR",
        "event": "crashed",
        "child": 1,
        "pid": child.pid,
        "how": "exit code 7",
        "tasks": 1,
    }
    failed = await told(served.worker, "failed", id=task_id)
    assert (failed["id"], failed["task"], failed["code"]) == (task_id, "leave", "WORKER_CRASHED")
    assert "exit code 7" in failed["message"]


async def test_a_claim_that_another_worker_has_by_now_is_lost(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start()
    task_id = await blocked(worker, table, tmp_path)
    await table.connection.execute("UPDATE horsies_tasks SET claimed_by_worker_id = 'other' WHERE id = $1", task_id)
    await let_go(tmp_path)
    lost = await told(worker, "claim lost")
    assert lost.pop("doing") in ("beat", "finish")
    assert lost == {"level": "WARNING", "event": "claim lost", "task": "wait_for_file", "id": task_id}
    assert (await table.row(task_id))["status"] == "RUNNING"


async def test_what_a_shutdown_interrupts_is_told_with_what_became_of_it(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    for name, now in (("wait_for_file", "FAILED"), ("wait_again", "PENDING")):
        place = tmp_path / name
        place.mkdir()
        worker = start("--shutdown-grace", "0.2")
        task_id = await blocked(worker, table, place, name)
        assert await asyncio.to_thread(worker.stop) == 0
        expected = {"level": "WARNING", "event": "interrupted", "task": name, "id": task_id, "now": now}
        assert await told(worker, "interrupted") == expected
        row, (attempt,) = await table.row(task_id), await table.attempts(task_id)
        assert (row["status"], row["max_retries"] - row["retry_count"]) == (now, 0), "its budget is as it was"
        assert (attempt["error_code"], row["error_code"]) == (
            "TASK_INTERRUPTED",
            attempt["error_code"] if now == "FAILED" else None,
        )
        await table.connection.execute("DELETE FROM horsies_tasks")


async def test_a_task_whose_deadline_passes_while_it_waits_for_a_child_is_expired(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start(TEST_PREFETCH="8")
    running = await blocked(worker, table, tmp_path)
    late = await table.send("add", 1, 2, good_until=datetime.now(UTC) + timedelta(seconds=1))
    row = await table.until(late, "CLAIMED")
    await table.connection.execute("SELECT pg_sleep_until($1)", row["good_until"])
    await let_go(tmp_path)
    assert await told(worker, "expired") == {"level": "WARNING", "event": "expired", "task": "add", "id": late}
    assert (await table.done(running))["status"] == "COMPLETED"
    assert (await table.row(late))["error_code"] == "TASK_EXPIRED"


async def test_each_line_of_a_busy_worker_is_an_object_that_names_its_event(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start("--processes", "2")
    retried = options(["TRY_AGAIN"])
    ids = [
        await table.send("add", 1, 2),
        await table.send("add", 1),
        await table.send("say", 'a "quoted" line \\ with \x1b[31mcolours, \u2028 and \0'),
        await table.send("flaky", str(tmp_path / "runs"), 1, max_retries=2, task_options=retried),
        await table.send("leave", 3),
        await table.send("hang"),
        await table.send("together", 0.1),
    ]
    await table.send("somebody_elses")
    for task_id in ids:
        await table.done(task_id)
    assert await asyncio.to_thread(worker.stop) == 0
    worker.kill()
    records = worker.all_records()
    assert [record for record in records if record["event"] == "?"] == []
    assert {record["event"] for record in records} >= {
        *("started", "finished", "failed", "retry", "stdout", "crashed", "unknown task", "stopping")
    }
    for record in records:
        assert isinstance(record["at"], float)
        assert record["level"] in ("DEBUG", "INFO", "WARNING", "ERROR")
        if record["event"] in ("started", "finished", "failed", "retry"):
            assert record.keys() >= TASK
            assert record["id"] in ids
    assert {record["id"] for record in records if record["event"] in ("finished", "failed")} == set(ids)


CLAIMED_AT_ONCE = """
CREATE TABLE seen (claimed integer);
CREATE FUNCTION look() RETURNS trigger AS $$
BEGIN
    INSERT INTO seen SELECT count(*) FROM horsies_tasks WHERE status = 'CLAIMED';
    RETURN NULL;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER look AFTER UPDATE ON horsies_tasks FOR EACH STATEMENT EXECUTE FUNCTION look();
"""


async def test_no_more_than_max_claim_per_worker_are_ever_claimed(table: Table, start: Callable[..., Worker]) -> None:
    """Counted by triggers after each statement that changes the table, in the transaction of that statement."""
    await table.connection.execute(CLAIMED_AT_ONCE)
    ids = [await table.send("pause" if number % 10 == 0 else "nothing") for number in range(100)]
    ids += [await table.send("nothing_async") for _ in range(100)]
    ids += [await table.send("shop.gone") for _ in range(30)]
    await table.connection.execute("UPDATE horsies_tasks SET args = '[0.01]' WHERE task_name = 'pause'")
    start("--processes", "2", "--max-claim-per-worker", "3", "--unknown-tasks", "fail", TEST_PREFETCH="32")
    for task_id in ids:
        await table.done(task_id)
    assert await table.connection.fetchval("SELECT max(claimed) FROM seen") == 3


async def test_a_limit_of_claims_keeps_no_child_idle(table: Table, start: Callable[..., Worker]) -> None:
    ids = [await table.send("pause", 600) for _ in range(4)]
    start("--processes", "4", "--max-claim-per-worker", "1", TEST_CLUSTER_CAP="4")
    for task_id in ids:
        await table.until(task_id, "RUNNING")


async def test_an_outcome_whose_reply_was_lost_is_finished_and_not_a_lost_claim(
    database: str, table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    async with BlackholeProxy(database) as proxy:
        worker = await asyncio.to_thread(start, HORSIES_DATABASE_URL=proxy.url)  # the proxy runs in this loop
        task_id = await blocked(worker, table, tmp_path)
        proxy.swallow_replies()
        await let_go(tmp_path)
        await table.done(task_id)
        proxy.cut()
        assert (await told(worker, "finished"))["id"] == task_id
        assert await asyncio.to_thread(worker.stop) == 0
        worker.kill()
        assert [record for record in worker.all_records() if record["event"] == "claim lost"] == []
        assert len(await table.attempts(task_id)) == 1


SLOW_START = """
CREATE FUNCTION hold() RETURNS trigger AS $$
    BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END
$$ LANGUAGE plpgsql SET lock_timeout = 0;
CREATE TRIGGER hold BEFORE UPDATE ON horsies_tasks FOR EACH ROW
    WHEN (NEW.status = 'RUNNING' AND OLD.status <> 'RUNNING') EXECUTE FUNCTION hold();
SELECT pg_advisory_lock(7);
"""
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"


async def test_a_start_whose_reply_was_lost_is_given_back_at_the_shutdown(
    database: str, table: Table, start: Callable[..., Worker]
) -> None:
    """The connection breaks while the statement waits in the server, which then executes it without a client."""
    async with BlackholeProxy(database) as proxy:
        worker = await asyncio.to_thread(start, HORSIES_DATABASE_URL=proxy.url)  # the proxy runs in this loop
        await table.connection.execute(SLOW_START)
        task_id = await table.send("add", 1, 2, max_retries=2)
        async with asyncio.timeout(PATIENCE_S):
            while not await table.connection.fetchval(WAITS):  # noqa: ASYNC110 - the server has no event for this
                await asyncio.sleep(0.01)
        proxy.cut()
        await told(worker, "loop recovered", loop="claim")  # it has looked for the lost task, too early
        await table.connection.execute("SELECT pg_advisory_unlock(7)")
        await table.until(task_id, "RUNNING")
        assert await asyncio.to_thread(worker.stop) == 0
    row = await table.row(task_id)
    assert (row["status"], row["claimed_by_worker_id"], row["started_at"], row["worker_pid"]) == (
        "PENDING",
        None,
        None,
        None,
    )
    assert (row["retry_count"], row["max_retries"]) == (0, 2)
    assert await table.attempts(task_id) == []


async def test_prefetched_tasks_that_have_not_begun_wait_again_without_a_trace(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    """RUNNING in the table, but waiting behind another one in their child when the grace period is over."""
    warm = [await table.send("nothing") for _ in range(200)]
    worker = start("--shutdown-grace", "0.2", TEST_PREFETCH="8")
    for task_id in warm:
        await table.done(task_id)  # short ones, so that the child is given several at once
    begun = await blocked(worker, table, tmp_path)
    behind = [await table.send("add", 1, 1, max_retries=2) for _ in range(4)]
    rows = [await table.until(task_id, "RUNNING") for task_id in behind]
    assert len({row["worker_pid"] for row in rows}) == 1
    assert await asyncio.to_thread(worker.stop, signal.SIGTERM) == 0
    assert (await table.row(begun))["error_code"] == "TASK_INTERRUPTED"
    for task_id in behind:
        row = await table.row(task_id)
        assert (row["status"], row["claimed_by_worker_id"], row["started_at"]) == ("PENDING", None, None)
        assert (row["retry_count"], row["max_retries"], await table.attempts(task_id)) == (0, 2, [])
    start()
    for task_id in behind:
        assert (await table.done(task_id))["retry_count"] == 0
