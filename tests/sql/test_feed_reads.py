"""What the base does with the reads that a feed declares; suggestions for filters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from feed_steps import Published, linked, send
from view_steps import insert

from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.feed.status import LinkState
from horsies_tui.feed.suggested_values import KnownValues

SELDOM = Rhythm(tick_s=0.02, poll_s=600.0, reconcile_s=600.0)


@dataclass(frozen=True, slots=True)
class Shown:
    of: str = ""
    count: int = -1
    loading: bool = True
    error: str | None = None


class CountFeed(Feed[Shown]):
    """Counts the tasks of a queue; and reads something else that no notification is about."""

    NAME = "counts"

    def __init__(self, link: DatabaseLink, publish: Published[Shown]) -> None:
        super().__init__(link, publish, Shown())
        self.queue = "a"
        self.began: list[str] = []
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()
        self.count = FeedRead("count", self._query(lambda: self.queue, self._count, self._put), ReadPace(SELDOM))
        self.other = FeedRead("other", self._other, ReadPace(SELDOM), on=lambda _channel, _payload: False)
        self._reads = (self.count, self.other)

    async def _count(self, conn: asyncpg.Connection, queue: str) -> tuple[str, int]:
        self.began.append(queue)
        self.asked.set()
        await self.go_on.wait()
        return queue, await conn.fetchval("SELECT count(*) FROM horsies_tasks WHERE queue_name = $1", queue)

    def _put(self, answer: tuple[str, int]) -> dict[str, Any]:
        return {"of": answer[0], "count": answer[1], "loading": False}

    async def _other(self) -> bool:
        self.began.append("other")
        return True


@asynccontextmanager
async def counting(url: str) -> AsyncIterator[tuple[CountFeed, Published[Shown]]]:
    async with linked(url) as (link, statuses):
        await statuses.until(lambda status: status.state is LinkState.LIVE and link.listens)
        published: Published[Shown] = Published()
        feed = CountFeed(link, published)
        feed.start()
        try:
            yield feed, published
        finally:
            feed.stop()


async def test_a_notification_makes_those_reads_due_that_listen_to_it(
    database: str, connection: asyncpg.Connection
) -> None:
    async with counting(database) as (feed, published):
        await published.until(lambda shown: shown.count == 0)
        await send(connection, "one", queue_name="'a'")
        await published.until(lambda shown: shown.count == 1)
        assert feed.began.count("a") >= 2
        assert feed.began.count("other") == 1


async def test_an_answer_to_an_older_request_is_dropped_and_the_new_one_is_read(
    database: str, connection: asyncpg.Connection
) -> None:
    async with counting(database) as (feed, published):
        await published.until(lambda shown: not shown.loading)
        await send(connection, "one", queue_name="'b'")
        before = len(published.all)
        feed.go_on.clear()
        feed.asked.clear()
        feed.refresh()
        await asyncio.wait_for(feed.asked.wait(), 15)
        feed.queue = "b"
        feed.go_on.set()
        await published.until(lambda shown: shown.of == "b")
        assert [shown.of for shown in published.all[before:]] == ["b"]


async def test_a_frozen_feed_reads_what_it_lacks_and_then_nothing(
    database: str, connection: asyncpg.Connection
) -> None:
    async with counting(database) as (feed, published):
        feed.freeze(True)
        await published.until(lambda shown: shown.count == 0)
        began = len(feed.began)
        await send(connection, "one", queue_name="'a'")
        feed.refresh()
        assert feed._due_at() is None
        assert feed.count.pace.dirty
        feed.freeze(False)
        await published.until(lambda shown: shown.count == 1)
        assert len(feed.began) > began


async def test_a_read_that_was_stopped_leaves_the_next_one_to_be_cancelled(
    database: str, connection: asyncpg.Connection
) -> None:
    async with counting(database) as (feed, published):
        await published.until(lambda shown: not shown.loading)
        feed.go_on.clear()
        for _ in range(2):  # a view that is hidden and shown again while it reads
            feed.asked.clear()
            feed.refresh()
            await feed.asked.wait()
            feed.stop()
            feed.start()
        feed.asked.clear()
        feed.refresh()
        await feed.asked.wait()
        assert feed._reading is not None


Values = Mapping[str, Sequence[str]]


async def test_what_exists_is_told_the_most_frequent_first(database: str, connection: asyncpg.Connection) -> None:
    for number in range(3):
        await insert(connection, f"mail-{number}", task_name="'send_mail'", queue_name="'mail'")
    await insert(
        connection, "pay-0", task_name="'charge'", queue_name="'pay'", status="'FAILED'", error_code="'TIMEOUT'"
    )
    await insert(connection, "run-0", status="'RUNNING'", claimed_by_worker_id="'web-1:4121'", claimed_at="now()")
    async with linked(database) as (link, statuses):
        await statuses.until(lambda status: status.is_up)
        published: Published[Values] = Published()
        KnownValues(link, published).refresh()
        known = await published.until(lambda values: "worker" in values)
        assert known["name"] == ("send_mail", "charge", "demo.add")
        assert known["error"] == ("TIMEOUT",)
        assert set(known["queue"]) == {"mail", "pay", "default"}
        assert known["worker"] == ("web-1:4121",)


async def test_it_is_not_asked_again_at_once_but_again_after_it_failed(database: str) -> None:
    async with linked(database) as (link, statuses):
        published: Published[Values] = Published()
        values = KnownValues(link, published)
        values.refresh()
        await statuses.until(lambda status: status.is_up)
        while not published.all:
            values.refresh()
            await link.read(lambda conn: conn.fetchval("SELECT 1"))
        await published.until(lambda known: "worker" in known)
        told = len(published.all)
        values.refresh()
        await link.read(lambda conn: conn.fetchval("SELECT 1"))
        assert len(published.all) == told
        values.stop()
