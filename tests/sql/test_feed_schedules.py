"""The feed of the schedules screen on a real database."""

from __future__ import annotations

import asyncpg
from feed_steps import reading
from schedule_scene import add_run, add_schedule, add_scheduler, definition

from horsies_tui.feed.pace import Rhythm
from horsies_tui.schedules.feed import SchedulesFeed, SchedulesSnapshot

# No notification says that a schedule was added, so the screen's own rhythm reads as often at rest, too.
OFTEN = Rhythm(tick_s=0.02, poll_s=0.05, reconcile_s=0.05)
SELDOM = Rhythm(tick_s=0.02, poll_s=60.0, reconcile_s=60.0)


def names(snapshot: SchedulesSnapshot) -> list[str]:
    return [row.name for row in snapshot.rows]


async def test_schedules_come_by_themselves_and_rows_that_stay_are_the_same_objects(
    database: str, connection: asyncpg.Connection
) -> None:
    await add_schedule(connection, "a", definition())
    await add_scheduler(connection, "a", "b")
    async with reading(SchedulesFeed, database, None, OFTEN) as (_, published, _):
        first = published.last.rows[0]
        await add_schedule(connection, "b", definition())
        snapshot = await published.until(lambda snapshot: names(snapshot) == ["a", "b"])
        assert snapshot.rows[0] is first
        assert snapshot.found is not None
        assert [one.name for one in snapshot.found.living(snapshot.found.now)] == ["web-1:7"]
        assert snapshot.story is None


async def test_the_end_of_a_run_is_read_at_once(database: str, connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "a", definition())
    await add_run(connection, "a", 5, "RUNNING")
    async with reading(SchedulesFeed, database, "a", SELDOM) as (_, published, _):
        await published.until(lambda snapshot: snapshot.story is not None)
        await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now()")
        snapshot = await published.until(lambda snapshot: snapshot.rows[0].runs[0].state == "COMPLETED")
        snapshot = await published.until(
            lambda snapshot: snapshot.story is not None and snapshot.story.row.runs[0].state == "COMPLETED"
        )
        assert snapshot.error is None


async def test_the_runs_of_the_schedule_under_the_cursor_are_read_and_of_no_other(
    database: str, connection: asyncpg.Connection
) -> None:
    for name in ("a", "b"):
        await add_schedule(connection, name, definition())
        for ago in range(20):
            await add_run(connection, name, ago)
    async with reading(SchedulesFeed, database, "a", OFTEN) as (feed, published, _):
        snapshot = await published.until(lambda snapshot: snapshot.story is not None)
        assert snapshot.story is not None
        assert (snapshot.story.row.name, len(snapshot.story.row.runs)) == ("a", 20)
        assert {len(row.runs) for row in snapshot.rows} == {12}
        feed.ask("b")
        await published.until(lambda snapshot: snapshot.story is not None and snapshot.story.row.name == "b")
