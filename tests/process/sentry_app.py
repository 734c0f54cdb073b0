"""The application of test_sentry.py: Sentry as docs/hooks.md has it, with a transport that writes to a file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.transport import Transport
from worker_app import app

from horsies import RunEnded, RunFailed, RunStarted, TaskError, TaskResult

Out = TaskResult[Any, TaskError]
log = logging.getLogger("shop")


class ToFile(Transport):
    """In place of the network."""

    def capture_envelope(self, envelope: Any) -> None:
        event = envelope.get_event()
        if event is not None:
            with Path(os.environ["TEST_TOLD"]).open("a") as file:
                file.write(json.dumps({"pid": os.getpid(), **event}, default=str) + "\n")


sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=ToFile)

# The lines of docs/hooks.md from here
ignore_logger("horsies.output")  # Sentry in the child has these records already
open_scopes: ContextVar[ExitStack] = ContextVar("open_scopes")


@app.on("run_started")
def open_scope(event: RunStarted) -> None:
    open_scopes.set(scopes := ExitStack())
    scope = scopes.enter_context(sentry_sdk.isolation_scope())
    scope.set_tags({"task": event.task.name, "task_id": event.task.id, "attempt": event.task.attempt})


@app.on("run_failed")
def report(event: RunFailed) -> None:
    if event.exception is not None:
        sentry_sdk.capture_exception(event.exception)
    else:
        sentry_sdk.capture_message(f"{event.task.name}: {event.error_code}: {event.error_message}", "error")


@app.on("run_ended")
def close_scope(event: RunEnded) -> None:
    open_scopes.get().close()


# to here


@app.task("quiet")
def quiet(crumb: str) -> Out:
    log.info(crumb)
    return TaskResult(ok=None)


@app.task("raises")
def raises(crumb: str) -> Out:
    log.info(crumb)
    raise ValueError(crumb)


side_by_side = asyncio.Barrier(2)


@app.task("raises_async")
async def raises_async(crumb: str) -> Out:
    log.info("before %s", crumb)
    await side_by_side.wait()
    log.info("after %s", crumb)
    await side_by_side.wait()
    raise ValueError(crumb)


@app.task("logs_an_error")
def logs_an_error() -> Out:
    log.error("out of stock")
    return TaskResult(ok=None)
