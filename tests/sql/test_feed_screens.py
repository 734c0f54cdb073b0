"""The feeds of the screens of workers, schedules, a task and recovery, on a real database."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from feed_steps import QUICK, Published, linked, reading, send
from schedule_scene import add_run, add_schedule, add_scheduler, definition

from horsies.doctor.examine import DATABASE
from horsies.findings import Finding, Severity
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.why import ReasonKind
from horsies.views import Liveness
from horsies_tui.feed import report
from horsies_tui.feed.pace import Rhythm
from horsies_tui.feed.report import RecoveryFeed, RecoverySnapshot
from horsies_tui.health.windows import WINDOWS
from horsies_tui.schedules.feed import SchedulesFeed, SchedulesSnapshot
from horsies_tui.task.feed import DetailFeed
from horsies_tui.workers.feed import WorkersFeed, WorkersNeed, WorkersSnapshot

SELDOM = Rhythm(tick_s=0.02, poll_s=60.0, reconcile_s=60.0)
NEED = WorkersNeed(window=WINDOWS[0])


async def tell(conn: asyncpg.Connection, worker_id: str, ago_s: float = 0.0, *, running: int = 0) -> None:
    """Insert a snapshot."""
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at, tasks_running)"
        " VALUES ($1, now() - $2::float8 * interval '1 s', 'web-1', 7, 8, 8, 8, '{default}', now(), $3)",
        worker_id,
        ago_s,
        running,
    )


async def hold(conn: asyncpg.Connection, worker_id: str, task_id: str, status: str, ago_s: float) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at,"
        " started_at) VALUES ($1, 'demo.add', 'default', $2::text, $2::text = 'CLAIMED', $3,"
        " now() - $4::float8 * interval '1 s',"
        " CASE WHEN $2::text = 'RUNNING' THEN now() - $4::float8 * interval '1 s' END)",
        task_id,
        status,
        worker_id,
        ago_s,
    )


def liveness(snapshot: WorkersSnapshot) -> dict[str, Liveness]:
    return {row.id: row.liveness for row in snapshot.rows}


async def test_workers_come_and_are_judged_by_the_databases_clock(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "a")
    async with reading(WorkersFeed, database, NEED, SELDOM) as (_, published, _):
        assert liveness(published.last) == {"a": Liveness.ALIVE}
        assert published.last.read_at is not None
        await tell(connection, "b", 20)
        await tell(connection, "c", 60)
        snapshot = await published.until(lambda snapshot: len(snapshot.rows) == 3)
        assert liveness(snapshot) == {"a": Liveness.ALIVE, "b": Liveness.LATE, "c": Liveness.LOST}


async def test_one_that_falls_silent_is_noticed_though_nothing_is_told(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "a", 11.5)
    async with reading(WorkersFeed, database, NEED, replace(QUICK, reconcile_s=0.1)) as (_, published, _):
        snapshot = await published.until(lambda snapshot: liveness(snapshot) == {"a": Liveness.LATE})
        assert snapshot.rows[0].silent_s > 12


async def test_those_gone_for_long_are_shown_only_when_they_are_wanted(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "old", 7200)
    async with reading(WorkersFeed, database, NEED, SELDOM) as (feed, published, _):
        assert published.last.rows == ()
        feed.ask(replace(NEED, everyone=True))
        snapshot = await published.until(lambda snapshot: snapshot.everyone)
        assert liveness(snapshot) == {"old": Liveness.LOST}


async def test_the_one_that_is_looked_at_comes_with_its_tasks_and_its_past(
    database: str, connection: asyncpg.Connection
) -> None:
    for ago_s in (45, 25, 1):
        await tell(connection, "a", ago_s, running=ago_s)
    await tell(connection, "b", 1, running=99)
    await hold(connection, "a", "claimed", "CLAIMED", 300)
    await hold(connection, "a", "young", "RUNNING", 5)
    await hold(connection, "a", "old", "RUNNING", 50)
    await hold(connection, "a", "ended", "COMPLETED", 50)
    await hold(connection, "b", "other", "RUNNING", 50)
    async with reading(WorkersFeed, database, replace(NEED, selected="a")) as (feed, published, _):
        one = (await published.until(lambda snapshot: snapshot.one is not None)).one
        assert one is not None
        assert (one.id, [row.id for row in one.tasks], one.more) == ("a", ["old", "young", "claimed"], False)
        assert {point.running for point in one.points} >= {45, 25, 1}
        assert 99 not in {point.running for point in one.points}
        assert len(one.points) >= timedelta(minutes=5) // WINDOWS[0].step
        feed.ask(replace(NEED, selected="b", window=WINDOWS[2]))
        one = (await published.until(lambda snapshot: snapshot.one.id == "b")).one
        assert one is not None
        assert ([row.id for row in one.tasks], one.window) == (["other"], WINDOWS[2])


async def test_a_task_that_ends_leaves_its_worker(database: str, connection: asyncpg.Connection) -> None:
    await tell(connection, "a")
    await hold(connection, "a", "one", "RUNNING", 5)
    async with reading(WorkersFeed, database, replace(NEED, selected="a"), SELDOM) as (_, published, _):
        await published.until(lambda snapshot: snapshot.one is not None and snapshot.one.tasks)
        await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now()")
        snapshot = await published.until(lambda snapshot: not snapshot.one.tasks and not snapshot.rows[0].running)
        assert snapshot.error is None


async def test_a_cursor_that_runs_reads_only_where_it_stops(database: str, connection: asyncpg.Connection) -> None:
    for worker_id in "abcd":
        await tell(connection, worker_id)
    async with reading(WorkersFeed, database, replace(NEED, selected="a"), SELDOM) as (feed, published, _):
        await published.until(lambda snapshot: snapshot.one is not None)
        for worker_id in "bcd":
            feed.ask(replace(NEED, selected=worker_id))
            await asyncio.sleep(0)
        await published.until(lambda snapshot: snapshot.one.id == "d")
        assert next(snapshot.one.id for snapshot in published.all if snapshot.one is not None) == "a"
        assert not {"b", "c"} & {snapshot.one.id for snapshot in published.all if snapshot.one is not None}


async def test_a_database_without_the_tables_is_told_and_asked_again(empty_database: str) -> None:
    async with linked(empty_database) as (link, _):
        published: Published[WorkersSnapshot] = Published()
        feed = WorkersFeed(link, published, rhythm=QUICK)
        feed.start()
        snapshot = await published.until(lambda snapshot: snapshot.error)
        assert (snapshot.rows, snapshot.loading) == ((), True)
        feed.stop()


# No notification says that a schedule was added, so the screen's own rhythm reads as often at rest, too.
OFTEN = Rhythm(tick_s=0.02, poll_s=0.05, reconcile_s=0.05)


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


async def test_a_story_is_live_while_it_is_open(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "task-a")
    async with reading(DetailFeed, database, "task-a") as (_, published, _):
        snapshot = published.last
        assert snapshot.detail is not None
        assert snapshot.why is not None
        assert [reason.kind for reason in snapshot.why.reasons] == [ReasonKind.NO_WORKER]
        assert snapshot.settings is not None
        assert snapshot.settings.running_stale_threshold_ms == 300_000
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED'")
        snapshot = await published.until(lambda snapshot: snapshot.detail.row.status == "CANCELLED")
        assert snapshot.why is None


async def test_other_tasks_do_not_make_it_read_again(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "task-a")
    async with reading(DetailFeed, database, "task-a") as (feed, published, link):
        heard = asyncio.Event()
        link.on_dirty(lambda _channel, payload: heard.set() if payload == "task-b" else None)
        await send(connection, "task-b")
        async with asyncio.timeout(10):
            await heard.wait()
        assert not feed._reads[0].pace.dirty
        assert published.last.detail is not None


async def test_an_end_of_an_id_that_several_tasks_have_and_one_that_no_task_has(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "task-a", "task-b")
    async with reading(DetailFeed, database, "task") as (feed, published, _):
        assert published.last.ambiguous is not None
        assert set(published.last.ambiguous.ids) == {"task-a", "task-b"}
        feed.ask("nosuch")
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert (snapshot.text, snapshot.detail, snapshot.ambiguous, snapshot.error) == ("nosuch", None, None, None)
        feed.ask("ask-b")
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert snapshot.detail is not None
        assert snapshot.detail.row.id == "task-b"


async def test_the_desk_counts_what_needs_a_person(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05)
        assert feed.snapshot.need_action is None
        feed.start()
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert snapshot.need_action == 0
        await send(connection, "a", queue_name="'nobody'", age_s=3600)
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
            " VALUES ('b', 'demo.add', 'default', 'FAILED', 'TASK_INTERRUPTED', now())"
        )
        snapshot = await published.until(lambda snapshot: snapshot.need_action == 2)
        assert snapshot.report is not None
        assert INTERRUPTED in {finding.kind for finding in snapshot.report.findings}
        feed.stop()


OLD_BEAT = """
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
VALUES ('old', 'w', 'runner', now() - interval '3 days')
"""


def of_database(snapshot: RecoverySnapshot) -> list[Finding]:
    return [] if snapshot.report is None else [one for one in snapshot.report.findings if one.kind is DATABASE]


async def test_what_the_doctor_fails_on_is_shown_within_a_minute_and_a_slow_examination_is_made_rarely(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05, examined_after_s=0.0)

        async def examined() -> float:
            """Return the seconds until the next examination, at the end of one."""
            await published.until(lambda _: feed._examining is not None)
            assert feed._examining is not None
            await feed._examining
            return feed._examine_at - feed._now()

        monkeypatch.setattr(report, "_EXAMINED_FACTOR", 0.0)
        feed.start()
        assert await examined() <= 60
        await connection.execute(OLD_BEAT)
        assert of_database(feed.snapshot) == []
        feed._examine_at -= 60  # a minute later
        (found,) = of_database(await published.until(of_database))
        assert found.name == "retention"
        await connection.execute("DELETE FROM horsies_heartbeats")
        feed._examining, feed._examine_at = None, feed._now()
        monkeypatch.setattr(report, "_EXAMINED_FACTOR", 1e9)
        assert 290 < await examined() <= 300
        feed.stop()


async def test_the_desk_shows_what_the_doctor_finds_while_reports_go_on(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(OLD_BEAT)
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05, examined_after_s=0.0)
        feed.start()
        (found,) = of_database(await published.until(of_database))
        assert (found.name, found.prediction.severity) == ("retention", Severity.NEEDS_ACTION)
        assert "heartbeats: the oldest row is overdue by" in found.evidence
        assert any("horsies db prune" in sentence for sentence in found.why)
        assert re.fullmatch(r"Examined at [^;]+; `horsies doctor` examines it again\.", found.why[-1])
        # A report that is read later keeps it, until an examination finds nothing any more.
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
            " VALUES ('b', 'demo.add', 'default', 'FAILED', 'TASK_INTERRUPTED', now())"
        )
        assert of_database(await published.until(lambda snapshot: snapshot.need_action == 2)) == [found]
        await connection.execute("DELETE FROM horsies_heartbeats")
        await feed._begin_examination()
        await published.until(lambda snapshot: not of_database(snapshot))
        feed.stop()


async def test_the_desk_follows_changes_while_it_is_watched(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, statuses):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published)
        feed.start()
        await statuses.until(lambda status: status.state == "LIVE")
        await published.until(lambda snapshot: not snapshot.loading)
        feed.watch(True)
        async with asyncio.timeout(20):  # five reads for the header would take longer
            for number in range(1, 6):
                await connection.execute(
                    "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
                    " VALUES ($1, $1, 'default', 'FAILED', 'TASK_INTERRUPTED', now())",
                    f"b{number}",
                )
                await published.until(lambda snapshot, number=number: snapshot.need_action == number)
        feed.stop()
