"""The list of schedules, the story of one, and the runs that are planned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from schedule_scene import AT_HALF_PAST_TWO, add_run, add_schedule, add_scheduler, definition
from view_steps import cost, reader

from horsies.views import ScheduleRow, ScheduleStory, Standing, next_runs, schedule_rows, schedule_story


async def row_of(conn: asyncpg.Connection, name: str = "a") -> ScheduleRow:
    return {row.name: row for row in (await schedule_rows(conn)).rows}[name]


async def story_of(conn: asyncpg.Connection, name: str = "a") -> ScheduleStory:
    story = await schedule_story(conn, name)
    assert story is not None
    return story


async def test_a_database_without_schedules_has_an_empty_list_and_no_story(conn: asyncpg.Connection) -> None:
    found = await schedule_rows(conn)
    assert (found.rows, found.schedulers, found.more) == ((), (), False)
    assert await schedule_story(conn, "a") is None


async def test_a_schedule_says_what_it_sends_and_when(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "nightly", definition(AT_HALF_PAST_TWO, timezone="Europe/Berlin", queue="bulk"), runs=7)
    await add_schedule(conn, "often", definition(kind="workflow", target="month_end"))
    nightly, often = (await schedule_rows(conn)).rows
    assert nightly.definition is not None
    assert often.definition is not None
    assert (nightly.definition.words, nightly.definition.target) == ("daily 02:30 Europe/Berlin", "shop.report")
    assert (nightly.definition.queue, nightly.run_count, nightly.runs) == ("bulk", 7, ())
    assert (often.definition.words, often.definition.kind) == ("every 5 min", "workflow")


async def test_the_outcome_of_a_run_is_that_of_its_task_or_workflow(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "a", definition())
    await add_run(conn, "a", 700, "PRUNED")
    await add_run(conn, "a", 600, "COMPLETED", took_s=62)
    await add_run(conn, "a", 500, "FAILED", error_code="'TIMEOUT'", failed_at="now() - interval '499 s'")
    await add_run(conn, "a", 400, "FAILED", error_code="'TASK_INTERRUPTED'", failed_at="now()")
    await add_run(conn, "a", 300, "COMPLETED", workflow=True, took_s=3)
    await add_run(conn, "a", 200, None, ordered_by="ops@bastion")
    await add_run(conn, "a", 100, "PENDING", next_retry_at="now() + interval '1 min'")
    await add_run(conn, "a", 50, "RUNNING")
    row = await row_of(conn)
    states = ["RUNNING", "RETRY", "SKIPPED", "COMPLETED", "INTERRUPTED", "FAILED", "COMPLETED", "PRUNED"]
    assert [run.state for run in row.runs] == states
    assert row.last == row.runs[0]
    assert row.runs[2].ordered_by == "ops@bastion"
    now = row.runs[0].started_at
    assert now is not None
    assert [run.duration(now) for run in row.runs[3:7:3]] == [timedelta(seconds=3), timedelta(seconds=62)]
    assert row.runs[0].duration(now + timedelta(seconds=9)) == timedelta(seconds=9)
    assert [row.runs[place].duration(now) for place in (1, 2, 7)] == [None, None, None]
    assert (row.runs[5].error_code, row.runs[3].workflow_id) == ("TIMEOUT", "a-300")


@pytest.mark.parametrize("join", ["nestloop", "hashjoin", "mergejoin"])
async def test_a_list_has_the_newest_runs_and_a_story_has_more(conn: asyncpg.Connection, join: str) -> None:
    """In this order by whatever join the planner chooses."""
    for other in {"nestloop", "hashjoin", "mergejoin"} - {join}:
        await conn.execute(f"SET enable_{other} = off")
    await add_schedule(conn, "a", definition())
    for ago in range(60):
        await add_run(conn, "a", ago)
    assert [run.task_id for run in (await row_of(conn)).runs] == [f"a-{ago}" for ago in range(12)]
    assert [run.task_id for run in (await story_of(conn)).row.runs] == [f"a-{ago}" for ago in range(50)]


async def test_a_schedule_is_paused_overdue_unserved_or_scheduled(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "calm", definition())
    await add_schedule(conn, "late", definition(), next_s=-61)
    await add_schedule(conn, "paused", definition(), next_s=-61)
    await add_schedule(conn, "alone", definition())
    await add_schedule(conn, "just due", definition(), next_s=-50)
    await conn.execute(
        "UPDATE horsies_schedules SET paused_at = now(), paused_by = 'ops', reason = 'month end'"
        " WHERE schedule_name = 'paused'"
    )
    living = await add_scheduler(conn, "calm", "late", "paused", "just due")
    await add_scheduler(conn, "alone", pid=8, silent_s=61)
    found = await schedule_rows(conn)
    standings = {row.name: row.standing(found.now) for row in found.rows}
    assert standings == {
        "alone": Standing.UNSERVED,
        "calm": Standing.SCHEDULED,
        "just due": Standing.SCHEDULED,
        "late": Standing.OVERDUE,
        "paused": Standing.PAUSED,
    }
    rows = {row.name: row for row in found.rows}
    assert (rows["calm"].schedulers, rows["alone"].schedulers) == ((living,), ())
    assert (rows["paused"].paused_by, rows["paused"].paused_reason) == ("ops", "month end")
    overdue = rows["late"].overdue(found.now)
    assert overdue is not None
    assert 61 <= overdue.total_seconds() < 70
    assert rows["paused"].overdue(found.now) is None
    assert [one.name for one in found.living(found.now)] == ["web-1:7"]


async def test_a_schedule_of_upstream_has_its_last_task_and_no_definition(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "theirs", None, next_s=-10, runs=3)
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)"
        " VALUES ('t', 'x', 'default', 'COMPLETED', now() - interval '5 s', now() - interval '3 s');"
        "UPDATE horsies_schedule_state SET last_task_id = 't', last_run_at = now() - interval '6 s'"
    )
    row = await row_of(conn, "theirs")
    assert (row.definition, row.run_count) == (None, 3)
    assert row.last is not None
    assert (row.last.state, row.last.task_id) == ("COMPLETED", "t")
    now = datetime.now(UTC)
    assert row.standing(now) is Standing.SCHEDULED
    assert [run.at for run in next_runs(row, now, 10)] == [row.next_run_at]


async def test_on_upstreams_tables_its_schedules_are_listed(upstream_database: str) -> None:
    conn = await reader(upstream_database)
    try:
        names = {row["schedule_name"] for row in await conn.fetch("SELECT schedule_name FROM horsies_schedule_state")}
        found = await schedule_rows(conn)
        assert names
        assert {row.name for row in found.rows} == names
        assert {row.definition for row in found.rows} == {None}
        story = await story_of(conn, next(iter(names)))
        assert (story.schedulers, story.audit) == ((), ())
        assert story.row.next_run_at is None or story.row.next_run_at.tzinfo is not None
    finally:
        await conn.close()


async def test_a_definition_of_a_newer_release_is_shown_as_it_is_stored(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "a", definition({"type": "tides", "harbour": "Brest"}, timezone="Mars/Olympus"))
    row = await row_of(conn)
    assert row.definition is not None
    assert "tides" in row.definition.words
    assert row.definition.pattern is None
    assert [run.at for run in next_runs(row, datetime.now(UTC), 10)] == [row.next_run_at]


async def test_the_story_names_the_schedulers_that_serve_it_living_or_not(conn: asyncpg.Connection) -> None:
    await add_schedule(conn, "a", definition())
    await add_scheduler(conn, "a", "b")
    await add_scheduler(conn, "a", pid=8, silent_s=300)
    await add_scheduler(conn, "b", pid=9)
    story = await story_of(conn)
    assert [(one.pid, one.lives(story.now)) for one in story.schedulers] == [(7, True), (8, False)]


FILL = """
SET session_replication_role = replica;
INSERT INTO horsies_schedules (schedule_name, config_hash, definition)
SELECT 'schedule ' || n, 'hash', '{"pattern": {"type": "interval", "minutes": 5}, "timezone": "UTC", "kind": "task",
       "target": "shop.report"}' FROM generate_series(1, 1000) n;
INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count, config_hash)
SELECT schedule_name, now(), 80, 'hash' FROM horsies_schedules;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)
SELECT s || '-' || n, 'shop.report', 'default', 'COMPLETED', now(), now()
  FROM generate_series(1, 1000) s CROSS JOIN generate_series(1, 80) n;
INSERT INTO horsies_schedule_runs (schedule_name, slot, task_id)
SELECT 'schedule ' || s, now() - n * interval '5 min', s || '-' || n
  FROM generate_series(1, 1000) s CROSS JOIN generate_series(1, 80) n;
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version)
SELECT 'web-' || n, 'web', n, (SELECT array_agg(schedule_name) FROM horsies_schedules), '0.9'
  FROM generate_series(1, 3) n;
"""


async def test_a_thousand_schedules_are_read_by_their_newest_runs_alone(full: asyncpg.Connection) -> None:
    found = await schedule_rows(full)
    assert (len(found.rows), {len(row.runs) for row in found.rows}, len(found.living(found.now))) == (1000, {12}, 3)
    whole, entries = await cost(full, lambda: schedule_rows(full))
    # Of each: 12 runs and their tasks by index, of 80 that it has; no entry of horsies_workflows.
    assert (whole, entries < 32_000) == (0, True)
    whole, entries = await cost(full, lambda: schedule_story(full, "schedule 7"))
    assert (whole, entries < 200) == (0, True)
