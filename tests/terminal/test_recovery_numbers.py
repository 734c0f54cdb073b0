"""The bytes that the recovery screen sends, idle and for each step of the cursor."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import best_latencies, told

pytestmark = pytest.mark.bench

STUCK = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)
SELECT 'i-' || n, 'shop.report_' || n, 'reports', 'FAILED', 'TASK_INTERRUPTED', now() - n * interval '71 min'
  FROM generate_series(1, 12) n;
"""


READY = ("LIVE", "12 need action", "R requeue")


@pytest.fixture
async def desk(database: str, connection: asyncpg.Connection, environ: dict[str, str]) -> dict[str, str]:
    """The environment of a console on a database with twelve findings."""
    await connection.execute(STUCK)
    return {**environ, "HORSIES_DATABASE_URL": database}


async def test_a_step_sends_what_is_told_of_the_next_and_rest_only_the_clock(desk: dict[str, str]) -> None:
    """A layout for each step sent the whole screen: 11 kB."""
    with PtyConsole(desk, screen="recovery") as console:
        await asyncio.to_thread(console.until, *READY)
        await asyncio.to_thread(console.pass_time, 2.0)
        idle = await asyncio.to_thread(console.pass_time, 3.0) / 3
        console.type("j")
        step = await asyncio.to_thread(console.pass_time, 0.3)
    told("an idle desk", f"{idle:.0f} B/s", "< 200 B/s")
    told("one step on the desk", f"{step} B", "< 3 000 B")
    assert idle < 200
    assert step < 3_000


@pytest.mark.alone
async def test_a_key_at_the_desk_is_painted_at_once(desk: dict[str, str]) -> None:
    """A layout for each step took 60 ms for one key in a hundred."""
    with PtyConsole(desk, screen="recovery") as console:
        await asyncio.to_thread(console.until, *READY)
        await asyncio.to_thread(console.key_to_paint, "j", 1)  # the first screen may still be on its way
        found = await asyncio.to_thread(best_latencies, console, 0.05)
    told("desk, key → paint, p99", f"{percentile(found, 0.99) * 1000:.0f} ms", "< 50 ms")
    assert percentile(found, 0.99) < 0.05
