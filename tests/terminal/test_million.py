"""The console on a table of a million rows, and over half an hour of work: costs that must not grow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg
import pytest
from old_tasks import fill
from pty_console import PtyConsole, percentile

ROWS = 1_000_000
SCREEN_B = 17_000
SOAK_S = 150.0
TRAFFIC = """
DO $$
BEGIN
    FOR turn IN 1..10000 LOOP
        INSERT INTO horsies_tasks (id, task_name, queue_name, kwargs)
        SELECT gen_random_uuid(), 'shop.new_' || n, 'mail', '{"order": 5}' FROM generate_series(1, 20) n;
        UPDATE horsies_tasks SET status = 'COMPLETED', started_at = now(), completed_at = now()
         WHERE id IN (SELECT id FROM horsies_tasks WHERE status = 'PENDING' ORDER BY created_at LIMIT 80);
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""


@pytest.fixture
async def million(database: str, environ: dict[str, str]) -> dict[str, str]:
    connection = await asyncpg.connect(database)
    await fill(connection, ROWS)
    await connection.close()
    return {**environ, "HORSIES_DATABASE_URL": database}


@pytest.mark.bench
@pytest.mark.alone
async def test_a_million_rows_are_there_at_once_and_so_is_each_end_of_them(million: dict[str, str]) -> None:
    starts = []
    for _ in range(3):
        with PtyConsole(million, installed=True) as console:
            starts.append(await asyncio.to_thread(console.until, "shop.task_1 "))
    with PtyConsole(million, installed=True) as console:
        await asyncio.to_thread(console.until, "LIVE", "1.0 M in table")
        console.type("\x07322h ago")
        await asyncio.to_thread(console.until, "Go to a time", "322h ago")
        middle = await asyncio.to_thread(_go, console, "\r", "…00900")
        oldest = await asyncio.to_thread(_go, console, "G", "…01000000")
        newest = await asyncio.to_thread(_go, console, "g", "…00000001")
        memory = console.memory_mb
    print(f"first rows after exec, {ROWS} rows  {min(starts) * 1000:.0f} ms   budget < 800 ms")
    for where, (took, sent) in {"row 900 000": middle, "the oldest row": oldest, "the newest row": newest}.items():
        print(f"to {where:20}             {took * 1000:.0f} ms, {sent} B")
        assert took < 0.5
        assert sent < 2 * SCREEN_B
    print(f"memory                              {memory:.0f} MB   budget < 120 MB")
    assert min(starts) < 0.8
    assert memory < 120


@pytest.mark.soak
async def test_memory_stays_flat_while_all_moves(database: str, quiet: dict[str, str]) -> None:
    """As many changes as a shop has in half an hour at 20 a second, with an operator who switches screens."""
    connection = await asyncpg.connect(database)
    traffic = asyncio.create_task(connection.execute(TRAFFIC))
    memory: list[float] = []
    with PtyConsole(quiet, installed=True) as console:
        await asyncio.to_thread(console.until, "LIVE", "shop.")
        until = time.monotonic() + SOAK_S
        while time.monotonic() < until:
            for keys in ("j", "j", "\r", "\x1b", "\x1b[6~", "\x1b[6~", "g", "5", "2", "e", "n", "\x1b", "f"):
                console.type(keys)
                await asyncio.to_thread(console.pass_time, 0.2)
            memory.append(console.memory_mb)
            assert console.process.poll() is None, console.text
    traffic.cancel()
    await asyncio.wait([traffic])
    await connection.close()
    settled, last = max(memory[: len(memory) // 3]), max(memory[-3:])
    print(f"memory: {memory[0]:.0f} MB at first, {settled:.0f} MB when it has settled, {last:.0f} MB at last")
    assert last < 120
    assert last - settled < 8


def _go(console: PtyConsole, key: str, words: str) -> tuple[float, int]:
    """Seconds and bytes until these words are on the screen."""
    before, pressed = console.received, time.perf_counter() - console.started
    console.type(key)
    return console.until(words) - pressed, console.received - before


@pytest.mark.bench
@pytest.mark.alone
async def test_a_million_rows_are_exported_while_keys_stay_quick(million: dict[str, str], tmp_path: Path) -> None:
    with PtyConsole(million, installed=True) as console:
        await asyncio.to_thread(console.until, "LIVE", "1.0 M in table")
        before, out, alone = console.memory_mb, tmp_path / "all.csv", list[float]()
        for _ in range(10):
            alone.append(await asyncio.to_thread(console.key_to_paint, "j", 1))
        console.type(f":export csv {out}\r")
        await asyncio.to_thread(console.until, "exporting to")
        began, keys, most = time.perf_counter(), list[float](), before
        while console.shows("exporting to"):
            keys.append(await asyncio.to_thread(console.key_to_paint, "j", 1))
            keys.append(await asyncio.to_thread(console.key_to_paint, "k", -1))
            most = max(most, console.memory_mb)
            await asyncio.sleep(0.2)
        took = time.perf_counter() - began
        lines = (await asyncio.to_thread(out.read_bytes)).count(b"\n")
    print(f"keys before                         p50 {percentile(alone, 0.5) * 1000:.0f} ms")
    print(f"export of {ROWS} rows               {took:.0f} s, {ROWS / took:.0f} rows/s")
    print(f"memory                              {before:.0f} MB before, at most {most:.0f} MB   budget < 120 MB")
    print(
        f"keys meanwhile                      p50 {percentile(keys, 0.5) * 1000:.0f} ms, "
        f"p99 {percentile(keys, 0.99) * 1000:.0f} ms   budget < 50 ms"
    )
    assert lines == ROWS + 1
    assert most < 120
    assert percentile(keys, 0.5) < 0.05
