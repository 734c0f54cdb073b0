"""Executes one task in this process, between the same stored texts as in a worker, within its `timeout_ms`.

A timeout ends a task as far as Python allows that. A plain task in the main thread is interrupted by a signal, and an
`async def` task is cancelled. A plain task in another thread, where Python delivers no signals, runs to its end and is
then TASK_TIMEOUT, as is an `async def` task that never waits. While a debugger traces this process nothing is stopped.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codec import with_retries_spent
from horsies.domain.codes import StopCode
from horsies.domain.retry import RETRIES_SPENT, RetryAt, RetryRule, decide_retry, timeout_of
from horsies.domain.task_result import TaskError, TaskResult
from horsies.run.child.execute import comes_from_a_stop
from horsies.run.outcomes import TaskStopped, outcome_of
from horsies.task.current import ignore_report, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from random import Random
    from types import FrameType

    from horsies.registry import AnyTask
    from horsies.task.current import CurrentTask, Report


_AGAIN_S: Final = 0.05
"""A signal that comes just before a system call does not interrupt it, so it is repeated, as in a worker."""
_DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "_pydevd", "debugpy")


def run_limited(timeout_ms: int | None, run: Callable[[], TaskResult[Any, Any]]) -> TaskResult[Any, Any]:
    """`run` calls a plain task in this thread."""
    if timeout_ms is None:
        return run()
    if threading.current_thread() is not threading.main_thread():
        begin = monotonic()
        return _judged(timeout_ms, run(), begin, "because only the main thread can be interrupted")
    alarm = _StopAlarm(timeout_ms)
    try:
        alarm.set()
        result = run()
        alarm.is_armed = False
    except TaskStopped as stop:  # before the task or after its end, or of a task around this one
        if stop is not alarm.stop:
            raise
        return _timed_out(timeout_ms, stop)
    finally:
        alarm.clear()
    raised = _exception_of(result)
    return _timed_out(timeout_ms, raised) if alarm.rang and raised and comes_from_a_stop(raised) else result


async def run_limited_async(
    timeout_ms: int | None, run: Callable[[], Awaitable[TaskResult[Any, Any]]]
) -> TaskResult[Any, Any]:
    """`run` calls an `async def` task in this event loop."""
    if timeout_ms is None or _is_debugged():
        return await run()
    begin = monotonic()
    try:
        async with asyncio.timeout(timeout_ms / 1000) as limit:
            result = await run()
    except TimeoutError as stop:  # of the limit: a task returns its own exceptions
        return _timed_out(timeout_ms, stop)
    if not limit.expired():
        return _judged(timeout_ms, result, begin, "because it never waited for anything")
    raised = _exception_of(result)
    return result if raised is None or not comes_from_a_stop(raised) else _timed_out(timeout_ms, raised)


class _StopAlarm:
    """Raises TaskStopped in the main thread.

    A thread waits for the moment, and not the timer of the process, which may be in use, as by pytest-timeout.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.stop = TaskStopped(StopCode.TASK_TIMEOUT.value, _message(timeout_ms))
        self.is_armed = True
        self.rang = False
        self._due = False
        self._timer = threading.Timer(timeout_ms / 1000, self._ring)
        self._timer.daemon = True
        self._before: Any = None

    def set(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._on_signal)
        self._timer.start()

    def clear(self) -> None:
        self.is_armed = False
        self._timer.cancel()
        self._timer.join()  # after that no signal of this alarm comes any more
        # None: a handler of C code, which Python cannot put back.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if self._before is None else self._before)

    def _ring(self) -> None:
        self._due = not _is_debugged()
        while self._due and self.is_armed and not self.rang:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            sleep(_AGAIN_S)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._due:
            if callable(self._before):
                self._before(number, frame)
        elif self.is_armed and not self.rang:
            self.rang = True
            raise self.stop


def _judged(timeout_ms: int, result: TaskResult[Any, Any], begin: float, why: str) -> TaskResult[Any, Any]:
    """Return the result of a task that could not be stopped."""
    took_ms = (monotonic() - begin) * 1000
    if took_ms <= timeout_ms or _is_debugged():
        return result
    message = f"it ran for {took_ms:.0f} ms, longer than its timeout_ms of {timeout_ms}; it was not stopped, {why}"
    return _timed_out(timeout_ms, None, message)


def _timed_out(timeout_ms: int, raised: BaseException | None, message: str | None = None) -> TaskResult[Any, Any]:
    message = message or _message(timeout_ms)
    error = TimeoutError(message)
    error.__cause__ = raised
    return TaskResult(err=TaskError(error_code=StopCode.TASK_TIMEOUT.value, message=message, exception=error))


def _message(timeout_ms: int) -> str:
    return f"stopped after {timeout_ms} ms, its timeout_ms"


def _exception_of(result: TaskResult[Any, Any]) -> BaseException | None:
    raised = result.err.exception if isinstance(result.err, TaskError) else None
    return raised if isinstance(raised, BaseException) else None


def _is_debugged() -> bool:
    """Return whether a debugger traces this process: a person who looks at it needs longer than any limit."""
    tracer = sys.gettrace()
    module = getattr(tracer, "__module__", None) or type(tracer).__module__
    if tracer is not None and str(module).startswith(_DEBUGGERS):
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None


@dataclass(frozen=True, slots=True)
class Ran:
    """Executions by their outcome; after a `retried` one the task waits for its next try."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    expired: int = 0

    def __add__(self, other: Ran) -> Ran:
        return Ran(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The values that would be stored of an execution; `exception` is what user code raised, if it did."""

    ok: bool
    stored: str
    error_code: str | None
    error_message: str | None
    exception: BaseException | None

    def raise_exception(self) -> None:
        if self.exception is not None:
            raise self.exception

    def raise_if_meant_for_the_test(self) -> None:
        """Raise ctrl+c, and exceptions by which test frameworks fail or skip a test: not failures of a task."""
        if self.exception is not None and not isinstance(
            self.exception, Exception | SystemExit | asyncio.CancelledError
        ):
            raise self.exception


@dataclass(slots=True, eq=False)
class RunHere:
    """The run that `current_task` finds in this process. Progress is not kept."""

    current: CurrentTask
    report: Report | None = ignore_report
    tracked: bool = False

    def open_report(self) -> Report:
        return ignore_report

    def describe(self) -> CurrentTask | None:
        return self.current


def run_here(
    task: AnyTask, args: str | None, kwargs: str | None, task_options: str | None, current: CurrentTask
) -> EndedRun:
    """Run in this thread, unless it runs an event loop: in a worker a plain task has none, and may start one."""
    with running(RunHere(current)):
        values = task.load(args, kwargs)
        if isinstance(values, TaskResult):
            return _ended(values)
        limit = timeout_of(task_options, task.timeout_ms)
        if not task.is_async and not loop_runs_here():
            return _ended(run_limited(limit, partial(task.run, *values)))
        with ThreadPoolExecutor(1, thread_name_prefix="horsies inline") as thread:
            in_our_context = partial(contextvars.copy_context().run, _run, task, limit, *values)
            return _ended(thread.submit(in_our_context).result())


async def run_here_async(
    task: AnyTask, args: str | None, kwargs: str | None, task_options: str | None, current: CurrentTask
) -> EndedRun:
    """Run an `async def` task in the running loop, for its fixtures; a plain one in another thread."""
    values = task.load(args, kwargs)
    if isinstance(values, TaskResult):
        return _ended(values)
    limit = timeout_of(task_options, task.timeout_ms)
    with running(RunHere(current)):
        if task.is_async:
            result = await run_limited_async(limit, partial(task.run_async, *values))
        else:
            result = await asyncio.to_thread(run_limited, limit, partial(task.run, *values))
    return _ended(result)


def next_try(
    ended: EndedRun,
    task_options: str | None,
    *,
    retry_count: int,
    max_retries: int,
    now: datetime,
    good_until: datetime | None,
    rng: Random,
) -> tuple[float | None, EndedRun]:
    """Return the delay before the next try, None if this was the last one; and what is stored then."""
    if ended.ok:
        return None, ended
    decision = decide_retry(
        RetryRule.from_text(task_options),
        error_code=ended.error_code,
        retry_count=retry_count,
        max_retries=max_retries,
        now=now,
        good_until=good_until,
        rng=rng,
    )
    if decision == RETRIES_SPENT:
        stored = with_retries_spent(ended.stored, retry_count=retry_count, max_retries=max_retries)
        return None, replace(ended, stored=stored)
    return decision.delay_s if isinstance(decision, RetryAt) else None, ended


def _run(task: AnyTask, limit: int | None, args: list[Any], kwargs: dict[str, Any]) -> TaskResult[Any, Any]:
    if task.is_async:
        return asyncio.run(run_limited_async(limit, partial(task.run_async, args, kwargs)))
    return run_limited(limit, partial(task.run, args, kwargs))


def loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _ended(result: TaskResult[Any, Any]) -> EndedRun:
    error = result.err
    raised = error.exception if isinstance(error, TaskError) else None
    ended = EndedRun(*outcome_of(result), raised if isinstance(raised, BaseException) else None)
    ended.raise_if_meant_for_the_test()
    return ended
