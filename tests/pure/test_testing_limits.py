"""The timeouts of tasks that run in the process of a test."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from task_apps import make_app

from horsies import RetryPolicy, StopCode, TaskError, TaskResult
from horsies.testing import Ran, inline

app = make_app()
heard: list[Any] = []
FOR_EVER_S = 30.0
SHORT_MS = 150  # long enough for a busy machine to reach the line that waits
LONG_MS = 60_000


@app.task("sleeps", timeout_ms=SHORT_MS)
def sleeps() -> TaskResult[None, TaskError]:
    try:
        time.sleep(FOR_EVER_S)
    finally:
        heard.append("cleaned up")
    return TaskResult(ok=None)


@app.task("computes", timeout_ms=SHORT_MS)
def computes(seconds: float) -> TaskResult[str, TaskError]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return TaskResult(ok="in time")


@app.task("lasts", timeout_ms=SHORT_MS)
def lasts(seconds: float) -> TaskResult[str, TaskError]:
    time.sleep(seconds)
    return TaskResult(ok="in time")


@app.task("waits", timeout_ms=SHORT_MS)
async def waits() -> TaskResult[None, TaskError]:
    try:
        await asyncio.sleep(FOR_EVER_S)
    finally:
        heard.append("cleaned up")
    return TaskResult(ok=None)


@app.task("blocks", timeout_ms=SHORT_MS)
async def blocks(seconds: float) -> TaskResult[str, TaskError]:
    time.sleep(seconds)  # noqa: ASYNC251 - what a user should not write
    return TaskResult(ok="in time")


@app.task("stubborn", timeout_ms=SHORT_MS)
async def stubborn() -> TaskResult[str, TaskError]:
    try:
        await asyncio.sleep(FOR_EVER_S)
    except asyncio.CancelledError:
        return TaskResult(ok="anyway")
    return TaskResult(ok="late")


@app.task("asks", timeout_ms=SHORT_MS)
def asks() -> TaskResult[None, TaskError]:
    return TaskResult(ok=waits_long.send().unwrap().get().ok)


@app.task("waits_long", timeout_ms=LONG_MS)
def waits_long() -> TaskResult[None, TaskError]:
    heard.append("begun")
    if len(heard) == 1:
        time.sleep(FOR_EVER_S)
    return TaskResult(ok=None)


@app.task(
    "tried_again",
    timeout_ms=SHORT_MS,
    retry_policy=RetryPolicy.fixed([60], auto_retry_for=["TASK_TIMEOUT"], jitter=False),
)
def tried_again() -> TaskResult[str, TaskError]:
    heard.append("try")
    if len(heard) == 1:
        time.sleep(FOR_EVER_S)
    return TaskResult(ok="second")


@pytest.fixture(autouse=True)
def _nothing_heard_yet() -> Iterator[None]:
    heard.clear()
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getsignal(signal.SIGALRM) is before
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def timed_out(result: TaskResult[Any, TaskError]) -> str:
    assert result.err is not None
    assert result.err.error_code == StopCode.TASK_TIMEOUT
    return str(result.err.message)


@pytest.mark.parametrize("task", [sleeps, waits])
def test_a_task_that_takes_too_long_is_stopped_as_in_a_worker(task: Any) -> None:
    with inline(app) as queue:
        message = timed_out(task.send().unwrap().get())
        assert queue.sent()[0].status == "FAILED"
        assert queue.sent()[0].error_code == "TASK_TIMEOUT"
    assert message == f"stopped after {SHORT_MS} ms, its timeout_ms"
    assert heard == ["cleaned up"]


def test_code_that_only_computes_is_interrupted_in_the_main_thread() -> None:
    with inline(app):
        assert timed_out(computes.send(FOR_EVER_S).unwrap().get()).startswith("stopped")
        assert computes.with_options(timeout_ms=LONG_MS).send(0).unwrap().get().unwrap() == "in time"


async def test_in_a_running_loop_async_tasks_are_cancelled_and_plain_ones_judged_afterwards() -> None:
    with inline(app):
        assert timed_out((await waits.send_async()).unwrap().get(0)).startswith("stopped")
        for handle in (await lasts.send_async(0.2)).unwrap(), lasts.send(0.2).unwrap():
            message = timed_out(await handle.get_async())
            assert message.endswith("it was not stopped, because only the main thread can be interrupted")


def test_async_code_that_blocks_its_loop_is_judged_afterwards() -> None:
    with inline(app):
        assert "never waited" in timed_out(blocks.send(0.2).unwrap().get())


def test_a_task_that_ends_with_a_value_although_it_was_told_to_stop_keeps_it_as_in_a_worker() -> None:
    with inline(app):
        assert stubborn.send().unwrap().get().unwrap() == "anyway"


def test_a_timeout_of_a_send_takes_the_place_of_the_tasks_own() -> None:
    with inline(app):
        assert blocks.with_options(timeout_ms=LONG_MS).send(0.2).unwrap().get().unwrap() == "in time"


def test_the_retry_policy_counts_a_timeout_as_an_error() -> None:
    with inline(app, at_once=False) as queue:
        handle = tried_again.send().unwrap()
        assert [queue.run(), queue.run(60)] == [Ran(retried=1), Ran(completed=1)]
        assert handle.get().unwrap() == "second"


def test_with_raises_it_is_a_timeout_error() -> None:
    with inline(app, raises=True), pytest.raises(TimeoutError, match="its timeout_ms"):
        sleeps.send()


def test_a_task_that_waits_for_another_is_stopped_and_the_other_one_runs_again() -> None:
    """It runs inside of the wait, so it is interrupted, too; in a worker it would go on."""
    with inline(app) as queue:
        timed_out(asks.send().unwrap().get())
        assert [task.status.value for task in queue.sent()] == ["FAILED", "COMPLETED"]
    assert heard == ["begun"] * 2


def test_an_alarm_of_the_test_itself_is_passed_on() -> None:
    """As that of pytest-timeout, which ends a test that hangs."""
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
    try:
        with inline(app):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            timed_out(sleeps.send().unwrap().get())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard == ["alarm", "cleaned up"]


def test_a_debugger_stops_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Debugger:
        __module__ = "pdb"

    monkeypatch.setattr(sys, "gettrace", Debugger)
    with inline(app):
        assert lasts.send(0.2).unwrap().get().unwrap() == "in time"
        assert blocks.send(0.2).unwrap().get().unwrap() == "in time"
