"""Workers that are killed under load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
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
