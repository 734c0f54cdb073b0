"""The feed of the workers screen on a real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import asyncpg
from feed_steps import QUICK, Published, linked, reading

from horsies.views import Liveness
from horsies_tui.feed.pace import Rhythm
from horsies_tui.health.windows import WINDOWS
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
