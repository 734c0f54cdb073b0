"""The application of test_child_hooks.py and test_logs.py: its hooks and tasks write down what they see, and log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import Any

import worker_app
from worker_app import app

from horsies import (
    ChildStarted,
    ChildStopped,
    RunEnded,
    RunFailed,
    RunStarted,
    TaskError,
    TaskResult,
    current_task,
)

TOLD = Path(os.environ["TEST_TOLD"])
Out = TaskResult[Any, TaskError]
log = logging.getLogger("shop.mail")
mark: ContextVar[str] = ContextVar("mark", default="none")
mark_async: ContextVar[str] = ContextVar("mark_async", default="none")
loops: list[asyncio.AbstractEventLoop] = []

if form := os.environ.get("TEST_BASIC_CONFIG"):
    logging.basicConfig(level=logging.INFO, format=form)


def tell(what: str, **fields: Any) -> None:
    with TOLD.open("a") as file:
        file.write(json.dumps({"what": what, **fields}, default=str) + "\n")


@app.on("child_started")
def started(event: ChildStarted) -> None:
    tell("child_started", pid=event.pid, own=os.getpid(), task=current_task(None))


@app.on("child_started")
async def started_async(event: ChildStarted) -> None:
    loops.append(asyncio.get_running_loop())


@app.on("child_stopped")
async def stopped(event: ChildStopped) -> None:
    tell("child_stopped", pid=event.pid, same_loop=loops == [asyncio.get_running_loop()])


@app.on("run_started")
def begin(event: RunStarted) -> None:
    mark.set(event.task.id)
    tell("run_started", id=event.task.id, name=event.task.name, known=current_task() == event.task)
    if event.task.name == "slow_hook":
        time.sleep(60)


@app.on("run_started")
async def begin_async(event: RunStarted) -> None:
    await asyncio.sleep(0)
    mark_async.set(event.task.id)
    assert loops == [asyncio.get_running_loop()]


@app.on("run_started")
def broken(event: RunStarted) -> None:
    if event.task.name == "marks":
        raise SystemExit("this hook is broken")


@app.on("run_failed")
def failed(event: RunFailed) -> None:
    error = event.exception
    raised = None if error is None else f"{type(error).__name__}: {error}"
    place = None if error is None or error.__traceback__ is None else _last(error.__traceback__)
    tell("run_failed", id=event.task.id, code=event.error_code, raised=raised, place=place, mark=mark.get())


@app.on("run_ended")
async def ended(event: RunEnded) -> None:
    tell("run_ended", id=event.task.id, ok=event.ok, code=event.error_code, mark=mark.get(), attempt=event.task.attempt)


def _last(trace: Any) -> str:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return str(trace.tb_frame.f_code.co_name)


@app.task("marks", **worker_app.queue)
def marks() -> Out:
    in_a_thread: list[str] = []
    thread = threading.Thread(target=lambda: in_a_thread.append(current_task().id))
    thread.start()
    thread.join()
    return TaskResult(ok=[mark.get(), mark_async.get(), in_a_thread[0], asdict(current_task())["workflow"]])


@app.task("marks_async", **worker_app.queue)
async def marks_async(number: int) -> Out:
    """Three at once: each sees its own."""
    log.info("run %d", number)
    await side_by_side.wait()
    seen = await asyncio.to_thread(lambda: current_task().id)
    return TaskResult(ok=[mark.get(), mark_async.get(), current_task().id, seen])


side_by_side = asyncio.Barrier(3)


@app.task("who_am_i", **worker_app.queue)
def who_am_i() -> Out:
    task = current_task()
    times = [None if at is None else at.isoformat() for at in (task.sent_at, task.deadline)]
    task.logger.warning("it is me", extra={"colour": "red"})
    return TaskResult(ok=[task.id, task.name, task.attempt, task.queue, *times])


@app.task("raises", **worker_app.queue)
def raises() -> Out:
    raise ValueError("no such customer")


@app.task("raises_async", **worker_app.queue)
async def raises_async() -> Out:
    raise ValueError("no such customer")


@app.task("slow_hook", timeout_ms=300, **worker_app.queue)
def slow_hook() -> Out:
    return TaskResult(ok="ran")


@app.task("chatter", **worker_app.queue)
def chatter() -> Out:
    log.debug("a detail")
    log.info("two\nlines", extra={"order": 7, "cart": {"a"}, "task": "mine"})
    try:
        raise KeyError("stock")
    except KeyError:
        log.exception("could not count")
    log.info("wrong %d", "number")
    thread = threading.Thread(target=lambda: 1 / 0, name="counts")
    thread.start()
    thread.join()
    print("on stderr", file=sys.stderr)
    print("on stdout")
    return TaskResult(ok=None)


@app.task("flood_log", **worker_app.queue)
def flood_log(count: int) -> Out:
    for number in range(count):
        log.info("line %d", number)
    log.error("after the flood")
    return TaskResult(ok=None)


@app.task("log_for_ever", timeout_ms=200, **worker_app.queue)
def log_for_ever() -> Out:
    while True:
        log.debug("again")


@app.task("forks", **worker_app.queue)
def forks() -> Out:
    forked = os.fork()
    if forked == 0:
        log.error("in the fork")
        os._exit(0)
    os.waitpid(forked, 0)
    return TaskResult(ok=None)


@app.task("refuse_loudly", **worker_app.queue)
def refuse_loudly() -> Out:
    try:
        raise OSError("no route")
    except OSError:
        log.exception("could not deliver")
    return TaskResult(err=TaskError(error_code="NO_ROUTE", message="no"))


@app.task("cries", **worker_app.queue)
def cries(text: str) -> Out:
    """Print, log and raise a text that would like to be more than that."""
    print(text)
    log.warning(text)
    raise ValueError(text)
