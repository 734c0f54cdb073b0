"""Tasks that report how far they are; the workers of test_worker_progress.py run them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

from horsies import (
    AppConfig,
    Horsies,
    PostgresConfig,
    RecoveryConfig,
    RetryPolicy,
    TaskError,
    TaskResult,
    progress,
    track,
)

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        recovery=RecoveryConfig(
            runner_heartbeat_interval_ms=1_000,
            claimer_heartbeat_interval_ms=1_000,
            running_stale_threshold_ms=int(os.environ.get("TEST_STALE_MS", "300000")),
            check_interval_ms=1_000,
        ),
    )
)
Out = TaskResult[None, TaskError]


@app.task("hurry")
def hurry(seconds: float) -> Out:
    """Reports about 1,000 times a second."""
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end:
        done += 1
        progress(done, 100_000, "rows")
        time.sleep(0.001)
    progress(100_000, 100_000, "rows")
    return TaskResult(ok=None)


@app.task("import_rows", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["BROKEN"], jitter=False))
def import_rows(count_file: str) -> Out:
    """Breaks at row 3 of 10, and reports nothing the second time."""
    path = Path(count_file)
    if path.exists():
        return TaskResult(ok=None)
    path.touch()
    for row in track(range(10), unit="rows"):
        if row == 3:
            return TaskResult(err=TaskError(error_code="BROKEN"))
    raise AssertionError


@app.task("die_at_row")
def die_at_row(row: int) -> Out:
    progress(row, 10, "rows")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@app.task("count_in_threads")
def count_in_threads() -> Out:
    """The thread that counts has not the context of the task."""
    thread = threading.Thread(target=lambda: list(track(range(4), unit="pages")))
    thread.start()
    thread.join()
    return TaskResult(ok=None)


@app.task("count_together")
async def count_together(number: int) -> Out:
    async def rows() -> AsyncIterator[int]:
        for row in range(number):
            await asyncio.sleep(0.001)
            yield row

    async for _ in track(rows(), total=100, unit=f"rows of {number}"):
        pass
    return TaskResult(ok=None)


@app.task("wait_with_odd_reports")
def wait_with_odd_reports(go: str) -> Out:
    progress(float("nan"), 10)
    progress("ten", object(), object())  # type: ignore[arg-type]
    progress(7, -1, "r\x1bo\nws" * 2_000)
    Path(go).read_text()
    return TaskResult(ok=None)
