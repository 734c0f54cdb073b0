"""The application of the workers in test_worker*.py; its database comes from the environment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import deque
from itertools import repeat
from pathlib import Path

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

QUEUES = [entry.split(":") for entry in os.environ.get("TEST_QUEUES", "").split(",") if entry]  # name:priority:cap
queues = [CustomQueueConfig(name=name, priority=int(first), max_concurrency=int(cap)) for name, first, cap in QUEUES]

app = Horsies(
    AppConfig(
        queue_mode=QueueMode.CUSTOM if queues else QueueMode.DEFAULT,
        custom_queues=queues or None,
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=int(os.environ.get("TEST_PREFETCH", "0")),
        claim_lease_ms=60_000,
        unknown_tasks=os.environ.get("TEST_UNKNOWN_TASKS", "leave"),
        cluster_wide_cap=int(os.environ["TEST_CLUSTER_CAP"]) if "TEST_CLUSTER_CAP" in os.environ else None,
        recovery=RecoveryConfig(
            runner_heartbeat_interval_ms=int(os.environ.get("TEST_BEAT_MS", "1000")),
            claimer_heartbeat_interval_ms=1_000,
            **json.loads(os.environ.get("TEST_RECOVERY", "{}")),
        ),
    )
)


queue = {"queue_name": queues[0].name} if queues else {}


@app.task("add", **queue)
def add(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


@app.task("nothing", **queue)
def nothing() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("nothing_async", **queue)
async def nothing_async() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("together", **queue)
async def together(seconds: float) -> TaskResult[int, TaskError]:
    await asyncio.sleep(seconds)
    return TaskResult(ok=os.getpid())


@app.task("pause", **queue)
def pause(seconds: float) -> TaskResult[None, TaskError]:
    time.sleep(seconds)
    return TaskResult(ok=None)


@app.task("refuse", **queue)
def refuse() -> TaskResult[None, TaskError]:
    return TaskResult(err=TaskError(error_code="CARD_DECLINED", message="no", data={"limit": 5}))


@app.task("flaky", retry_policy=RetryPolicy.fixed([1, 1], auto_retry_for=["TRY_AGAIN"], jitter=False), **queue)
def flaky(count_file: str, failures: int) -> TaskResult[int, TaskError]:
    """Fails `failures` times, counting its runs by the size of a file."""
    with Path(count_file).open("a") as file:
        file.write("x")
    runs = Path(count_file).stat().st_size
    return TaskResult(ok=runs) if runs > failures else TaskResult(err=TaskError(error_code="TRY_AGAIN"))


@app.task("wait_for_file", **queue)
def wait_for_file(started: str, go: str) -> TaskResult[str, TaskError]:
    """Writes to one pipe to report that it runs, then waits for the test to write to the second one."""
    Path(started).write_text("started")
    return TaskResult(ok=Path(go).read_text())


@app.task("wait_again", requeue_on_interrupt=True, **queue)
def wait_again(started: str, go: str) -> TaskResult[str, TaskError]:
    Path(started).write_text("started")
    return TaskResult(ok=Path(go).read_text())


@app.task("die", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["WORKER_CRASHED"], jitter=False), **queue)
def die(count_file: str, deaths: int) -> TaskResult[int, TaskError]:
    with Path(count_file).open("a") as file:
        file.write("x")
    runs = Path(count_file).stat().st_size
    if runs <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return TaskResult(ok=runs)


@app.task("leave", **queue)
def leave(code: int) -> TaskResult[None, TaskError]:
    os._exit(code)


@app.task("hang", timeout_ms=300, **queue)
def hang() -> TaskResult[None, TaskError]:
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("large", timeout_ms=int(os.environ.get("TEST_LARGE_TIMEOUT_MS", "60000")), **queue)
def large(megabytes: int) -> TaskResult[str, TaskError]:
    return TaskResult(ok="x" * (megabytes * 1_000_000))


@app.task("large_async", **queue)
async def large_async(megabytes: int) -> TaskResult[str, TaskError]:
    return TaskResult(ok="x" * (megabytes * 1_000_000))


@app.task("say", **queue)
def say(text: str) -> TaskResult[None, TaskError]:
    print(text)
    return TaskResult(ok=None)


@app.task("wait_stubbornly", requeue_on_interrupt=True, **queue)
def wait_stubbornly(started: str) -> TaskResult[None, TaskError]:
    """Ignores requests to stop."""
    Path(started).write_text("started")
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001 - ignores every request to stop
            continue


@app.task("wait_in_c", requeue_on_interrupt=True, **queue)
def wait_in_c(started: str) -> TaskResult[None, TaskError]:
    """Never returns to Python, and lets no other thread of its process run."""
    Path(started).write_text("started")
    return TaskResult(ok=deque(repeat(None), maxlen=0))


@app.task("wait_stubbornly_async", requeue_on_interrupt=True, **queue)
async def wait_stubbornly_async(started: str) -> TaskResult[None, TaskError]:
    await asyncio.to_thread(Path(started).write_text, "started")
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:  # noqa: BLE001 - ignores every request to stop
            continue
