"""Guarantees at the terminal: found rows stay, a verb acts on the chosen row, the letters of a reason are text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pty_console import PtyConsole

SEND = """
INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, enqueued_at)
SELECT gen_random_uuid(), $1, 'mail', clock_timestamp(), clock_timestamp() FROM generate_series(1, $2)
"""
REASON = "ERP back, retry: why quiz lazy jumbled foxes? QUICK BROWN FOX JUMPS OVER"


@asynccontextmanager
async def thirty_a_second(url: str) -> AsyncIterator[None]:
    """New tasks all the time."""
    connection = await asyncpg.connect(url)

    async def write() -> None:
        while True:
            await connection.execute(SEND, "shop.sent", 3)
            await asyncio.sleep(0.1)

    writing = asyncio.create_task(write())
    yield
    writing.cancel()
    await asyncio.wait([writing])
    await connection.close()


async def test_sixty_rows_behind_many_newer_ones_stay_while_tasks_arrive(
    quiet: dict[str, str], connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "UPDATE horsies_tasks SET task_name = 'nightly_report'"
        " WHERE id IN (SELECT id FROM horsies_tasks ORDER BY id DESC LIMIT 60)"
    )
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(SEND, "shop.sent", 30_000)
    await connection.execute("SET session_replication_role = DEFAULT")
    await connection.execute("ANALYZE horsies_tasks")
    with PtyConsole(quiet, "--filter", "name:nightly_report") as console:
        await asyncio.to_thread(console.until, "LIVE", "60 match", "nightly_report")
        async with thirty_a_second(quiet["HORSIES_DATABASE_URL"]):
            with pytest.raises(AssertionError, match="the end of 'nightly_report' did not come"):
                await asyncio.to_thread(console.until_gone, "nightly_report", 2.5)
        assert "No task matches" not in console.text


async def test_a_sentence_typed_as_a_reason_acts_on_nothing_and_ctrl_y_does(
    quiet: dict[str, str], connection: asyncpg.Connection
) -> None:
    await connection.execute("UPDATE horsies_tasks SET status = 'FAILED' WHERE id LIKE '%0001'")
    with PtyConsole(quiet, "--filter", "status:failed") as console:
        await asyncio.to_thread(console.until, "LIVE", "✗ failed")
        console.type("R")
        await asyncio.to_thread(console.until, "esc Back, change nothing", "ctrl+y Requeue 1 task")
        console.type(REASON + "\r")
        await asyncio.to_thread(console.until, "ctrl+y does it, esc keeps all as it is")
        assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0
        console.type("\x19")
        await asyncio.to_thread(console.until, "1 requeued")
    assert await connection.fetchval("SELECT reason FROM horsies_operator_actions") == REASON
