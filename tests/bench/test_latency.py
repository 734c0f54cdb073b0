"""An idle, warm worker: how soon user code runs after a send, and what the worker costs while it waits.

`pytest -m bench -n 0 -s tests/bench/test_latency.py` prints the figures.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult

pytestmark = pytest.mark.bench

HORSIES = Path(sys.executable).with_name("horsies")
HERE = Path(__file__).parent


@pytest.fixture
def worker(database: str) -> Iterator[psutil.Process]:
    process = subprocess.Popen(
        [HORSIES, "worker", "bench_app:app", "--processes", "2", "--loglevel", "WARNING"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        cwd=HERE,
        stdout=subprocess.DEVNULL,
    )
    yield psutil.Process(process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait(30)


async def test_pickup_and_idle_cost(database: str, connection: asyncpg.Connection, worker: psutil.Process) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))

    @app.task("now")
    def now() -> TaskResult[float, TaskError]:
        raise AssertionError("it runs in the worker, not here")

    picked_up, seen = [], []
    for number in range(220):
        begin = time.time()
        handle = (await now.send_async()).unwrap()
        started = (await handle.get_async(20_000)).unwrap()
        if number >= 20:  # the first ones warm caches and plans
            picked_up.append((started - begin) * 1000)
            seen.append((time.time() - begin) * 1000)
        await asyncio.sleep(0.05)
    cuts = statistics.quantiles(picked_up, n=100)
    print(
        f"\nenqueue to user code: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms; "
        f"round trip p50 {statistics.median(seen):.2f} ms"
    )
    app.get_broker().close()

    await asyncio.sleep(25)  # idle backends report their statistics only with their next statements
    tree = [worker, *worker.children()]
    counts = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = current_database()"
    cpu, queries = sum(sum(one.cpu_times()[:2]) for one in tree), await connection.fetchval(counts)
    await asyncio.sleep(20)
    cpu = sum(sum(one.cpu_times()[:2]) for one in tree) - cpu
    queries = float(await connection.fetchval(counts) - queries)
    print(f"idle: {cpu / 20:.2%} CPU, {queries / 20:.2f} transactions/s")
    assert cuts[49] < 3
    assert cuts[98] < 10
    assert cpu / 20 < 0.01
    assert queries / 20 < 3
