"""Schedules while the database is away: what was missed is caught up, each slot once, and orders are kept."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from forked_commands import HORSIES
from own_server import own_server

pytestmark = pytest.mark.chaos

PROCESS = Path(__file__).parents[1] / "process"
SECOND = timedelta(seconds=1)
AWAY_S = 8.0
OTHERS = ("green", "blue", "nightly")


def scheduler(url: str) -> subprocess.Popen[bytes]:
    catch_up = {"TEST_SCHEDULE": '{"catch_up_missed": true}', "TEST_FLOWS": '{"nightly": "go"}'}
    environ = {**os.environ, "HORSIES_DATABASE_URL": url, **catch_up}
    return subprocess.Popen([HORSIES, "scheduler", "schedule_app:app"], env=environ, cwd=PROCESS)


async def count_of(connection: asyncpg.Connection, name: str) -> int:
    sql = "SELECT count(*) FROM horsies_schedule_runs WHERE schedule_name = $1"
    return int(await connection.fetchval(sql, name))


async def used(connection: asyncpg.Connection, names: Sequence[str], count: int) -> None:
    """Return when each of these schedules has used so many slots."""
    async with asyncio.timeout(60):
        for name in names:
            while await count_of(connection, name) < count:  # noqa: ASYNC110 - the database has no event for this
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
async def test_slots_that_were_missed_while_the_server_was_away_are_sent_once_each(how: signal.Signals) -> None:
    async with own_server() as server:
        running = [scheduler(server.url) for _ in range(2)]
        try:
            connection = await asyncpg.connect(server.url)
            await used(connection, ("red", *OTHERS), 3)
            await connection.execute("UPDATE horsies_schedules SET paused_at = now() WHERE schedule_name = 'red'")
            paused = await count_of(connection, "red")
            connection.terminate()
            server.stop(how)
            await asyncio.sleep(AWAY_S)
            await server.start()
            connection = await asyncpg.connect(server.url)
            await used(connection, OTHERS, 3 + round(AWAY_S) + 3)
        finally:
            for process in running:
                process.terminate()
                await asyncio.to_thread(process.wait, 30)
        rows = await connection.fetch(
            "SELECT run.schedule_name, run.slot, task.id AS task, flow.id AS flow FROM horsies_schedule_runs run"
            " LEFT JOIN horsies_tasks task ON task.id = run.task_id"
            " LEFT JOIN horsies_workflows flow ON flow.id = run.workflow_id ORDER BY run.slot"
        )
        for name in OTHERS:
            mine = [row for row in rows if row["schedule_name"] == name]
            slots = [row["slot"] for row in mine]
            assert {after - earlier for earlier, after in itertools.pairwise(slots)} == {SECOND}
            assert all(row["flow" if name == "nightly" else "task"] for row in mine)
        assert await count_of(connection, "red") == paused
        sent = await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE NOT is_workflow_task")
        assert sent == sum(row["schedule_name"] != "nightly" for row in rows)
        assert await connection.fetchval("SELECT count(*) FROM horsies_schedulers") == 0
        await connection.close()
