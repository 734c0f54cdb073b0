"""Suggestions for filters: read when a filter is opened, rarely, and kept when the database is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg
from feed_steps import Published, linked
from view_steps import insert

from horsies_tui.feed.values import KnownValues

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
