"""The tasks feed on a real database: new and deleted rows, paging, filters; rows do not move when they should not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from feed_steps import NEVER_AT_REST, QUICK, Published, history, ids, linked, old, send
from until import until

from horsies.query import parse
from horsies.views import Count
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.pace import Patience, Rhythm
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot


@asynccontextmanager
async def watching(
    url: str, need: TaskNeed | None = None, rhythm: Rhythm = QUICK, **options: Any
) -> AsyncIterator[tuple[TaskFeed, Published[TaskSnapshot], DatabaseLink]]:
    """A feed whose first rows have arrived, on a link with notifications."""
    async with linked(url, **options) as (link, statuses):
        published: Published[TaskSnapshot] = Published()
        feed = TaskFeed(link, published, rhythm=rhythm)
        if need is not None:
            feed.ask(need)
        feed.start()
        await statuses.until(lambda status: status.state == "LIVE")
        await published.until(lambda snapshot: not snapshot.loading and snapshot.counts is not None)
        yield feed, published, link
        feed.stop()


def need(text: str = "", **others: Any) -> TaskNeed:
    return TaskNeed(filter=parse(text), **others)


async def test_what_is_sent_comes_in_by_itself(database: str, connection: asyncpg.Connection) -> None:
    async with watching(database) as (_, published, _):
        assert ids(published.last) == []
        await send(connection, "a", "b")
        snapshot = await published.until(lambda snapshot: snapshot.rows)
        assert ids(snapshot) == ["b", "a"]
        assert (snapshot.at_start, snapshot.at_end, snapshot.unseen, snapshot.error) == (True, True, 0, None)


async def test_arrivals_are_held_while_the_operator_moves_and_let_in_when_he_follows(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "a")
    async with watching(database, rhythm=NEVER_AT_REST) as (feed, published, _):
        feed.touch("a")
        await send(connection, "b", "c")
        snapshot = await published.until(lambda snapshot: snapshot.unseen == 2)
        assert (ids(snapshot), snapshot.more_unseen) == (["a"], False)
        feed.jump("newest")
        snapshot = await published.until(lambda snapshot: len(snapshot.rows) == 3)
        assert (ids(snapshot), snapshot.unseen) == (["c", "b", "a"], 0)


async def test_without_follow_arrivals_stay_outside_even_at_rest(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "a", "b")
    async with watching(database, need(follow=False)) as (feed, published, _):
        await send(connection, "c")
        await published.until(lambda snapshot: snapshot.unseen == 1)
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'a'")
        snapshot = await published.until(lambda snapshot: snapshot.rows[-1].status == "CANCELLED")
        assert (ids(snapshot), snapshot.unseen) == (["b", "a"], 1)
        feed.ask(need(follow=True))
        assert ids(await published.until(lambda snapshot: len(snapshot.rows) == 3)) == ["c", "b", "a"]


async def test_paging_reaches_the_oldest_row_and_comes_back(database: str, connection: asyncpg.Connection) -> None:
    await history(connection, 1_500)
    async with watching(database, need(follow=False)) as (feed, published, _):
        assert ids(published.last) == old(1, 200)
        while not published.last.at_end:
            before = published.last
            feed.near("end")
            await published.until(lambda snapshot: not snapshot.loading and snapshot.rows != before.rows)  # noqa: B023
            assert len(published.last.rows) <= 600
        assert ids(published.last) == old(901, 1_500)
        assert not published.last.at_start
        while not published.last.at_start:
            before = published.last
            feed.near("start")
            await published.until(lambda snapshot: not snapshot.loading and snapshot.rows != before.rows)  # noqa: B023
        assert ids(published.last) == old(1, 600)


async def test_jumps_go_to_the_ends_and_to_a_time(database: str, connection: asyncpg.Connection) -> None:
    await history(connection, 1_000)
    async with watching(database, need(follow=False)) as (feed, published, _):
        feed.jump("oldest")
        snapshot = await published.until(lambda snapshot: snapshot.at_end and not snapshot.loading)
        assert (ids(snapshot), snapshot.at_start) == (old(801, 1_000), False)
        feed.jump(snapshot.rows[0].created_at + timedelta(seconds=300.5))
        snapshot = await published.until(lambda snapshot: not snapshot.at_end and not snapshot.loading)
        assert (ids(snapshot), snapshot.at_start) == (old(501, 700), False)
        feed.near("start")
        snapshot = await published.until(lambda snapshot: len(snapshot.rows) == 400)
        assert ids(snapshot) == old(301, 700)
        feed.jump("newest")
        snapshot = await published.until(lambda snapshot: snapshot.at_start)
        assert ids(snapshot) == old(1, 200)


async def test_rows_far_from_the_top_are_kept_up_to_date_too(database: str, connection: asyncpg.Connection) -> None:
    await history(connection, 1_000)
    async with watching(database, need(follow=False)) as (feed, published, _):
        feed.jump("oldest")
        await published.until(lambda snapshot: snapshot.at_end and not snapshot.loading)
        feed.touch("old-000999")
        await connection.execute(
            "UPDATE horsies_tasks SET status = 'FAILED', failed_at = now() WHERE id = 'old-000990'"
        )
        snapshot = await published.until(lambda snapshot: any(row.status == "FAILED" for row in snapshot.rows))
        assert ids(snapshot) == old(801, 1_000)


async def test_what_matches_rarely_is_searched_for_to_the_very_end(
    database: str, connection: asyncpg.Connection
) -> None:
    await history(connection, 45_000)
    await connection.execute(
        "UPDATE horsies_tasks SET task_name = 'demo.rare' WHERE id IN ('old-000500', 'old-044999')"
    )
    async with watching(database, need("name:demo.rare")) as (_, published, _):
        assert ids(published.last) == ["old-000500", "old-044999"]
        assert published.last.at_end
        searched = {snapshot.searched for snapshot in published.all if snapshot.loading and snapshot.rows}
        assert len(searched) == 2  # a stretch is 20 000 rows
        assert all(text.startswith("searched back to 20") for text in searched)
        assert published.last.searched == ""


async def test_the_newest_need_wins(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "a", "b", "c")
    await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'b'")
    async with watching(database) as (feed, published, _):
        asked_at = len(published.all)
        for text in ("status:running", "name:nosuch", "id:a", "status:cancelled"):
            feed.ask(need(text))
        snapshot = await published.until(lambda snapshot: not snapshot.loading and snapshot.counts is not None)
        assert (ids(snapshot), snapshot.filter_text) == (["b"], "status:cancelled")
        assert dict(snapshot.counts.states) == {"CANCELLED": Count(1)}
        shown = {tuple(ids(snapshot)) for snapshot in published.all[asked_at:]}
        assert shown == {("c", "b", "a"), ("b",)}  # the previous rows, dimmed, then the answer


async def test_a_slow_read_that_is_no_longer_wanted_is_ended(database: str, connection: asyncpg.Connection) -> None:
    """The table is locked, and the server has no timeout: only the console can cancel the first read."""
    await send(connection, "a")
    waits = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with watching(database, patience=Patience(statement_s=60, read_s=60)) as (feed, published, _):
        async with connection.transaction():
            await connection.execute("LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
            feed.ask(need("name:nosuch"))
            await until(connection, f"EXISTS (SELECT {waits})")
            first = await connection.fetchval(f"SELECT query_start::text {waits}")
            feed._reading_since -= 1  # as if it had waited for a second
            feed.ask(need("id:a"))
            await until(connection, f"EXISTS (SELECT {waits} AND query_start > '{first}')")
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert (ids(snapshot), snapshot.slow_s) == (["a"], None)


async def test_counts_follow_the_filter_and_the_changes(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "a", "b", "c")
    await history(connection, 10)
    async with watching(database) as (_, published, _):
        assert dict(published.last.counts.states) == {"PENDING": Count(3), "COMPLETED": Count(10)}
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'b'")
        wanted = {"PENDING": Count(2), "COMPLETED": Count(10), "CANCELLED": Count(1)}
        await published.until(lambda snapshot: dict(snapshot.counts.states) == wanted)


async def test_groups_come_when_they_are_asked_for(database: str, connection: asyncpg.Connection) -> None:
    await history(connection, 10)
    await send(connection, "a", "b")
    async with watching(database) as (feed, published, _):
        assert published.last.groups is None
        feed.ask(need(group_by="task_name"))
        snapshot = await published.until(lambda snapshot: snapshot.groups is not None)
        assert [(group.key, group.number) for group in snapshot.groups.groups] == [("demo.old", 10), ("demo.add", 2)]
        feed.ask(need())
        assert published.last.groups is None


async def test_nothing_is_read_while_no_screen_wants_it(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(database) as (feed, published, link):
        feed.stop()
        reads: list[object] = []
        read = link.read
        monkeypatch.setattr(link, "read", lambda ask: (reads.append(ask), read(ask))[1])
        heard = asyncio.Event()
        link.on_dirty(lambda _channel, payload: heard.set() if payload == "b" else None)
        await send(connection, "a", "b")
        async with asyncio.timeout(10):
            await heard.wait()
        assert reads == []
        feed.start()
        assert ids(await published.until(lambda snapshot: snapshot.rows)) == ["b", "a"]
