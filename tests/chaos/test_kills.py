"""Workers that are killed under load, or stopped while the database is down."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from blackhole_proxy import BlackholeProxy
from chaos_scene import scene


@pytest.mark.chaos
async def test_a_killed_worker_costs_the_runs_that_it_had_begun(database: str, tmp_path: Path) -> None:
    async with scene(database, tmp_path, "a worker is killed", TEST_STALE_MS="3000", TEST_BEAT_MS="1000") as cluster:
        doomed = await cluster.worker("--processes", "4")
        labels = await cluster.send("work", 4, 8.0)
        await cluster.begun(labels)
        short = await cluster.send("work", 40, 0.2)
        await cluster.worker("--processes", "4")
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.wait()
        await cluster.begun(short)
        await cluster.begun(labels, times=2)
        await cluster.settled(45)
        audit = await cluster.audit(crashes=4)
        assert audit.violations == []
        assert audit.crashed == 4


@pytest.mark.chaos
@pytest.mark.parametrize("comes_back", [False, True], ids=["stays away", "comes back"])
async def test_a_stop_without_a_database(database: str, tmp_path: Path, comes_back: bool) -> None:
    async with (
        BlackholeProxy(database) as proxy,
        scene(database, tmp_path, "SIGTERM while the database is away", worker_url=proxy.url) as cluster,
    ):
        worker = await cluster.worker("--processes", "4", "--shutdown-grace", "2")
        labels = await cluster.send("work", 4, 1.0)
        await cluster.begun(labels)
        proxy.refuse(1_000_000)
        proxy.cut()
        worker.send_signal(signal.SIGTERM)
        await asyncio.sleep(4)
        assert worker.poll() is None
        if comes_back:
            proxy.refuse(0)
        else:
            worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 30) == (0 if comes_back else 1)
        lost = {record["id"] for record in cluster.log(worker) if record["event"] == "outcome lost"}
        assert lost == (set() if comes_back else set(cluster.ids.values()))
        if comes_back:
            audit = await cluster.audit()
            assert audit.violations == []
