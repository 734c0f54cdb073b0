"""The application that the workers of test_worker*.py run; its database comes from the environment."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, RetryPolicy, TaskError, TaskResult

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=int(os.environ.get("TEST_PREFETCH", "0")),
        claim_lease_ms=60_000,
        cluster_wide_cap=int(os.environ["TEST_CLUSTER_CAP"]) if "TEST_CLUSTER_CAP" in os.environ else None,
        recovery=RecoveryConfig(runner_heartbeat_interval_ms=1_000, claimer_heartbeat_interval_ms=1_000),
    )
)


@app.task("add")
def add(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


@app.task("nothing")
def nothing() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("nothing_async")
async def nothing_async() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


@app.task("together")
async def together(seconds: float) -> TaskResult[int, TaskError]:
    await asyncio.sleep(seconds)
    return TaskResult(ok=os.getpid())


@app.task("refuse")
def refuse() -> TaskResult[None, TaskError]:
    return TaskResult(err=TaskError(error_code="CARD_DECLINED", message="no", data={"limit": 5}))


@app.task("flaky", retry_policy=RetryPolicy.fixed([1, 1], auto_retry_for=["TRY_AGAIN"], jitter=False))
def flaky(count_file: str, failures: int) -> TaskResult[int, TaskError]:
    """Fails `failures` times, counting its runs by the size of a file."""
    with Path(count_file).open("a") as file:
        file.write("x")
    runs = Path(count_file).stat().st_size
    return TaskResult(ok=runs) if runs > failures else TaskResult(err=TaskError(error_code="TRY_AGAIN"))


@app.task("wait_for_file")
def wait_for_file(started: str, go: str) -> TaskResult[str, TaskError]:
    """Tells that it runs by making a pipe's reader wake up, then waits for the other side to open the second pipe."""
    Path(started).write_text("started")
    return TaskResult(ok=Path(go).read_text())


@app.task("wait_again", requeue_on_interrupt=True)
def wait_again(started: str, go: str) -> TaskResult[str, TaskError]:
    Path(started).write_text("started")
    return TaskResult(ok=Path(go).read_text())


@app.task("die", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["WORKER_CRASHED"], jitter=False))
def die(count_file: str, deaths: int) -> TaskResult[int, TaskError]:
    with Path(count_file).open("a") as file:
        file.write("x")
    runs = Path(count_file).stat().st_size
    if runs <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return TaskResult(ok=runs)


@app.task("leave")
def leave(code: int) -> TaskResult[None, TaskError]:
    os._exit(code)


@app.task("hang", timeout_ms=300)
def hang() -> TaskResult[None, TaskError]:
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("say")
def say(text: str) -> TaskResult[None, TaskError]:
    print(text)
    return TaskResult(ok=None)


@app.task("echo")
def echo(text: str) -> TaskResult[int, TaskError]:
    return TaskResult(ok=len(text))
