"""Leases: user code of one task never runs in two places, whichever process is frozen or cut off, and for how long."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from blackhole_proxy import BlackholeProxy
from chaos_scene import scene

pytestmark = pytest.mark.chaos

TASKS = ("work", "wait", "spin", "hold_gil")
SHORT = {"TEST_STALE_MS": "3000", "TEST_BEAT_MS": "1000"}


@pytest.mark.parametrize("group", [False, True], ids=["worker", "group"])
async def test_a_worker_that_is_stopped_for_long_leaves_no_run_behind(
    database: str, tmp_path: Path, group: bool
) -> None:
    signal_to = os.killpg if group else os.kill
    async with scene(
        database, tmp_path, f"{'a process group' if group else 'a worker'} is stopped for 8 s", **SHORT
    ) as cluster:
        stopped, _ = await cluster.worker("--processes", "8"), await cluster.worker("--processes", "8")
        labels = [label for task in TASKS for label in await cluster.send(task, 4, 7.0)]
        await cluster.begun(labels)
        signal_to(stopped.pid, signal.SIGSTOP)
        await asyncio.sleep(8)
        signal_to(stopped.pid, signal.SIGCONT)
        await cluster.settled(60)
        audit = await cluster.audit(crashes=None)
        assert audit.violations == []
        assert audit.crashed > 0


async def test_a_partition_longer_than_the_threshold_ends_what_ran_behind_it(database: str, tmp_path: Path) -> None:
    async with BlackholeProxy(database) as proxy, scene(database, tmp_path, "a partition of 15 s", **SHORT) as cluster:
        await cluster.worker("--processes", "8", url=proxy.url)
        await cluster.worker("--processes", "8")
        labels = [label for task in TASKS for label in await cluster.send(task, 4, 7.0)]
        await cluster.begun(labels)
        proxy.silence()
        await asyncio.sleep(15)
        proxy.restore()
        await cluster.settled(60)
        audit = await cluster.audit(crashes=None)
        assert audit.violations == []
        assert audit.crashed > 0
