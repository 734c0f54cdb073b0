"""The frame while another session locks our tables: nothing old looks current, and the session is named."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from frame_steps import console, frame, lines, live, options, until
from textual.pilot import Pilot

from horsies_tui.feed.status import LinkState, LinkStatus

SENT = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ($1, 'shop.send', 'default')"
LOCK = "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE"
WORKER = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
    max_claim_per_worker, queues, recovery_config, tasks_running, tasks_claimed, worker_started_at)
VALUES ('web-1-7-0a', now() + interval '1 hour', 'web-1', 7, 8, 8, 8, '{default}', '{}', 0, 0, now())
"""


@pytest.fixture
async def psql(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    yield connected
    await connected.close()


def is_old(pilot: Pilot[int]) -> bool:
    return pilot.app.stage.has_class("-stale")


def text(pilot: Pilot[int]) -> str:
    return "\n".join(frame(pilot))


@pytest.mark.parametrize("table", ["horsies_tasks", "horsies_worker_states"])
async def test_a_locked_table_takes_the_verdict_away_and_names_the_session(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, table: str
) -> None:
    await connection.execute(WORKER)
    async with console(options(database, screen="overview"), (140, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: "Healthy" in text(pilot) and "Nothing needs action" in text(pilot))
        states: list[LinkState] = []

        def note(status: LinkStatus) -> None:
            states.append(status.state)

        async with psql.transaction():
            await psql.execute(LOCK.format(table))
            pid = psql.get_server_pid()
            await until(pilot, lambda: f"by pid {pid}" in frame(pilot)[0], "the status cell")
            pilot.app.link.on_status(note)
            await until(pilot, lambda: "UNKNOWN: nothing newer than" in text(pilot) and is_old(pilot), "the verdict")
            await until(pilot, lambda: f"blocked by pid {pid} psql" in frame(pilot)[2], "the line above the view")
            assert f"idle in transaction after {LOCK.format(table)}" in frame(pilot)[2]
            assert frame(pilot)[2].startswith(" Q ends it: ")
            assert "Healthy" not in text(pilot)
            # Other reads are answered meanwhile; LIVE is for all that is shown or not at all.
            for _ in range(3):
                seen = len(states)
                await pilot.press("ctrl+r")
                await until(pilot, lambda seen=seen: len(states) > seen, "a change of the status")
            assert set(states) == {LinkState.BLOCKED}
            await pilot.press("exclamation_mark")
            await until(pilot, lambda: f"blocked by pid {pid}" in "\n".join(lines(pilot)), "the list of errors")
            await pilot.press("escape")
        await live(pilot)
        await until(pilot, lambda: "Healthy" in text(pilot) and not is_old(pilot))
        assert "blocked" not in frame(pilot)[2]


async def test_a_list_whose_table_is_locked_is_dimmed_and_where_another_is_it_is_live_and_a_line_says_what_is_old(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    await connection.execute(SENT, "first")
    async with console(options(database), (150, 30)) as pilot:
        await live(pilot)
        await until(pilot, lambda: "first" in text(pilot))
        async with psql.transaction():
            await psql.execute(LOCK.format("horsies_worker_states"))
            pid = psql.get_server_pid()

            def is_told() -> bool:
                line = frame(pilot)[2]
                beside = "the alerts of the title" in line or "the findings" in line
                return beside and "are of" in line and f"blocked by pid {pid}" in line

            await pilot.press("ctrl+r")
            await until(pilot, lambda: is_told() and "LIVE" in frame(pilot)[0] and not is_old(pilot), "LIVE, and told")
            await connection.execute(SENT, "second")
            await until(pilot, lambda: "second" in text(pilot) and not is_old(pilot))
        await until(pilot, lambda: "are of" not in frame(pilot)[2])
        async with psql.transaction():
            await psql.execute(LOCK.format("horsies_tasks"))
            # Nobody told the list of a change: it looks again by itself, at the latest when asked to.
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "BLOCKED" in frame(pilot)[0] and is_old(pilot))
            assert "first" in text(pilot)
            await psql.execute(SENT, "third")
        await live(pilot)
        await until(pilot, lambda: "third" in text(pilot) and not is_old(pilot))


@pytest.mark.parametrize("screen", ["overview", "activity"])
async def test_a_lock_that_has_ended_is_not_followed_by_a_slow_server(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, screen: str
) -> None:
    """Reads that were given up for the lock were put off for as long as if they had been slow by themselves."""
    await connection.execute(WORKER)
    async with console(options(database, screen=screen), (140, 30)) as pilot:
        await live(pilot)
        said: list[str] = []
        async with psql.transaction():
            await psql.execute(LOCK.format("horsies_tasks"))
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "BLOCKED" in frame(pilot)[0] and is_old(pilot))
            pilot.app.link.on_status(lambda status: said.extend(status.outage))
        await until(pilot, lambda: "LIVE" in frame(pilot)[0] and not is_old(pilot), "current again")
        await until(pilot, lambda: not pilot.app.link.status.failing, "all is read")
        assert not [each for each in said if "slow" in each]
