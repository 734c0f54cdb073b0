"""No-op tasks for the benches."""

from __future__ import annotations

import asyncio
import os
import time

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    PostgresConfig,
    QueueMode,
    RecoveryConfig,
    TaskError,
    TaskResult,
)

prefetch = int(os.environ.get("BENCH_PREFETCH", "0"))
# `capped` is served first, and two of its tasks fill it.
queues = [
    CustomQueueConfig(name="capped", priority=1, max_concurrency=2),
    CustomQueueConfig(name="default", priority=2, max_concurrency=1_000),
]
with_queues = os.environ.get("BENCH_QUEUES") == "on"
app = Horsies(
    AppConfig(
        queue_mode=QueueMode.CUSTOM if with_queues else QueueMode.DEFAULT,
        custom_queues=queues if with_queues else None,
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=prefetch,
        claim_lease_ms=60_000,
        recovery=RecoveryConfig(check_interval_ms=600_000 if os.environ.get("BENCH_SWEEPS") == "off" else 30_000),
    )
)


queue = {"queue_name": "default"} if with_queues else {}


@app.task("nothing", **queue)
def nothing() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("nothing_async", **queue)
async def nothing_async() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("now", **queue)
def now() -> TaskResult[float, TaskError]:
    return TaskResult(ok=time.time())


@app.task("busy", **queue)
def busy() -> TaskResult[None, TaskError]:
    """Keeps its child process busy until the bench ends."""
    time.sleep(3_600)
    return TaskResult(ok=None)


@app.task("busy_async", **queue)
async def busy_async() -> TaskResult[None, TaskError]:
    await asyncio.sleep(3_600)
    return TaskResult(ok=None)
