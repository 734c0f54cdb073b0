"""The progress of runs as people see it: beside the right run, with a rate only as long as it means something."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from view_steps import cost, every_row, insert, reader

from horsies.display.formatting import lasting
from horsies.views import Progress, TaskDetail, WorkflowStory, task_detail, workflow_story
from horsies.views.progress import part_done, progress_of

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
RUNNING = {"status": "'RUNNING'", "claimed_by_worker_id": "'w'", "claimed_at": "now()"}


def progress(
    done: float, total: float | None, unit: str | None = "rows", *, seconds_ago: float = 0, **pace: Any
) -> Progress:
    return Progress(done, total, unit, pace.get("rate"), pace.get("gap_s"), NOW - timedelta(seconds=seconds_ago))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (progress(3_400, 10_000, rate=120.0, gap_s=1), "34 % 3,400/10,000 rows 120/s 55s left"),
        (progress(3_400, 10_000, rate=120.0, gap_s=1, seconds_ago=5), "34 % 3,400/10,000 rows 120/s 50s left"),
        (progress(3_400, 10_000, rate=120.4, gap_s=1, seconds_ago=240), "34 % 3,400/10,000 rows 4m00s ago"),
        (progress(4, 12, "files", rate=1 / 120, gap_s=120, seconds_ago=240), "33 % 4/12 files 30/h 12m00s left"),
        (progress(4, 12, "files", rate=1 / 120, gap_s=120, seconds_ago=481), "33 % 4/12 files 8m01s ago"),
        (progress(12_345_678, None, "bytes", rate=2_500_000.0), "12.3M bytes 2,500,000/s"),
        (progress(7, None, None, seconds_ago=11), "7 11s ago"),
        (progress(9_999, 10_000, rate=0.1, gap_s=1), "99 % 9,999/10,000 rows 6/min 10s left"),
        (progress(12_000, 10_000, rate=1.25, gap_s=1, seconds_ago=99), "100 % 12,000/10,000 rows"),
        (progress(0.25, 1, None, rate=0.05, gap_s=1), "25 % 0.2/1 3/min 15s left"),
        (progress(0, 1e15, rate=1e-9, gap_s=1), "0 % 0/1,000.0T rows 0/h"),
        (progress(0, 10), "0 % 0/10 rows"),
    ],
)
def test_the_words_of_a_progress(report: Progress, words: str) -> None:
    assert str(report.words(NOW, lasting)) == words


async def report_of(conn: asyncpg.Connection, task_id: str, done: float, started_at: str = "started_at") -> None:
    await conn.execute(
        f"INSERT INTO horsies_progress SELECT id, {started_at}, $2, 10, 'rows', 2, 1, now() FROM horsies_tasks"
        " WHERE id = $1",
        task_id,
        done,
    )


async def test_a_list_shows_that_of_the_present_run_only(connection: asyncpg.Connection) -> None:
    for task_id in "abc":
        await insert(connection, task_id, **RUNNING, started_at="NULL" if task_id == "c" else "now()")
        await report_of(connection, task_id, 3, "COALESCE(started_at, claimed_at)")
    await report_of(connection, "b", 9, "started_at - interval '1 h'")
    await insert(connection, "d", **RUNNING, started_at="now()")
    await report_of(connection, "d", 9, "started_at - interval '1 h'")
    rows = {row.id: row.progress and row.progress.done for row in await every_row(connection)}
    assert rows == {"a": 3, "b": 3, "c": 3, "d": None}
    await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now()")
    assert not any(row.progress for row in await every_row(connection)), "the bar is of what runs"


async def test_a_story_has_that_of_each_run_and_the_usual_duration(connection: asyncpg.Connection) -> None:
    ended = {
        "status": "'COMPLETED'",
        "started_at": "now() - interval '80 s'",
        "completed_at": "now() - interval '10 s'",
    }
    await insert(connection, "before", **ended)
    await insert(connection, "a", **RUNNING, started_at="now()", retry_count="1")
    await connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at)"
        " SELECT id, 1, 'FAILED', true, started_at - interval '1 h', started_at - interval '59 min'"
        "  FROM horsies_tasks WHERE id = 'a'"
    )
    await report_of(connection, "a", 4, "started_at - interval '1 h'")
    await report_of(connection, "a", 1)
    story = await task_detail(connection, "a")
    assert isinstance(story, TaskDetail)
    assert story.row.progress is not None
    assert story.row.progress.done == 1
    assert [attempt.progress and attempt.progress.done for attempt in story.attempts] == [4]
    assert story.usual is not None
    assert (story.usual.p50_s, story.usual.runs) == (70, 1)
    over = await task_detail(connection, "before")
    assert isinstance(over, TaskDetail)
    assert over.usual is None


async def test_a_running_node_counts_by_its_progress(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status, started_at) VALUES ('f', 'flow', 'RUNNING', now())"
    )
    for index, (task_id, status) in enumerate(
        (("a", "COMPLETED"), ("b", "RUNNING"), ("c", "RUNNING"), ("d", "PENDING"))
    ):
        await insert(connection, task_id, **{**RUNNING, "status": f"'{status}'"}, started_at="now()")
        await connection.execute(
            "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
            " VALUES ($1, 'f', $2, 'demo.add', $3, $1)",
            task_id,
            index,
            status,
        )
        await report_of(connection, task_id, 5)
    await connection.execute("UPDATE horsies_progress SET done = 12 WHERE task_id = 'c'")
    story = await workflow_story(connection, "f")
    assert isinstance(story, WorkflowStory)
    assert [node.progress and node.progress.done for node in story.nodes] == [None, 5, 12, None]
    assert story.row.part_done == 1.5
    assert story.row.share == 2.5 / 4
    assert await part_done(connection, ["another"]) == {}


async def test_without_the_table_there_is_none_until_it_is_made(
    empty_database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("ALTER TABLE horsies_progress RENAME TO away")
    other = await asyncpg.connect(empty_database)
    assert await progress_of(other, [("a", NOW)]) == {}
    await other.close()
    await insert(connection, "a", **RUNNING, started_at="now()")
    (row,) = await every_row(connection)
    assert row.progress is None
    await connection.execute("ALTER TABLE away RENAME TO horsies_progress")
    await report_of(connection, "a", 3)
    (row,) = await every_row(connection)
    assert row.progress is not None


FILL = """
SET session_replication_role = replica;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at)
SELECT n::text, 'a', 'default', 'RUNNING', 'w', now(), now() FROM generate_series(1, 20000) n;
INSERT INTO horsies_progress SELECT id, started_at - back * interval '1 h', 5, 10, 'rows', 2, 1, now()
  FROM horsies_tasks CROSS JOIN generate_series(0, 2) back;
INSERT INTO horsies_workflows (id, name, status) SELECT n::text, 'flow', 'RUNNING' FROM generate_series(1, 2000) n;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
SELECT id, (id::int % 2000 + 1)::text, id::int / 2000, 'a', 'RUNNING', id FROM horsies_tasks;
SET session_replication_role = origin;
VACUUM ANALYZE;
"""


async def test_only_the_rows_of_the_page_are_read(database: str, connection: asyncpg.Connection) -> None:
    for part in FILL.strip().split(";\n"):
        await connection.execute(part)
    conn = await reader(database)
    starts = await conn.fetch("SELECT id, started_at FROM horsies_tasks ORDER BY id LIMIT 100")
    runs = [(row["id"], row["started_at"]) for row in starts]
    assert len(await progress_of(conn, runs)) == 100
    scanned, entries = await cost(conn, lambda: progress_of(conn, runs))
    assert (scanned, entries < 1_000) == (0, True)
    flows = [str(number) for number in range(1, 41)]
    assert (await part_done(conn, flows))["1"] == 5
    scanned, entries = await cost(conn, lambda: part_done(conn, flows))
    assert (scanned, entries < 4_000) == (0, True)
    await conn.close()
