"""A link and feeds for tests, with short intervals; tests wait for published snapshots instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import asyncpg

from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.operations.target import Actor
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.pace import Rhythm
from horsies_tui.feed.status import LinkStatus

T = TypeVar("T")

QUICK = Rhythm(tick_s=0.02, poll_s=0.05, reconcile_s=60.0, settle_s=0.1)
NEVER_AT_REST = Rhythm(tick_s=0.02, poll_s=0.05, reconcile_s=60.0, settle_s=3600.0)
ACTOR = Actor("ops", "bastion")


class Published(Generic[T]):
    """All snapshots published, in order."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self._more = asyncio.Event()

    def __call__(self, snapshot: T) -> None:
        self.all.append(snapshot)
        self._more.set()

    @property
    def last(self) -> T:
        return self.all[-1]

    async def until(self, condition: Callable[[T], Any]) -> T:
        """Wait until the last snapshot meets the condition, and return it."""
        async with asyncio.timeout(15):
            while not self.all or not condition(self.last):
                self._more.clear()
                await self._more.wait()
        return self.last


def choice(url: str) -> DatabaseChoice:
    return DatabaseChoice(DatabaseUrl.parse(url), "the test's")


@asynccontextmanager
async def linked(url: str, **options: Any) -> AsyncIterator[tuple[DatabaseLink, Published[LinkStatus]]]:
    """A running link, and the statuses that it published."""
    options = {"read_only": False, "actor": ACTOR, "clock": DatabaseClock(), **options}
    link = DatabaseLink(choice(url), **options)
    statuses: Published[LinkStatus] = Published()
    link.on_status(statuses)
    running = asyncio.create_task(link.run())
    try:
        yield link, statuses
    finally:
        assert not running.done(), "run() has ended by itself"
        running.cancel()
        await asyncio.wait([running])


@asynccontextmanager
async def reading(
    kind: Callable[..., Any], url: str, need: Any = None, rhythm: Rhythm = QUICK
) -> AsyncIterator[tuple[Any, Published[Any], DatabaseLink]]:
    """A feed that has read what it needs, on a link with notifications."""
    async with linked(url) as (link, statuses):
        published: Published[Any] = Published()
        feed = kind(link, published, rhythm=rhythm)
        feed.ask(need)
        feed.start()
        await statuses.until(lambda status: status.state == "LIVE")
        await published.until(lambda snapshot: not snapshot.loading)
        yield feed, published, link
        feed.stop()


async def send(conn: asyncpg.Connection, *ids: str, age_s: float = 0, **columns: str) -> None:
    """PENDING tasks of this age, each a moment younger than the one before."""
    given = {"task_name": "'demo.add'", "queue_name": "'default'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, created_at, sent_at, enqueued_at, {', '.join(given)})"
        f" SELECT id, at, at, at, {', '.join(given.values())}"
        "  FROM unnest($1::text[]) WITH ORDINALITY AS task (id, n)"
        " CROSS JOIN LATERAL (SELECT now() - $2 * interval '1 s' + n * interval '1 ms' AS at) AS made",
        list(ids),
        age_s,
    )


async def history(conn: asyncpg.Connection, count: int) -> None:
    """Tasks `old-000001` (the newest) and so on, each completed, one second apart."""
    await conn.execute(
        """INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, started_at,
                                      completed_at)
           SELECT 'old-' || lpad(n::text, 6, '0'), 'demo.old', 'q' || n % 3, 'COMPLETED', at, at, at, at
             FROM generate_series(1, $1) n
            CROSS JOIN LATERAL (SELECT now() - n * interval '1 s' - interval '1 h' AS at) AS made""",
        count,
    )


def ids(snapshot: Any) -> list[str]:
    return [row.id for row in snapshot.rows]


def old(first: int, last: int) -> list[str]:
    return [f"old-{number:06}" for number in range(first, last + 1)]
