"""The frame while data are old: a feed that cannot read, a bug in a feed, a server that is down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from frame_steps import console, frame, lines, live, options, until
from textual.pilot import Pilot

from horsies.store.embedded import EmbeddedPlace, acquire
from horsies.store.embedded.trusted_paths import FileLock
from horsies.store.schema import create
from horsies_tui.feed import link
from horsies_tui.feed.status import LinkStatus
from horsies_tui.shell.error_list import ErrorSheet
from horsies_tui.shell.picker import Picker

SENT = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ($1, 'shop.send', 'default')"


async def told(pilot: Pilot[int], *words: str) -> None:
    """`!` lists these words."""
    await pilot.press("exclamation_mark")
    await until(pilot, lambda: isinstance(pilot.app.screen, ErrorSheet))
    await until(pilot, lambda: all(word in " ".join("\n".join(lines(pilot)).split()) for word in words))
    await pilot.press("escape")
    await until(pilot, lambda: not isinstance(pilot.app.screen, ErrorSheet))


def is_old(pilot: Pilot[int]) -> bool:
    return pilot.app.stage.has_class("-stale")


async def test_a_column_that_is_dropped_under_a_list_takes_live_away_until_it_is_back(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(SENT, "first")
    async with console(options(database), (140, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: any("first" in line for line in frame(pilot)))
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: any("No errors in this session" in line for line in lines(pilot)))
        await connection.execute("ALTER TABLE horsies_tasks RENAME COLUMN priority TO importance")
        await connection.execute(SENT, "second")
        await until(pilot, lambda: "tasks: column" in "\n".join(lines(pilot)), "an error appears in the open list")
        assert isinstance(pilot.app.screen, ErrorSheet)
        await pilot.press("escape")
        await until(pilot, lambda: "FAILED" in frame(pilot)[0])
        assert "LIVE" not in frame(pilot)[0]
        await until(pilot, lambda: is_old(pilot) and "does not exist" in frame(pilot)[2])
        assert "figures of " in frame(pilot)[2]
        assert any("first" in line for line in frame(pilot))
        await told(pilot, "tasks: column", "does not exist", "(horsies/views/")
        await connection.execute("ALTER TABLE horsies_tasks RENAME COLUMN importance TO priority")
        await live(pilot)
        await until(pilot, lambda: any("second" in line for line in frame(pilot)))
        assert not is_old(pilot)
        assert "figures of" not in frame(pilot)[2]


async def test_a_mistake_in_a_feed_is_told_with_its_place_and_the_feed_goes_on(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a defect")

    async with console(options(database, screen="workers"), (140, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: any("No worker was alive" in line for line in frame(pilot)))
        monkeypatch.setattr("horsies.views.workers._row", broken)
        monkeypatch.setattr("horsies.findings.cluster._consumers", broken)
        await connection.execute(WORKER, ["mail"])
        await until(pilot, lambda: "workers FAILED" in frame(pilot)[0])
        await until(pilot, lambda: "TypeError" in frame(pilot)[2] and is_old(pilot))
        await told(pilot, "workers: TypeError", "(horsies/views/workers.py:")
        # Another view reads other rows, and does not report this failure.
        await pilot.press("2")
        await until(pilot, lambda: "recovery FAILED" in frame(pilot)[0] and not is_old(pilot))
        await pilot.press("3")
        await until(pilot, lambda: "workers FAILED" in frame(pilot)[0])
        monkeypatch.undo()
        await pilot.press("ctrl+r")
        await live(pilot)
        await until(pilot, lambda: any("web-1:7" in line for line in frame(pilot)))


WORKER = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
    max_claim_per_worker, queues, recovery_config, tasks_running, tasks_claimed, worker_started_at)
VALUES ('web-1-7-0a', now(), 'web-1', 7, 8, 8, 8, $1::text[], '{}', 0, 0, now())
"""


async def test_an_outage_names_its_reason_and_its_figures_look_old(short_directory: Path) -> None:
    place = EmbeddedPlace(short_directory)
    held = acquire(place)
    prepared = await asyncpg.connect(held.url)
    await create(prepared)
    await prepared.execute(SENT, "first")
    await prepared.close()
    async with console(options(held.url), (140, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: any("first" in line for line in frame(pilot)))
        held.release()
        await stopped(place)
        await until(pilot, lambda: "STALE" in frame(pilot)[0] and "cannot connect to" in frame(pilot)[2])
        assert "figures of " in frame(pilot)[2]
        assert is_old(pilot)
        assert not isinstance(pilot.app.screen, Picker)
        await told(pilot, "cannot connect to")
        again = await asyncio.to_thread(acquire, place)
        await pilot.press("ctrl+r")
        await live(pilot)
        assert not is_old(pilot)
        again.release()


async def stopped(place: EmbeddedPlace) -> None:
    def wait() -> None:
        with FileLock(place.keeper_lock) as keeper:
            assert keeper.exclusive_within(30)

    await asyncio.to_thread(wait)


async def test_a_database_that_is_gone_is_asked_for_at_least_every_five_seconds(database: str) -> None:
    async with BlackholeProxy(database) as proxy, console(options(proxy.url), (140, 30)) as pilot:
        await live(pilot)
        pauses: list[float] = []
        grown = asyncio.Event()

        def measure(status: LinkStatus) -> None:
            pauses.append(status.next_try_in_s(pilot.app.link.clock.now()) or 0.0)
            if sum(pause > 2.5 for pause in pauses) == 2:
                grown.set()

        pilot.app.link.on_status(measure)
        proxy.refuse(10_000)
        proxy.cut()
        async with asyncio.timeout(30):
            await grown.wait()
        assert max(pauses) <= 5.0


async def test_ctrl_r_finds_the_database_again_at_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_FIRST_PAUSE_S", 600.0)
    async with BlackholeProxy(database) as proxy, console(options(proxy.url), (140, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: any("No tasks yet" in line for line in frame(pilot)))
        proxy.refuse(10_000)
        proxy.cut()
        await until(pilot, lambda: "STALE" in frame(pilot)[0])
        clock = pilot.app.link.clock
        await until(pilot, lambda: (pilot.app.link.status.next_try_in_s(clock.now()) or 0.0) > 2.0)
        proxy.refuse(0)
        await pilot.press("ctrl+r")
        await live(pilot)
