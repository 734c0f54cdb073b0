"""Workers that are killed under load, or stopped while the database is down."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from blackhole_proxy import BlackholeProxy
from chaos_scene import scene


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
