"""The application of test_hooks.py: its hooks write what they receive to a file, and some of them misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from worker_app import app

from horsies import TaskFailed, TaskRetried, WorkerStarted, WorkerStopped

TOLD = Path(os.environ["TEST_TOLD"])


def tell(event: Any) -> None:
    line = {"event": type(event).__name__, "pid_of_hook": os.getpid(), "thread": threading.current_thread().name}
    with TOLD.open("a") as file:
        file.write(json.dumps(line | asdict(event), default=str) + "\n")


@app.on("task_failed")
def failed(event: TaskFailed) -> None:
    tell(event)


@app.on("task_retried")
async def retried(event: TaskRetried) -> None:
    await asyncio.sleep(0)
    tell(event)


app.on("worker_started", tell)
app.on("worker_stopped", tell)


@app.on("worker_started")
def broken(event: WorkerStarted) -> None:
    raise SystemExit(f"no use for {event.pid}")


if "TEST_HANGING" in os.environ:

    @app.on("task_failed")
    def hangs(event: TaskFailed) -> None:
        time.sleep(3_600)

    @app.on("task_failed")
    async def blocks_its_loop(event: TaskFailed) -> None:
        time.sleep(3_600)  # noqa: ASYNC251 - as careless code does

    @app.on("worker_stopped")
    async def never_ends(event: WorkerStopped) -> None:
        await asyncio.sleep(3_600)
