"""The overview's budgets at the terminal: it opens at once, sends few bytes when little happens, and keys are quick."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import ARRIVALS, SLOW, best_latencies, running, told

pytestmark = pytest.mark.bench

READY = ("LIVE", "busy", "all queues")


async def queues(connection: asyncpg.Connection) -> None:
    """Two queues with waiting tasks, so that the cursor can move.

    They have waited for 15 s: after 10 s without a first worker a note becomes an alert, which is no part of a rest.
    """
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at, enqueued_at)"
        " SELECT id, name, queue, at, at FROM (SELECT now() - interval '15 s' AS at) AS moment,"
        " (VALUES ('m', 'shop.mail', 'mail'), ('p', 'shop.pay', 'pay')) AS waiting (id, name, queue)"
    )


@pytest.mark.alone
async def test_it_opens_first_and_its_words_come_within_800_ms_of_exec(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    await queues(connection)
    taken: list[float] = []
    while len(taken) < 6 and min(taken, default=1.0) >= 0.8:
        with PtyConsole(quiet, screen="overview", installed=True) as console:
            taken.append(await asyncio.to_thread(console.until, "all queues"))
    told("the overview's first words after exec", f"{min(taken) * 1000:.0f} ms", "< 800 ms")
    assert min(taken) < 0.8


async def test_an_idle_overview_sends_its_clock_and_its_ages(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    await queues(connection)
    with PtyConsole(quiet, screen="overview") as console:
        await asyncio.to_thread(console.until, *READY)
        await asyncio.to_thread(console.pass_time, 2.0)
        idle = await asyncio.to_thread(console.pass_time, 10.0) / 10  # once a minute all charts move by one place
    told("an idle overview", f"{idle:.0f} B/s", "< 200 B/s")
    assert idle < 200


async def test_a_hundred_arrivals_a_second_cost_less_than_in_the_list(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    await queues(connection)
    with PtyConsole(quiet, screen="overview") as console:
        await asyncio.to_thread(console.until, *READY)
        async with running(connection, ARRIVALS.replace("1..40", "1..80")):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu = console.cpu_s
            sent = await asyncio.to_thread(console.pass_time, 4.0)
            share = (console.cpu_s - cpu) / 4
    told("100 arrivals/s, the overview", f"{sent / 4000:.1f} kB/s", "< 5 kB/s")
    told("100 arrivals/s, the overview", f"{share:.1%} of a core", "< 10%")
    assert sent / 4 < 5_000
    assert share < 0.1


@pytest.mark.alone
async def test_a_key_is_painted_at_once_also_on_a_slow_link(
    connection: asyncpg.Connection, quiet: dict[str, str]
) -> None:
    await queues(connection)
    with PtyConsole(quiet, screen="overview", rate=SLOW) as console:
        await asyncio.to_thread(console.until, *READY)
        await asyncio.to_thread(console.pass_time, 0.5)
        async with running(connection, ARRIVALS.replace("1..40", "1..300")):
            found = await asyncio.to_thread(best_latencies, console, 0.1)
    told(
        "overview, key → paint, 30 kB/s, 100 arrivals/s: p50, p99",
        f"{percentile(found, 0.5) * 1000:.0f}, {percentile(found, 0.99) * 1000:.0f} ms",
        "< 100 ms at p99",
    )
    assert percentile(found, 0.99) < 0.1
