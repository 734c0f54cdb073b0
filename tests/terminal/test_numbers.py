"""The console's budgets for time and bytes, measured at the terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pty_console import PtyConsole, percentile

WORK = """
DO $$
BEGIN
    FOR turn IN 1..{turns} LOOP
        UPDATE horsies_tasks
           SET status = CASE status WHEN 'RUNNING' THEN 'COMPLETED' ELSE 'RUNNING' END, started_at = now(),
               claimed_at = now(), completed_at = now()
         WHERE id = ANY (ARRAY(SELECT id FROM live ORDER BY random() LIMIT {rows}));
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""
ARRIVALS = """
DO $$
BEGIN
    FOR turn IN 1..40 LOOP
        INSERT INTO horsies_tasks (id, task_name, queue_name)
        SELECT gen_random_uuid(), 'shop.new_' || n, 'mail' FROM generate_series(1, 10) n;
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""
REPORTS = """
DO $$
BEGIN
    FOR turn IN 1..40 LOOP
        UPDATE horsies_progress SET done = done + 2, reported_at = clock_timestamp();
        COMMIT;
        PERFORM pg_sleep(1);
    END LOOP;
END
$$
"""
KEYS = 60
SLOW = 30_000
ROUNDS = 3


def told(what: str, value: str, budget: str) -> None:
    print(f"{what:52} {value:>14}   budget {budget}")


async def live_tasks(connection: asyncpg.Connection, count: int) -> None:
    """Insert this many `live` tasks, newer than all others, for WORK on the same connection."""
    await connection.execute("CREATE TEMP TABLE live (id text PRIMARY KEY)")
    await connection.execute(
        """WITH made AS (
               INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, created_at,
                                          enqueued_at, claimed_at, started_at)
               SELECT 'live-' || lpad(n::text, 6, '0'), 'shop.live_' || n % 9, 'mail', 'RUNNING', 'w-1', at, at, at, at
                 FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT now() - n * interval '71 ms' AS at) made
               RETURNING id)
           INSERT INTO live SELECT id FROM made""",
        count,
    )


@asynccontextmanager
async def running(connection: asyncpg.Connection, work: str) -> AsyncIterator[None]:
    storm = asyncio.create_task(connection.execute(work))
    try:
        yield
    finally:
        storm.cancel()
        await asyncio.wait([storm])


def latencies(console: PtyConsole, keys: int = KEYS) -> list[float]:
    """The times of single keys, down and up in turn, each pressed when the previous one is painted."""
    found = []
    for number in range(keys):
        found.append(console.key_to_paint("j" if number % 2 == 0 else "k", 1 if number % 2 == 0 else -1))
        console.pass_time(0.013)
    return found


def best_latencies(console: PtyConsole, most_s: float) -> list[float]:
    """The best of up to ROUNDS rounds, or all of them: a delay in each is the console's, a delay in one the machine's.

    The 99th percentile of one round is its slowest key; that of three is better known, as it leaves out one of 180.
    """
    found: list[float] = []
    every: list[float] = []
    for _ in range(ROUNDS):
        one = latencies(console)
        every += one
        found = min(filter(None, (found, one, every)), key=lambda each: percentile(each, 0.99))
        if percentile(found, 0.99) < most_s:
            break
    return list(found)


@pytest.mark.bench
@pytest.mark.alone
async def test_first_rows_come_within_800_ms_of_exec(quiet: dict[str, str]) -> None:
    """The machine may be busy: the first of up to six starts that is quick enough counts."""
    taken: list[float] = []
    while len(taken) < 6 and min(taken, default=1.0) >= 0.8:
        with PtyConsole(quiet, installed=True) as console:
            taken.append(await asyncio.to_thread(console.until, "shop.task_"))
    told("first rows after exec", f"{min(taken) * 1000:.0f} ms", "< 800 ms")
    assert min(taken) < 0.8


async def test_an_idle_screen_sends_its_clock_and_a_cell_that_changes_only_itself(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        while await asyncio.to_thread(console.pass_time, 3.0) >= 600:
            pass  # what it draws after the first rows is complete once it is idle
        before = console.received
        await connection.execute("UPDATE horsies_tasks SET error_code = 'CHANGED' WHERE task_name = 'shop.task_7'")
        console.type("\x12")
        await asyncio.to_thread(console.until, "CHANGED")
        sent = console.received - before
    told("one cell, and the clock", f"{sent} B", "< 400 B")
    assert sent < 400


@pytest.mark.bench
@pytest.mark.parametrize(
    ("changes", "most_bytes", "most_share"), [(100, 20_000, 0.10), (1_000, 20_000, 0.25)], ids=["100/s", "1000/s"]
)
async def test_rows_that_change_cost_little(
    connection: asyncpg.Connection, quiet: dict[str, str], changes: int, most_bytes: int, most_share: float
) -> None:
    seconds = 2
    await live_tasks(connection, 38 if changes == 100 else 500)
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        async with running(connection, WORK.format(turns=10 * seconds + 10, rows=changes // 10)):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu = console.cpu_s
            sent = await asyncio.to_thread(console.pass_time, float(seconds))
            share = (console.cpu_s - cpu) / seconds
    told(f"{changes} row changes/s", f"{sent / seconds / 1000:.1f} kB/s", f"< {most_bytes // 1000} kB/s")
    told(f"{changes} row changes/s", f"{share:.1%} of a core", f"< {most_share:.0%}")
    assert sent / seconds < most_bytes
    assert share < most_share


@pytest.mark.parametrize(("rate", "most_s_in_a_storm"), [(None, 0.05), (SLOW, 0.1)], ids=["fast link", "30 kB/s"])
@pytest.mark.bench
@pytest.mark.alone
async def test_a_key_is_painted_at_once(
    connection: asyncpg.Connection, quiet: dict[str, str], rate: int | None, most_s_in_a_storm: float
) -> None:
    """With both, changes fill the slow link for 45 ms four times a second; a key may come right after."""
    link = f"{rate // 1000} kB/s" if rate else "fast link"
    await live_tasks(connection, 500)
    with PtyConsole(quiet, rate=rate) as console:
        await asyncio.to_thread(console.until_ready)
        await asyncio.to_thread(console.key_to_paint, "j", 1)  # the first screen may still be on its way
        for changes, most_s in ((0, 0.05), (1_000, most_s_in_a_storm)):
            async with running(connection, WORK.format(turns=300, rows=changes // 10)):
                found = await asyncio.to_thread(best_latencies, console, most_s)
            told(
                f"key → paint, {link}, {changes} changes/s: p50, p99",
                f"{percentile(found, 0.5) * 1000:.0f}, {percentile(found, 0.99) * 1000:.0f} ms",
                f"< {most_s * 1000:.0f} ms at p99",
            )
            assert percentile(found, 0.99) < most_s


@pytest.mark.bench
async def test_a_slow_link_does_not_fall_behind_a_key_that_is_held_down(quiet: dict[str, str]) -> None:
    """A page is 12 kB, four tenths of a second: pages that would be outdated when they arrive are not drawn."""

    def hold_down(console: PtyConsole) -> float:
        for _ in range(45):
            console.type("\x1b[6~")
            console.pass_time(1 / 30)
        pressed = time.perf_counter() - console.started
        console.type("?")
        return console.until("Acting: each") - pressed

    with PtyConsole(quiet, rate=SLOW) as console:
        await asyncio.to_thread(console.until_ready)
        took = await asyncio.to_thread(hold_down, console)
    told("30 kB/s: after 1.5 s of page down, the help", f"{took * 1000:.0f} ms", "< 2 000 ms")
    assert took < 2.0


@pytest.mark.bench
async def test_a_hundred_arrivals_a_second_in_follow_mode_stay_within_the_same_budget(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    """Each quarter of a second all lines are different: the terminal cannot scroll by itself."""
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        async with running(connection, ARRIVALS):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu = console.cpu_s
            sent = await asyncio.to_thread(console.pass_time, 2.0)
            share = (console.cpu_s - cpu) / 2
            assert console.shows("FOLLOW", "shop.new_")
    told("100 arrivals/s, following", f"{sent / 2000:.1f} kB/s", "< 20 kB/s")
    told("100 arrivals/s, following", f"{share:.1%} of a core", "< 10%")
    assert sent / 2 < 20_000
    assert share < 0.1


@pytest.mark.bench
async def test_a_screen_of_bars_that_all_grow_costs_little(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    """Each of 38 tasks reports every second, as much as the worker stores. They are drawn every five seconds."""
    seconds = 10
    await live_tasks(connection, 38)
    # The durations of younger ones change every second, which is another 1.1 kB/s.
    await connection.execute("UPDATE horsies_tasks SET started_at = now() - interval '100 s' WHERE id LIKE 'live-%'")
    await connection.execute(
        "INSERT INTO horsies_progress SELECT id, started_at, 0, 100, 'rows', 2, 1, now()"
        "  FROM horsies_tasks WHERE id LIKE 'live-%'"
    )
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until, " 0 %")
        async with running(connection, REPORTS):
            await asyncio.to_thread(console.until, " left")
            sent = await asyncio.to_thread(console.pass_time, float(seconds))
    told("38 bars that grow", f"{sent / seconds / 1000:.1f} kB/s", "< 2.5 kB/s")
    assert sent / seconds < 2_500
