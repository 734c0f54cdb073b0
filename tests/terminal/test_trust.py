"""Guarantees at the terminal: found rows stay, a verb acts on the chosen row, the letters of a reason are text."""

from __future__ import annotations

import asyncio

import asyncpg
from pty_console import PtyConsole

SEND = """
INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, enqueued_at)
SELECT gen_random_uuid(), $1, 'mail', clock_timestamp(), clock_timestamp() FROM generate_series(1, $2)
"""
REASON = "ERP back, retry: why quiz lazy jumbled foxes? QUICK BROWN FOX JUMPS OVER"


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
