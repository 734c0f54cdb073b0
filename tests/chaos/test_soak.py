"""A mixed load with faults for twenty minutes: no task is lost, no runs overlap, and no resource grows.

`pytest -m soak -n 0 -s tests/chaos/test_soak.py` prints the measurements. SOAK_MINUTES sets another length.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import asyncpg
import psutil
import pytest
from blackhole_proxy import BlackholeProxy
from chaos_scene import Scene, scene

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
SENDS_PER_S = 10
SETTLE_S = 90
MOST_GROWTH = 1.3
DEAD_PER_LIVING = 1.0

_SESSIONS = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'horsies worker%' ORDER BY pid
"""
_COUNTS = """
SELECT (SELECT sum(n_dead_tup) FROM pg_stat_user_tables) AS dead,
       (SELECT sum(n_live_tup) FROM pg_stat_user_tables) AS living,
       (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'horsies worker%') AS sessions
"""


@dataclass(frozen=True)
class Sample:
    """Memory and descriptors of the worker that no fault kills; sessions of all workers; rows of the database."""

    memory_mb: float
    descriptors: int
    sessions: int
    dead: int
    living: int


class Storm:
    """Random faults on workers; `steady` is exempt from those that end a worker or cut it off."""

    def __init__(self, cluster: Scene, proxy: BlackholeProxy, seed: int) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._choose = random.Random(seed)
        self.faults: dict[str, int] = {}

    @property
    def _doomed(self) -> list[subprocess.Popen[str]]:
        return [worker for worker in self._cluster.workers[1:] if worker.poll() is None]

    async def strike(self) -> None:
        fault: Callable[[], Awaitable[None]] = self._choose.choices(
            [self.child, self.session, self.worker, self.frozen, self.locked_row, self.locked_table, self.cut_off],
            weights=[4, 6, 1, 2, 3, 1, 1],
        )[0]
        name = fault.__name__
        await fault()
        self.faults[name] = self.faults.get(name, 0) + 1

    async def child(self) -> None:
        worker = self._choose.choice([worker for worker in self._cluster.workers if worker.poll() is None])
        if children := self._cluster.children(worker):
            self._choose.choice(children).kill()

    async def session(self) -> None:
        if rows := await self._cluster.connection.fetch(_SESSIONS):
            pid = self._choose.choice(rows)["pid"]
            await self._cluster.connection.execute("SELECT pg_terminate_backend($1)", pid)

    async def worker(self) -> None:
        os.killpg(self._choose.choice(self._doomed).pid, signal.SIGKILL)
        await self._cluster.worker("--processes", "3", url=self._proxy.url)

    async def frozen(self) -> None:
        worker = self._choose.choice(self._doomed)
        os.killpg(worker.pid, signal.SIGSTOP)
        await asyncio.sleep(self._choose.uniform(0.5, 8))
        os.killpg(worker.pid, signal.SIGCONT)

    async def locked_row(self) -> None:
        async with self._cluster.connection.transaction():
            await self._cluster.connection.execute(
                "SELECT FROM horsies_tasks WHERE status = 'RUNNING' LIMIT 1 FOR UPDATE SKIP LOCKED"
            )
            await asyncio.sleep(self._choose.uniform(0.5, 5))

    async def locked_table(self) -> None:
        async with self._cluster.connection.transaction():
            await self._cluster.connection.execute("LOCK TABLE horsies_tasks IN SHARE MODE")
            await asyncio.sleep(self._choose.uniform(0.2, 2))

    async def cut_off(self) -> None:
        """The workers behind the proxy are cut off in both directions for a while."""
        self._proxy.swallow()
        await asyncio.sleep(self._choose.uniform(1, 8))
        self._proxy.cut()


async def sample(cluster: Scene, counting: asyncpg.Connection) -> Sample:
    await counting.execute("SELECT pg_stat_force_next_flush()")
    row = await counting.fetchrow(_COUNTS)
    steady = psutil.Process(cluster.workers[0].pid)
    return Sample(
        steady.memory_info().rss / 1e6, steady.num_fds(), row["sessions"], int(row["dead"]), int(row["living"])
    )


async def send_on(cluster: Scene, url: str, end: float) -> None:
    """Over a separate connection, because the faults use the scene's."""
    choose = random.Random(0)
    sending = Scene(url, await asyncpg.connect(url), cluster.directory, cluster.name, {})
    sending.ids = cluster.ids
    try:
        while time.monotonic() < end:
            kind = choose.choices(["work", "wait", "spin", "hold_gil"], weights=[6, 4, 1, 1])[0]
            await sending.send(kind, SENDS_PER_S // 2, choose.uniform(0.02, 0.6))
            await asyncio.sleep(0.5)
    finally:
        await sending.connection.close()


async def watch(cluster: Scene, url: str, end: float, samples: list[Sample]) -> None:
    counting = await asyncpg.connect(url)
    try:
        while time.monotonic() < end:
            await asyncio.sleep(min(15.0, MINUTES * 3))
            samples.append(await sample(cluster, counting))
    finally:
        await counting.close()


@pytest.mark.soak
async def test_twenty_minutes_of_mixed_storm_lose_nothing_and_leave_nothing(database: str, tmp_path: Path) -> None:
    samples: list[Sample] = []
    async with (
        BlackholeProxy(database) as proxy,
        scene(database, tmp_path, "a mixed storm", TEST_STALE_MS="3000", TEST_BEAT_MS="1000") as cluster,
    ):
        await cluster.worker("--processes", "3")
        for _ in range(2):
            await cluster.worker("--processes", "3", url=proxy.url)
        storm = Storm(cluster, proxy, seed=int(time.time()))
        end = time.monotonic() + MINUTES * 60
        async with asyncio.TaskGroup() as group:
            group.create_task(send_on(cluster, database, end))
            group.create_task(watch(cluster, database, end, samples))
            while time.monotonic() < end:
                await storm.strike()
                await asyncio.sleep(random.uniform(0.2, 3))
        await cluster.settled(SETTLE_S)
        audit = await cluster.audit(crashes=None)
        print(
            f"\n{audit.tasks} tasks, {audit.runs} runs, {audit.crashed} crashed; faults {storm.faults}\n{samples[::8]}"
        )
        assert audit.violations == []
        check_flat(samples)


def check_flat(samples: list[Sample]) -> None:
    first, last = samples[len(samples) // 4 : len(samples) // 2], samples[-len(samples) // 4 :]
    for what in ("memory_mb", "descriptors", "sessions"):
        before, after = (median(getattr(one, what) for one in part) for part in (first, last))
        assert after <= MOST_GROWTH * before, f"{what} grew from {before:.0f} to {after:.0f}"
    assert last[-1].dead <= DEAD_PER_LIVING * last[-1].living + 10_000
