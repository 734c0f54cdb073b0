"""Rows that the task list has found stay in it while tasks are sent: it shows what SQL finds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import asyncpg
from feed_steps import QUICK, Published, ids, linked, send

from horsies.query import parse
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot

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
