"""Rows with numbers and times that no sender would choose cost no other task its outcome."""

from __future__ import annotations

from collections.abc import Callable

from test_worker import Table, Worker

LARGEST = 2_147_483_647


async def refused(table: Table) -> str:
    """A task whose end the database does not store."""
    await table.connection.execute("ALTER TABLE horsies_task_attempts ADD CONSTRAINT no_seventh CHECK (attempt <> 7)")
    return await table.send("add", 1, 2, retry_count=6)


async def test_an_outcome_that_the_database_refuses_holds_up_no_other(
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


async def test_the_worker_goes_on_when_the_task_of_a_refused_outcome_is_gone(
    table: Table, start: Callable[..., Worker]
) -> None:
    poison = await refused(table)
    worker = start()
    worker.wait_for("outcome rejected", id=poison)
    await table.connection.execute("DELETE FROM horsies_tasks WHERE id = $1", poison)
    assert (await table.done(await table.send("add", 2, 2)))["status"] == "COMPLETED"
    assert worker.stop() == 0


async def test_a_task_enqueued_before_all_time_runs_like_any_other(table: Table, start: Callable[..., Worker]) -> None:
    ids = [await table.send("add", number, 1) for number in range(3)]
    await table.connection.execute("UPDATE horsies_tasks SET enqueued_at = '-infinity' WHERE id = $1", ids[2])
    start(TEST_PREFETCH="8")
    rows = [await table.done(task_id) for task_id in ids]
    assert [row["status"] for row in rows] == ["COMPLETED"] * 3


async def test_a_task_that_was_retried_as_often_as_can_be_counted_is_ended(
    table: Table, start: Callable[..., Worker]
) -> None:
    """Each end stores an attempt, whose number is otherwise one more than those before."""
    counted = {"retry_count": LARGEST, "max_retries": LARGEST}
    ids = [await table.send("add", 1, 2, **counted), await table.send("refuse", **counted)]
    await table.connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT $1, number, 'FAILED', now(), now() FROM unnest($2::integer[]) AS number",
        ids[1],
        [1, LARGEST, LARGEST - 1],
    )
    start()
    assert [(await table.done(task_id))["status"] for task_id in ids] == ["COMPLETED", "FAILED"]
    assert [len(await table.attempts(task_id)) for task_id in ids] == [1, 4]
