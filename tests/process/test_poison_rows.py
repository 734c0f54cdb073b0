"""Rows with numbers and times that no sender would choose cost no other task its outcome."""

from __future__ import annotations

from collections.abc import Callable

from test_worker import Table, Worker, start, table

__all__ = ["start", "table"]

LARGEST = 2_147_483_647


async def test_an_outcome_that_the_database_refuses_holds_up_no_other(
    table: Table, start: Callable[..., Worker]
) -> None:
    overflowing = await table.send("add", 1, 2, retry_count=LARGEST)
    others = [await table.send("add", number, 0) for number in range(5)]
    worker = start(TEST_PREFETCH="8")
    for task_id in others:
        assert (await table.done(task_id))["status"] == "COMPLETED"
    record = worker.wait_for("outcome refused", id=overflowing)
    assert record["error"] == "NumericValueOutOfRangeError: integer out of range"
    assert (await table.row(overflowing))["status"] == "RUNNING"


async def test_a_refused_outcome_does_not_keep_the_worker_from_ending_and_is_told_as_lost(
    table: Table, start: Callable[..., Worker]
) -> None:
    overflowing = await table.send("add", 1, 2, retry_count=LARGEST)
    worker = start()
    worker.wait_for("outcome refused", id=overflowing)
    assert worker.stop() == 1
    records = worker.all_records()
    assert [record["count"] for record in records if record["event"] == "outcomes lost"] == [1]
    assert [record["id"] for record in records if record["event"] == "outcome lost"] == [overflowing]


async def test_the_worker_goes_on_when_the_task_of_a_refused_outcome_is_gone(
    table: Table, start: Callable[..., Worker]
) -> None:
    overflowing = await table.send("add", 1, 2, retry_count=LARGEST)
    worker = start()
    worker.wait_for("outcome refused", id=overflowing)
    await table.connection.execute("DELETE FROM horsies_tasks WHERE id = $1", overflowing)
    assert (await table.done(await table.send("add", 2, 2)))["status"] == "COMPLETED"
    assert worker.stop() == 0


async def test_a_task_enqueued_before_all_time_runs_like_any_other(table: Table, start: Callable[..., Worker]) -> None:
    ids = [await table.send("add", number, 1) for number in range(3)]
    await table.connection.execute("UPDATE horsies_tasks SET enqueued_at = '-infinity' WHERE id = $1", ids[2])
    start(TEST_PREFETCH="8")
    rows = [await table.done(task_id) for task_id in ids]
    assert [row["status"] for row in rows] == ["COMPLETED"] * 3
