"""Caps with real workers: as many run as the cap allows, however claims, starts and workers are held up."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from chaos_scene import Scene, scene
from test_locks import are, locker

MODES = [
    pytest.param({"TEST_CAP": "3", "TEST_PREFETCH": "8"}, id="prefetch"),
    pytest.param({"TEST_CAP": "3"}, id="queue", marks=pytest.mark.chaos),
    pytest.param({"TEST_CLUSTER_CAP": "3"}, id="cluster", marks=pytest.mark.chaos),
    pytest.param({"TEST_CLUSTER_CAP": "3", "TEST_CAP": "4"}, id="queue and cluster", marks=pytest.mark.chaos),
]
QUICK = {"TEST_STALE_MS": "2000", "TEST_BEAT_MS": "1000"}


async def crew(cluster: Scene) -> None:
    for _ in range(3):
        await cluster.worker("--processes", "4")


@pytest.mark.parametrize("environ", MODES)
async def test_three_workers_share_a_cap(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str]
) -> None:
    async with scene(database, tmp_path, **environ) as cluster:
        await crew(cluster)
        labels = await cluster.send("work", 60, 0.05)
        await are(cluster, labels, "COMPLETED", 30)
        audit = await cluster.audit(f"cap: {request.node.callspec.id}", cap=3)
        assert audit.violations == []


@pytest.mark.chaos
@pytest.mark.parametrize("environ", MODES)
async def test_claims_and_runs_that_are_locked_past_their_lease_keep_their_places(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str]
) -> None:
    async with scene(database, tmp_path, **QUICK, **environ) as cluster:
        await crew(cluster)
        labels = await cluster.send("work", 60, 0.2)
        for _ in range(3):
            some = "SELECT FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') FOR UPDATE SKIP LOCKED"
            async with locker(database, some):
                await asyncio.sleep(5)  # a lease takes 4 s
        await are(cluster, labels, "COMPLETED", 30)
        audit = await cluster.audit(f"cap and locks: {request.node.callspec.id}", cap=3)
        assert audit.violations == []


@pytest.mark.chaos
@pytest.mark.parametrize("environ", MODES)
async def test_a_worker_that_is_stopped_and_goes_on_is_counted_once(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str]
) -> None:
    """Its runs are over for the database after 2 s; stopped with it, its user code goes on with it, too."""
    async with scene(database, tmp_path, **QUICK, **environ) as cluster:
        await crew(cluster)
        await cluster.send("work", 60, 0.2)
        for number in range(3):
            await asyncio.sleep(0.5)
            stopped = cluster.workers[number]
            os.killpg(stopped.pid, signal.SIGSTOP)
            await asyncio.sleep(4)
            os.killpg(stopped.pid, signal.SIGCONT)
        await cluster.settled(60)
        audit = await cluster.audit(f"cap and SIGSTOP: {request.node.callspec.id}", cap=3, crashes=None)
        assert [words for words in audit.violations if "cap of" in words or "is " in words] == []
