"""No-op tasks for the benches."""

from __future__ import annotations

import os
import time

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, TaskError, TaskResult

prefetch = int(os.environ.get("BENCH_PREFETCH", "0"))
app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=prefetch,
        claim_lease_ms=60_000,
        recovery=RecoveryConfig(check_interval_ms=600_000 if os.environ.get("BENCH_SWEEPS") == "off" else 30_000),
    )
)


@app.task("nothing")
def nothing() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("nothing_async")
async def nothing_async() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("now")
def now() -> TaskResult[float, TaskError]:
    return TaskResult(ok=time.time())
