"""The database is down for a while: no living worker is counted as lost, and every dead one is found."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from chaos_scene import HERE, Scene, scene, until
from forked_commands import HORSIES
from own_server import own_server

pytestmark = pytest.mark.chaos

THRESHOLD_S, BEAT_S, CHECK_S = 6.0, 2.0, 1.0
SPARE_S = 1.25 * BEAT_S + 1.0
CRASHES = "SELECT count(*) FROM horsies_task_attempts WHERE error_code = 'WORKER_CRASHED'"


async def sweep_now(url: str) -> str:
    """The output of `horsies recovery run`."""
    command = [str(HORSIES), "recovery", "run", "--yes", "--database-url", url]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=HERE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return said.decode()


async def reconnect(cluster: Scene) -> None:
    """Reconnect after the server was stopped."""
    cluster.connection.terminate()
    cluster.connection = await asyncpg.connect(cluster.url)


async def recovered_within(cluster: Scene, count: int, patience_s: float) -> float:
    """Seconds until this many runs were counted as crashed."""
    begin = time.monotonic()
    async with asyncio.timeout(patience_s):
        while await cluster.connection.fetchval(CRASHES) < count:  # noqa: ASYNC110 - the database has no event for this
            await asyncio.sleep(0.05)
    return time.monotonic() - begin


async def kill(cluster: Scene, number: int) -> None:
    worker = cluster.workers[number]
    os.killpg(worker.pid, signal.SIGKILL)
    await asyncio.to_thread(worker.wait)


async def test_a_new_worker_after_an_outage_counts_no_living_run_as_crashed(tmp_path: Path) -> None:
    """15 s without a server, then a new worker and a manual sweep at once: 60 of 60 runs were counted as crashed."""
    async with (
        own_server() as server,
        scene(server.url, tmp_path, "server stopped for 15 s, a fresh worker and a sweep by hand") as cluster,
    ):
        await cluster.worker("--processes", "8")
        await cluster.worker("--processes", "8")
        labels = await cluster.send("work", 16, 30.0)
        await cluster.begun(labels)
        server.stop()
        await asyncio.sleep(13)
        fresh = asyncio.create_task(cluster.worker("--processes", "4"))
        await asyncio.sleep(2)
        await server.start()
        said = await sweep_now(server.url)
        assert "spared: " in said or "nothing to sweep" in said  # depends on how quickly the workers beat again
        await fresh
        await reconnect(cluster)
        await cluster.settled(45)
        audit = await cluster.audit()
        assert audit.violations == []


async def test_a_dead_worker_is_found_although_connections_are_reset_all_the_time(
    database: str, tmp_path: Path
) -> None:
    """A grace period that renewed itself left 20 tasks unrecovered for 140 s: resets of 0.3 s every 25 s."""
    async with (
        BlackholeProxy(database) as proxy,
        scene(database, tmp_path, "connections reset all the time", worker_url=proxy.url) as cluster,
    ):
        await cluster.worker("--processes", "8")
        labels = await cluster.send("work", 8, 60.0)
        await cluster.begun(labels)
        await cluster.worker("--processes", "8")
        await kill(cluster, 0)
        recovering = asyncio.create_task(recovered_within(cluster, 8, 40))
        while not recovering.done():
            proxy.refuse(1_000)
            proxy.cut()
            await asyncio.sleep(0.3)
            proxy.refuse(0)
            await asyncio.sleep(1.7)
        assert await recovering < THRESHOLD_S + CHECK_S + 4


async def locked(connection: asyncpg.Connection, table: str, seconds: float) -> None:
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        await asyncio.sleep(seconds)


async def test_after_an_outage_outcomes_come_before_claims(tmp_path: Path) -> None:
    """New runs began 0.2 s after the server was back, outcomes of old ones were stored up to 21.4 s later."""
    async with own_server() as server, scene(server.url, tmp_path, "server stopped while runs end") as cluster:
        for _ in range(4):
            await cluster.worker("--processes", "2")
        first = await cluster.send("work", 8, 6.0)
        await cluster.begun(first)
        await cluster.send("work", 40, 0.5)
        await asyncio.sleep(4)
        server.stop()
        runs = cluster.runs
        await until(lambda: all(each.ended for label in first for each in runs()[label]), 20)
        await asyncio.sleep(8)
        await server.start()
        await reconnect(cluster)
        await cluster.settled(60)
        changes = await cluster.connection.fetch("SELECT * FROM transitions ORDER BY number")
        old = {cluster.ids[label] for label in first}
        for worker in {row["worker"] for row in changes if row["worker"]}:
            mine = [row for row in changes if row["worker"] == worker]
            stored = [row["number"] for row in mine if row["task_id"] in old and row["new"] == "COMPLETED"]
            taken = [row["number"] for row in mine if row["task_id"] not in old and row["old"] == "PENDING"]
            assert len(stored) == 2
            assert max(stored) < min(taken, default=max(stored) + 1)
        audit = await cluster.audit()
        assert audit.violations == []
