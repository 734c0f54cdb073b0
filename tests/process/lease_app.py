"""The application of test_leases.py: each run of a task records its begin, progress and end in a ledger."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, RetryPolicy, TaskError, TaskResult
from horsies.config.app import WorkerResilienceConfig

THRESHOLD_MS = int(os.environ.get("TEST_STALE_MS", "2000"))
app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=int(os.environ.get("TEST_PREFETCH", "0")),
        claim_lease_ms=10_000,
        recovery=RecoveryConfig(
            runner_heartbeat_interval_ms=1_000,
            claimer_heartbeat_interval_ms=1_000,
            running_stale_threshold_ms=THRESHOLD_MS,
            finalizing_stale_threshold_ms=THRESHOLD_MS,
            check_interval_ms=1_000,
        ),
        resilience=WorkerResilienceConfig(
            notify_poll_interval_ms=1_000, db_retry_initial_ms=200, db_retry_max_ms=1_000
        ),
    )
)
AGAIN = RetryPolicy.fixed([1], auto_retry_for=["WORKER_CRASHED"], jitter=False)
Out = TaskResult[int, TaskError]


def note(ledger: str, *words: object) -> None:
    with Path(ledger).open("a") as file:
        file.write(f"{' '.join(map(str, words))} {os.getpid()} {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def run(ledger: str, label: str) -> Iterator[float]:
    """How long this run takes: the first one much longer than any threshold.

    A run that is killed writes no end, so the next run checks whether the process of the previous one still exists.
    """
    lines = [line.split() for line in Path(ledger).read_text().splitlines()]
    mine = [line for line in lines if line[0] == label]
    ended = {line[-2] for line in mine if line[1] == "end"}
    still = [line[-2] for line in mine if line[1] == "begin" and line[-2] not in ended and is_alive(int(line[-2]))]
    note(ledger, label, "beside" if still else "begin")
    try:
        yield 0.2 if mine else 60.0
    finally:
        note(ledger, label, "end")


@app.task("sleep", retry_policy=AGAIN)
def sleep(ledger: str, label: str) -> Out:
    with run(ledger, label) as seconds:
        tick(ledger, label, seconds)
    return TaskResult(ok=1)


@app.task("spin", retry_policy=AGAIN)
def spin(ledger: str, label: str) -> Out:
    """Computes without a pause. A line each millisecond: the test reads the ledger again and again."""
    with run(ledger, label) as seconds:
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            note(ledger, label, "tick")
            while time.monotonic() < now + 0.001:
                pass
    return TaskResult(ok=1)


@app.task("wait", retry_policy=AGAIN)
async def wait(ledger: str, label: str) -> Out:
    with run(ledger, label) as seconds:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            note(ledger, label, "tick")
            await asyncio.sleep(0.02)
    return TaskResult(ok=1)


def tick(ledger: str, label: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        note(ledger, label, "tick")
        time.sleep(0.02)


@app.task("thread", retry_policy=AGAIN)
async def thread(ledger: str, label: str) -> Out:
    """Cancellation does not reach the thread."""
    with run(ledger, label) as seconds:
        await asyncio.to_thread(tick, ledger, label, seconds)
    return TaskResult(ok=1)


@app.task("shield", retry_policy=AGAIN)
async def shield(ledger: str, label: str) -> Out:
    """Cancellation does not reach the inner coroutine."""

    async def inner(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            note(ledger, label, "tick")
            await asyncio.sleep(0.02)

    with run(ledger, label) as seconds:
        await asyncio.shield(inner(seconds))
    return TaskResult(ok=1)


@app.task("hold_the_gil", retry_policy=AGAIN)
def hold_the_gil(ledger: str, label: str) -> Out:
    """One call of C code that never releases the GIL: no other thread of this process runs meanwhile."""
    with run(ledger, label) as seconds:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return TaskResult(ok=1)


@app.task("hold_for", retry_policy=AGAIN)
def hold_for(ledger: str, label: str, seconds: float) -> Out:
    with run(ledger, label):
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return TaskResult(ok=1)


@app.task("crash")
def crash(ledger: str, label: str) -> Out:
    with run(ledger, label):
        os.kill(os.getpid(), 11)
        time.sleep(60)
    return TaskResult(ok=1)


@app.task("hold_and_crash")
def hold_and_crash(ledger: str, label: str) -> Out:
    """Tasks that this child receives meanwhile do not begin."""
    with run(ledger, label):
        # Killed from outside while C code holds the GIL: between two statements another thread could get it, and begin.
        subprocess.Popen(["sh", "-c", f"sleep 1; kill -SEGV {os.getpid()}"])
        ctypes.PyDLL(None).sleep(60)
    return TaskResult(ok=1)


@app.task("quick_async")
async def quick_async(ledger: str, label: str) -> Out:
    note(ledger, label, "begin")
    return TaskResult(ok=1)


@app.task("quick")
def quick(ledger: str, label: str) -> Out:
    note(ledger, label, "begin")
    return TaskResult(ok=1)


@app.task("hang", retry_policy=AGAIN)
async def hang(ledger: str, label: str) -> Out:
    note(ledger, label, "begin")
    await asyncio.sleep(60)
    return TaskResult(ok=1)
