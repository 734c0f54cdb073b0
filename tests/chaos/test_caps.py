"""Caps with real workers: no more tasks run than a cap allows, even if claims, starts and workers are delayed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from chaos_scene import Scene, scene
from test_locks import are, locker

pytestmark = pytest.mark.chaos

CAP = {"TEST_CAP": "3"}
MODES = [
    pytest.param(CAP, (8, 8, 8), id="prefetch"),
    pytest.param(CAP, (0, 0, 8), id="some prefetch"),
    pytest.param(CAP, (0, 0, 0), id="queue"),
    pytest.param({"TEST_CLUSTER_CAP": "3"}, (0, 0, 0), id="cluster"),
    pytest.param({"TEST_CLUSTER_CAP": "3", "TEST_CAP": "4"}, (0, 0, 0), id="queue and cluster"),
]
QUICK = {"TEST_STALE_MS": "2000", "TEST_BEAT_MS": "1000"}
SLOW_STARTS = """
CREATE FUNCTION start_slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_sleep(0.03);
    RETURN NEW;
END $$;
CREATE TRIGGER start_slowly BEFORE UPDATE ON horsies_tasks FOR EACH ROW
    WHEN (OLD.status = 'CLAIMED' AND NEW.status = 'RUNNING') EXECUTE FUNCTION start_slowly();
"""
"""Delays, so that others claim and start between a task's claim and its start, or during a start."""
modes = pytest.mark.parametrize(("environ", "prefetch"), MODES)


async def crew(cluster: Scene, prefetch: Sequence[int], processes: int = 4) -> None:
    for ahead in prefetch:
        await cluster.worker("--processes", str(processes), TEST_PREFETCH=str(ahead))


@asynccontextmanager
async def counted(database: str) -> AsyncIterator[list[int]]:
    """The numbers of RUNNING tasks, sampled all the time.

    The audit's transitions are in the order of the updates: there, a start that did not wait for the commit of an
    earlier end looks right.
    """
    connection = await asyncpg.connect(database)
    most = [0]

    async def look() -> None:
        while True:
            most[0] = max(
                most[0], await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING'")
            )

    looking = asyncio.create_task(look())
    try:
        yield most
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await connection.close()
    assert most[0] == 3, "the cap was exceeded, or never reached"


@modes
async def test_three_workers_share_a_cap(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str], prefetch: tuple[int, ...]
) -> None:
    async with scene(database, tmp_path, f"cap: {request.node.callspec.id}", **environ) as cluster:
        await cluster.connection.execute(SLOW_STARTS)
        await crew(cluster, prefetch, processes=2)  # twice the cap
        async with counted(database):
            labels = await cluster.send("work", 60, 0.05)
            await are(cluster, labels, "COMPLETED", 30)
        audit = await cluster.audit(cap=3)
        assert audit.violations == []


@modes
async def test_claims_and_runs_that_are_locked_past_their_lease_keep_their_places(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str], prefetch: tuple[int, ...]
) -> None:
    async with scene(database, tmp_path, f"cap and locks: {request.node.callspec.id}", **QUICK, **environ) as cluster:
        await crew(cluster, prefetch)
        async with counted(database):
            labels = await cluster.send("work", 60, 0.2)
            for _ in range(3):
                some = "SELECT FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') FOR UPDATE SKIP LOCKED"
                async with locker(database, some):
                    await asyncio.sleep(5)  # a lease takes 4 s
            await are(cluster, labels, "COMPLETED", 30)
        audit = await cluster.audit(cap=3)
        assert audit.violations == []


@modes
async def test_a_worker_that_is_stopped_and_goes_on_is_counted_once(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str], prefetch: tuple[int, ...]
) -> None:
    """Its runs are over for the database after 2 s; its user code is stopped and resumed with it."""
    async with scene(database, tmp_path, f"cap and SIGSTOP: {request.node.callspec.id}", **QUICK, **environ) as cluster:
        await crew(cluster, prefetch)
        async with counted(database):
            await cluster.send("work", 60, 0.2)
            for number in range(3):
                await asyncio.sleep(0.5)
                stopped = cluster.workers[number]
                os.killpg(stopped.pid, signal.SIGSTOP)
                await asyncio.sleep(4)
                os.killpg(stopped.pid, signal.SIGCONT)
            await cluster.settled(60)
        audit = await cluster.audit(cap=3, crashes=None)
        assert [words for words in audit.violations if "cap of" in words or "is " in words] == []
