"""Tasks whose name a worker does not know, and rows with numbers and times that no sender would choose."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from forked_commands import run_command
from test_worker import HERE, PATIENCE_S, Table, Worker, options, result_of

FAIL = ("--unknown-tasks", "fail")


async def test_an_unknown_task_is_failed_with_its_name_the_app_and_the_way_out(
    table: Table, start: Callable[..., Worker]
) -> None:
    """Known ones among them run, the policy of each is followed, and one that comes later is failed at once."""
    before = await table.send("shop.gone")
    retried = await table.send("shop.gone", max_retries=1, task_options=options(["WORKER_RESOLUTION_ERROR"]))
    ids = [await table.send("shop.gone" if number % 4 else "add", number, 0) for number in range(120)]
    worker = start("--processes", "2", TEST_UNKNOWN_TASKS="fail")
    row = await table.done(before)
    assert (row["status"], row["error_code"], row["retry_count"]) == ("FAILED", "WORKER_RESOLUTION_ERROR", 0)
    error = result_of(row)["err"]
    assert error["error_code"] == {"__builtin_task_code__": "WORKER_RESOLUTION_ERROR"}
    assert error["data"] == {"task_name": "shop.gone", "app": "worker_app:app"}
    for words in ("'shop.gone'", "worker_app:app", "import its module", 'unknown_tasks="leave"'):
        assert words in error["message"]
    (attempt,) = await table.attempts(before)
    assert (attempt["attempt"], attempt["outcome"], attempt["error_code"]) == (1, "FAILED", "WORKER_RESOLUTION_ERROR")
    assert attempt["error_message"] == error["message"]
    assert (row["worker_pid"], row["claimed_by_worker_id"]) == (worker.process.pid, attempt["worker_id"])
    record = await asyncio.to_thread(worker.wait_for, "failed", id=before)
    assert (record["task"], record["code"]) == ("shop.gone", "WORKER_RESOLUTION_ERROR")
    rows = [await table.done(task_id) for task_id in ids]
    assert {row["error_code"] for row in rows if row["task_name"] == "shop.gone"} == {"WORKER_RESOLUTION_ERROR"}
    assert [result_of(row)["ok"] for row in rows if row["task_name"] == "add"] == list(range(0, 120, 4))
    await table.done(retried)
    outcomes = [(attempt["attempt"], attempt["will_retry"]) for attempt in await table.attempts(retried)]
    assert outcomes == [(1, True), (2, False)]
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == 123
    # Each waits for the one before: by polls alone, every 5 s, six would take longer than the patience.
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(6):
            row = await table.done(await table.send("shop.gone"))
            assert row["error_code"] == "WORKER_RESOLUTION_ERROR"


async def test_what_is_not_due_not_of_its_queues_or_paused_is_not_failed(
    table: Table, start: Callable[..., Worker]
) -> None:
    await table.connection.execute("INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('reports', now())")
    soon = datetime.now(UTC) + timedelta(hours=1)
    left = [
        await table.send("shop.gone", queue_name="mail", enqueued_at=soon),
        await table.send("shop.gone", queue_name="elsewhere"),
        await table.send("shop.gone", queue_name="reports"),
        await table.send("shop.gone", queue_name="mail", good_until=datetime.now(UTC)),
    ]
    start(*FAIL, TEST_QUEUES="mail:1:2,reports:50:1")
    row = await table.done(await table.send("shop.gone", queue_name="mail"))
    assert row["error_code"] == "WORKER_RESOLUTION_ERROR"
    rows = [await table.row(task_id) for task_id in left]
    assert [row["error_code"] for row in rows if row["status"] == "FAILED"] == []
    assert {row["status"] for row in rows[:3]} == {"PENDING"}


async def test_the_option_says_otherwise_than_the_application(table: Table, start: Callable[..., Worker]) -> None:
    worker = start("--unknown-tasks", "leave", TEST_UNKNOWN_TASKS="fail")
    task_id = await table.send("shop.gone")
    record = await asyncio.to_thread(worker.wait_for, "unknown task", task="shop.gone")
    assert record["waiting"] == 1
    row = await table.row(task_id)
    assert (row["status"], row["claimed_at"]) == ("PENDING", None)


async def test_a_worker_told_to_stop_gives_back_what_it_would_have_failed(
    table: Table, start: Callable[..., Worker]
) -> None:
    """At any moment of the signal: failed with its history, or waiting as before."""
    ids = [await table.send("shop.gone") for _ in range(400)]
    worker = start(*FAIL)
    await table.done(ids[0])
    assert await asyncio.to_thread(worker.stop, signal.SIGTERM) == 0
    rows = [await table.row(task_id) for task_id in ids]
    assert {(row["status"], row["error_code"], row["claimed_by_worker_id"] is None) for row in rows} <= {
        ("PENDING", None, True),
        ("FAILED", "WORKER_RESOLUTION_ERROR", False),
    }
    failed = sum(row["status"] == "FAILED" for row in rows)
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == failed


def test_a_word_that_is_neither_is_refused(database: str) -> None:
    done = run_command(["worker", "worker_app:app", "--unknown-tasks", "ignore"], cwd=HERE, text=True)
    assert done.returncode == 2
    assert "leave" in done.stderr
    assert "ignore" in done.stderr


LARGEST = 2_147_483_647


async def refused(table: Table) -> str:
    """A task whose end the database does not store."""
    await table.connection.execute("ALTER TABLE horsies_task_attempts ADD CONSTRAINT no_seventh CHECK (attempt <> 7)")
    return await table.send("add", 1, 2, retry_count=6)


async def test_an_outcome_that_the_database_refuses_holds_up_no_other_and_is_over_when_its_task_is_gone(
    table: Table, start: Callable[..., Worker]
) -> None:
    poison = await refused(table)
    others = [await table.send("add", number, 0) for number in range(5)]
    worker = start(TEST_PREFETCH="8")
    for task_id in others:
        assert (await table.done(task_id))["status"] == "COMPLETED"
    record = worker.wait_for("outcome rejected", id=poison)
    assert record["error"].startswith("CheckViolationError: ")
    assert (await table.row(poison))["status"] == "RUNNING"
    await table.connection.execute("DELETE FROM horsies_tasks WHERE id = $1", poison)
    assert (await table.done(await table.send("add", 2, 2)))["status"] == "COMPLETED"
    assert worker.stop() == 0


async def test_a_refused_outcome_does_not_keep_the_worker_from_ending_and_is_told_as_lost(
    table: Table, start: Callable[..., Worker]
) -> None:
    poison = await refused(table)
    worker = start()
    worker.wait_for("outcome rejected", id=poison)
    assert worker.stop() == 1
    records = worker.all_records()
    assert [record["count"] for record in records if record["event"] == "outcomes lost"] == [1]
    assert [record["id"] for record in records if record["event"] == "outcome lost"] == [poison]


async def test_a_task_enqueued_before_all_time_runs_and_one_retried_as_often_as_can_be_counted_is_ended(
    table: Table, start: Callable[..., Worker]
) -> None:
    """Each end stores an attempt, whose number is otherwise one more than those before."""
    first = [await table.send("add", number, 1) for number in range(3)]
    await table.connection.execute("UPDATE horsies_tasks SET enqueued_at = '-infinity' WHERE id = $1", first[2])
    counted = {"retry_count": LARGEST, "max_retries": LARGEST}
    ids = [await table.send("add", 1, 2, **counted), await table.send("refuse", **counted)]
    await table.connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT $1, number, 'FAILED', now(), now() FROM unnest($2::integer[]) AS number",
        ids[1],
        [1, LARGEST, LARGEST - 1],
    )
    start(TEST_PREFETCH="8")
    assert [(await table.done(task_id))["status"] for task_id in first] == ["COMPLETED"] * 3
    assert [(await table.done(task_id))["status"] for task_id in ids] == ["COMPLETED", "FAILED"]
    assert [len(await table.attempts(task_id)) for task_id in ids] == [1, 4]
