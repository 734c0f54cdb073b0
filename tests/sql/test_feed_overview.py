"""The overview's feed: the history once, then its newest part, and other windows without forgetting the first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from feed_steps import Published, linked, send

from horsies.views import cluster_series, task_series
from horsies.views.reader_session import READER_SETTINGS
from horsies_tui.feed.pace import Rhythm
from horsies_tui.health.glance_reader import GlanceReader
from horsies_tui.health.windows import Window
from horsies_tui.overview import feed as overview
from horsies_tui.overview.feed import OverviewFeed, OverviewSnapshot

QUICK = Rhythm(tick_s=0.02, poll_s=0.1, reconcile_s=0.1)
SHORT = Window("1m", timedelta(seconds=60), timedelta(seconds=1))
LONG = Window("5m", timedelta(minutes=5), timedelta(seconds=10))


async def ended(conn: asyncpg.Connection, count: int, *, ago_s: float, within_s: float = 0) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, enqueued_at, started_at, completed_at)"
        " SELECT gen_random_uuid()::text, 'shop.mail', 'mail', 'COMPLETED', at, at, at"
        "   FROM generate_series(0, $1 - 1) n"
        " CROSS JOIN LATERAL (SELECT now() - ($2 + n * $3::float8 / $1) * interval '1 s' AS at) AS made",
        count,
        ago_s,
        within_s,
    )


def total(snapshot: OverviewSnapshot) -> float:
    """How many tasks ended in the window, by its rates."""
    assert snapshot.series is not None
    return sum(rate or 0 for rate in snapshot.series.ended) * snapshot.window.step.total_seconds()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of buckets of each read of the history."""
    counts: list[int] = []

    async def read(conn: Any, buckets: Any) -> Any:
        counts.append(buckets.count)
        return await task_series(conn, buckets)

    monkeypatch.setattr(overview, "task_series", read)
    return counts


async def test_the_past_is_read_once_and_then_only_what_was_added(
    database: str, connection: asyncpg.Connection, asked: list[int]
) -> None:
    await ended(connection, 15, ago_s=3, within_s=15)
    async with linked(database) as (link, _):
        published: Published[OverviewSnapshot] = Published()
        feed = OverviewFeed(link, published, window=SHORT, now_every=QUICK, past_every=QUICK)
        feed.start()
        await published.until(lambda snapshot: snapshot.series is not None and 13 <= total(snapshot) <= 15)
        assert asked[0] == 60
        await ended(connection, 40, ago_s=0)
        await published.until(lambda snapshot: snapshot.series is not None and total(snapshot) > 45)
        assert max(asked[1:]) < 30
        feed.stop()


async def test_another_window_is_read_and_the_first_is_known_when_one_comes_back(
    database: str, connection: asyncpg.Connection, asked: list[int]
) -> None:
    await ended(connection, 60, ago_s=1, within_s=240)
    async with linked(database) as (link, _):
        published: Published[OverviewSnapshot] = Published()
        feed = OverviewFeed(link, published, window=SHORT, now_every=QUICK, past_every=QUICK)
        feed.start()
        await published.until(lambda snapshot: not snapshot.loading)
        feed.look_at(LONG)
        assert published.last.series is None
        assert published.last.loading
        snapshot = await published.until(lambda snapshot: not snapshot.loading and snapshot.window == LONG)
        assert 55 <= total(snapshot) <= 64  # the newest rate is that of a part of its bucket
        reads = len(asked)
        feed.look_at(SHORT)
        assert published.last.series is not None
        await published.until(lambda _: len(asked) > reads)
        assert asked[reads] < 60
        feed.stop()


async def test_what_is_now_follows_what_happens(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, _):
        published: Published[OverviewSnapshot] = Published()
        feed = OverviewFeed(link, published, now_every=QUICK, past_every=QUICK)
        feed.start()
        await published.until(lambda snapshot: snapshot.glance is not None)
        await send(connection, "a", "b", queue_name="'mail'", age_s=5)
        snapshot = await published.until(lambda snapshot: bool(snapshot.glance and snapshot.glance.queues))
        assert snapshot.glance is not None
        (row,) = snapshot.glance.queues
        assert (row.name, row.due.number) == ("mail", 2)
        assert snapshot.glance.rate("mail").in_per_s > 0
        feed.stop()


async def test_what_cannot_be_read_is_said_and_what_was_known_stays(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "a", queue_name="'mail'", age_s=5)
    async with linked(database) as (link, _):
        published: Published[OverviewSnapshot] = Published()
        feed = OverviewFeed(link, published, now_every=QUICK, past_every=QUICK)
        feed.start()
        await published.until(lambda snapshot: not snapshot.loading)
        await connection.execute("ALTER TABLE horsies_worker_states RENAME TO elsewhere")
        snapshot = await published.until(lambda snapshot: snapshot.error is not None)
        assert "horsies_worker_states" in (snapshot.error or "")
        assert snapshot.glance is not None
        assert [row.name for row in snapshot.glance.queues] == ["mail"]
        await connection.execute("ALTER TABLE elsewhere RENAME TO horsies_worker_states")
        await published.until(lambda snapshot: snapshot.error is None)
        feed.stop()


BOUNDARY = "SELECT date_bin('10 s', statement_timestamp(), '2000-01-01Z')"
WORKERS = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at, tasks_running)
SELECT name, $1::timestamptz - $2 * ago * interval '1 s', 'web', 1, 8, 8, 8, '{mail}', now(), $2 * running
  FROM (VALUES ('web-1', 7, 2), ('web-1', 2, 4), ('web-2', 9, 8), ('web-2', 4, 6)) AS told (name, ago, running)
"""


async def test_two_consoles_that_read_a_second_apart_say_the_same_share_of_busy_processes(
    database: str, connection: asyncpg.Connection
) -> None:
    """Three consoles showed three shares, each of the rows at its read."""
    second = await asyncpg.connect(database, server_settings=dict(READER_SETTINGS))
    shares: list[float | None] = []
    while len(shares) < 6:
        began = await connection.fetchval(BOUNDARY)
        await connection.execute("TRUNCATE horsies_worker_states")
        await connection.execute(WORKERS, began, 1)
        shares.clear()
        for reader in (connection, second):
            now = await reader.fetchval("SELECT statement_timestamp()")
            buckets = LONG.buckets(now)
            points = [point.busy for point in await cluster_series(reader, buckets)]
            shares += [(await GlanceReader().read(reader, now)).busy, *points[-2:]]
            # What a worker says, and starts, after the first has read.
            await connection.execute(WORKERS, now, 0)
            await send(connection, f"r{now}", status="'RUNNING'", claimed_by_worker_id="'web-1'", claimed_at="now()")
        if await connection.fetchval(BOUNDARY) != began:
            shares.clear()  # ten seconds ended between the two reads
    await second.close()
    assert shares == [20 / 32] * 6
