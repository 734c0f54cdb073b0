"""What a key costs on each screen, in processor time and bytes: both are the same beside other tests.

The times from key to paint, which follow from them on a quiet machine, are measured by `-m bench`.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pty_console import PtyConsole
from test_activity_numbers import NIGHT
from test_numbers import latencies, told
from test_overview_numbers import queues
from test_workflows_numbers import ORDERS

pytestmark = pytest.mark.bench

KEYS = 12
SCREENS = {
    "tasks": ("2", "shop.", 1_000),
    "workflows": ("4", "order", 1_000),
    "recovery": ("5", "WHAT", 3_000),
    "activity": ("7", "200 changes", 3_000),
    "overview": ("1", "all queues", 2_000),
}
"""The key to it, words on it, and the bytes of a step; the third and the fourth show the story of the line."""


def costs(console: PtyConsole) -> tuple[float, float]:
    """Seconds of the processor, and bytes, for each of some steps down and up again."""
    latencies(console, 4)  # the first screen may still be on its way
    before, received = console.cpu_s, console.received
    latencies(console, KEYS)
    return (console.cpu_s - before) / KEYS, (console.received - received) / KEYS


async def test_a_key_takes_little_of_the_processor_and_of_the_link(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    await connection.execute(NIGHT + ORDERS)
    await queues(connection)
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        for screen, (key, words, most) in SCREENS.items():
            console.type(key)
            await asyncio.to_thread(console.until, words)
            seconds, sent = await asyncio.to_thread(costs, console)
            told(f"a key on {screen}", f"{seconds * 1000:.1f} ms, {sent:.0f} B", f"< 25 ms, < {most} B")
            assert seconds < 0.025, screen
            assert sent < most, screen
