"""The application of the fault scenes: short thresholds, and tasks that record their runs in a ledger.

A line of the ledger is `time label run mark`: the system's monotonic clock, the task, its run, and `begin`, `tick` or
`end`. Each is one write to a file opened for appending, so processes do not mix their lines.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Mapping

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    PostgresConfig,
    QueueMode,
    RecoveryConfig,
    RetryPolicy,
    TaskError,
    TaskResult,
)
from horsies.config.app import WorkerResilienceConfig

TICK_S = 0.05
RETRIED = RetryPolicy.fixed([1] * 10, auto_retry_for=["WORKER_CRASHED"], jitter=False)


def make_app(environ: Mapping[str, str]) -> Horsies:
    """`TEST_STALE_MS` and `TEST_BEAT_MS` are the two thresholds; `TEST_CAP` and `TEST_CLUSTER_CAP` are caps."""
    cap = environ.get("TEST_CAP")
    prefetch = int(environ.get("TEST_PREFETCH", "0"))
    stale_ms, beat_ms = int(environ.get("TEST_STALE_MS", "6000")), int(environ.get("TEST_BEAT_MS", "2000"))
    return Horsies(
        AppConfig(
            queue_mode=QueueMode.CUSTOM if cap else QueueMode.DEFAULT,
            custom_queues=[CustomQueueConfig(name="default", max_concurrency=int(cap))] if cap else None,
            broker=PostgresConfig(database_url=environ["HORSIES_DATABASE_URL"]),
            prefetch_buffer=prefetch,
            cluster_wide_cap=int(environ["TEST_CLUSTER_CAP"]) if "TEST_CLUSTER_CAP" in environ else None,
            claim_lease_ms=max(2 * beat_ms, 4_000),
            recovery=RecoveryConfig(
                runner_heartbeat_interval_ms=beat_ms,
                claimer_heartbeat_interval_ms=beat_ms,
                running_stale_threshold_ms=stale_ms,
                claimed_stale_threshold_ms=stale_ms,
                finalizing_stale_threshold_ms=int(environ.get("TEST_FINALIZING_MS", "60000")),
                crashed_worker_recovery_grace_ms=1_000,
                check_interval_ms=1_000,
            ),
            resilience=WorkerResilienceConfig(
                db_retry_initial_ms=200, db_retry_max_ms=2_000, notify_poll_interval_ms=1_000
            ),
        )
    )


app = make_app(os.environ)
queue = {"queue_name": "default"} if os.environ.get("TEST_CAP") else {}


class Run:
    """One run of user code, which writes its marks to the ledger."""

    def __init__(self, ledger: str, label: str) -> None:
        self._file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._words = f"{label} {os.getpid()}-{time.monotonic_ns()}"
        self.mark("begin")

    def mark(self, mark: str) -> None:
        os.write(self._file, f"{time.monotonic():.4f} {self._words} {mark}\n".encode())

    def end(self) -> None:
        self.mark("end")
        os.close(self._file)


@app.task("work", retry_policy=RETRIED, **queue)
def work(ledger: str, label: str, seconds: float) -> TaskResult[None, TaskError]:
    """Sleeps in small steps."""
    run, end = Run(ledger, label), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(TICK_S)
        run.mark("tick")
    run.end()
    return TaskResult(ok=None)


@app.task("spin", retry_policy=RETRIED, **queue)
def spin(ledger: str, label: str, seconds: float) -> TaskResult[None, TaskError]:
    """Python code that never waits."""
    run, end, ticked = Run(ledger, label), time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        if now - ticked > TICK_S:
            run.mark("tick")
            ticked = now
    run.end()
    return TaskResult(ok=None)


@app.task("hold_gil", retry_policy=RETRIED, **queue)
def hold_gil(ledger: str, label: str, seconds: float) -> TaskResult[None, TaskError]:
    """C code that holds the GIL: no other Python thread of this process runs meanwhile."""
    run = Run(ledger, label)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    run.end()
    return TaskResult(ok=None)


@app.task("wait", retry_policy=RETRIED, **queue)
async def wait(ledger: str, label: str, seconds: float) -> TaskResult[None, TaskError]:
    """Asynchronous user code."""
    run, end = Run(ledger, label), time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(TICK_S)
        run.mark("tick")
    run.end()
    return TaskResult(ok=None)
