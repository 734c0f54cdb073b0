"""What the base does with the reads of a feed; suggestions for filters; rows that stay found while tasks are sent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
from feed_steps import QUICK, Published, ids, linked, send
from view_steps import insert

from horsies.query import parse
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.feed.status import LinkState
from horsies_tui.feed.suggested_values import KnownValues
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot

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


async def test_a_read_that_was_stopped_leaves_the_next_one_to_be_cancelled(database: str) -> None:
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


RARE = [f"rare-{number:02}" for number in range(60)]


async def on_child_exit(connection: asyncpg.Connection, count: int) -> None:
    """This many tasks, newer than all others."""
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        """INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, sent_at, enqueued_at, started_at,
                                      completed_at)
           SELECT 'new-' || lpad(n::text, 6, '0'), 'shop.other', 'default', 'COMPLETED', at, at, at, at, at
             FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT now() - n * interval '10 ms' AS at) AS made""",
        count,
    )
    await connection.execute("SET session_replication_role = DEFAULT")
    await connection.execute("ANALYZE horsies_tasks")


@asynccontextmanager
async def shown(url: str, need: TaskNeed) -> AsyncIterator[tuple[TaskFeed, Published[TaskSnapshot]]]:
    async with linked(url) as (link, _):
        published: Published[TaskSnapshot] = Published()
        feed = TaskFeed(link, published, rhythm=QUICK)
        feed.ask(need)
        feed.start()
        await published.until(lambda snapshot: not snapshot.loading)
        yield feed, published
        feed.stop()


@asynccontextmanager
async def writing(url: str, every_s: float) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Another client sends tasks all the time; yields a function that waits until it has sent this many more."""
    connection = await asyncpg.connect(url)
    more, sent = asyncio.Condition(), 0

    async def write() -> None:
        nonlocal sent
        while True:
            await send(connection, f"sent-{sent:06}", task_name="'shop.other'")
            async with more:
                sent += 1
                more.notify_all()
            await asyncio.sleep(every_s)

    async def until_sent(count: int) -> None:
        wanted = sent + count
        async with more, asyncio.timeout(15):
            await more.wait_for(lambda: sent >= wanted)

    task = asyncio.create_task(write())
    try:
        yield until_sent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await connection.close()


async def test_rows_far_back_stay_while_new_tasks_arrive(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, *RARE, age_s=3600, task_name="'nightly_report'")
    await on_child_exit(connection, 45_000)
    async with (
        shown(database, TaskNeed(parse("name:nightly_report"))) as (feed, published),
        writing(database, 0.02) as until_sent,
    ):
        assert ids(published.last) == RARE[::-1]
        found = len(published.all)
        await until_sent(30)
        feed.ask(TaskNeed(parse("name:nightly_report"), follow=False))
        feed.ask(TaskNeed(parse("name:nightly_report"), follow=True))
        await published.until(lambda snapshot: not snapshot.loading)
        await until_sent(10)
        assert {tuple(ids(snapshot)) for snapshot in published.all[found - 1 :]} == {tuple(RARE[::-1])}
        assert (published.last.searched, published.last.at_end) == ("", True)


async def test_all_was_searched_is_said_only_when_it_was(database: str, connection: asyncpg.Connection) -> None:
    await on_child_exit(connection, 45_000)
    async with shown(database, TaskNeed(parse("name:nightly_report"))) as (_, published), writing(database, 0.02):
        assert (ids(published.last), published.last.searched, published.last.at_end) == ([], "", True)
        await send(connection, "late", age_s=3600, task_name="'nightly_report'")
        await published.until(lambda snapshot: ids(snapshot) == ["late"])


async def test_what_arrives_above_is_counted_though_tens_of_thousands_lie_between(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, *RARE, age_s=3600, task_name="'nightly_report'")
    await on_child_exit(connection, 45_000)
    async with shown(database, TaskNeed(parse("name:nightly_report"), follow=False)) as (_, published):
        await send(connection, "newest", task_name="'nightly_report'")
        snapshot = await published.until(lambda snapshot: snapshot.unseen == 1)
        assert ids(snapshot) == RARE[::-1]


FILTERS = {
    "name:rare*": "task_name LIKE 'rare%'",
    "status:failed name:rare.one": "status = 'FAILED' AND task_name = 'rare.one'",
    "status:pending,running queue:bulk": "status IN ('PENDING', 'RUNNING') AND queue_name = 'bulk'",
    "error:TIMEOUT": "status IN ('FAILED', 'CANCELLED', 'EXPIRED') AND error_code = 'TIMEOUT'",
    "tries:>1": "retry_count > 0",
    "-name:shop.* -status:completed": "task_name NOT LIKE 'shop.%' AND status <> 'COMPLETED'",
    "worker:web-1*": "claimed_by_worker_id LIKE 'web-1%'",
    "has:error status:live,failed": "error_code IS NOT NULL AND status IN ('PENDING', 'CLAIMED', 'RUNNING', 'FAILED')",
    "status:done ended:>30m name:rare.*": "status = 'FAILED' AND task_name LIKE 'rare.%' AND failed_at < now() - "
    "interval '30 min'",
    "rare.two": "task_name LIKE '%rare.two%'",
    'args:"order 4"': "args LIKE '%order 4%'",
}
_CHANGES = (
    "status = 'FAILED', failed_at = now() - interval '1 h', error_code = 'TIMEOUT'",
    "status = 'FAILED', failed_at = now(), error_code = 'RATE_LIMITED'",
    "status = 'RUNNING', started_at = now(), claimed_by_worker_id = 'web-1:7'",
    "status = 'PENDING', error_code = NULL, claimed_by_worker_id = NULL, retry_count = retry_count + 1",
    "status = 'COMPLETED', completed_at = now()",
)


class Traffic:
    """Sends, changes and deletes tasks, some of which match a filter, among many that do not."""

    def __init__(self, connection: asyncpg.Connection, seed: int) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        self._sent = 0

    async def some(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            await self._random.choice((self._send, self._change, self._change, self._delete))()

    async def _send(self) -> None:
        self._sent += 1
        columns = {
            "task_name": self._random.choice(["'rare.one'", "'rare.two'", "'demo.add'"]),
            "queue_name": self._random.choice(["'bulk'", "'default'"]),
            "args": f"'[\"order {self._random.randint(1, 6)}\"]'",
        }
        age_s = self._random.choice([0, 0, 100, 3600])
        await send(self._connection, f"few-{self._sent:04}", age_s=age_s, **columns)

    async def _change(self) -> None:
        change = self._random.choice(_CHANGES)
        await self._connection.execute(
            f"UPDATE horsies_tasks SET {change} WHERE id = (SELECT id FROM horsies_tasks WHERE id LIKE 'few-%'"
            " ORDER BY md5(id || $1) LIMIT 1)",
            str(self._random.random()),
        )

    async def _delete(self) -> None:
        if self._sent > 20:
            await self._connection.execute(
                "DELETE FROM horsies_tasks WHERE id = $1", f"few-{self._random.randint(1, self._sent):04}"
            )


async def found_by_sql(connection: asyncpg.Connection, where: str) -> list[str]:
    rows = await connection.fetch(f"SELECT id FROM horsies_tasks WHERE {where} ORDER BY created_at DESC, id DESC")
    return [row["id"] for row in rows]


async def test_what_is_shown_is_what_sql_finds(database: str, connection: asyncpg.Connection) -> None:
    traffic = Traffic(connection, seed=7)
    await on_child_exit(connection, 21_000)
    for _ in range(10):
        await traffic.some()
    async with AsyncExitStack() as open_lists:
        lists = {
            text: (await open_lists.enter_async_context(shown(database, TaskNeed(parse(text)))))[1] for text in FILTERS
        }
        for _ in range(4):
            for _ in range(5):
                await traffic.some()
            for text, published in lists.items():
                right = await found_by_sql(connection, FILTERS[text])
                await published.until(lambda snapshot, right=right: ids(snapshot) == right)
