"""The `timeout_ms` of a task that runs in the process of a test: it ends as in a worker, as far as Python allows that.

A plain task in the main thread is interrupted by a signal, an `async def` task is cancelled. A plain task in another
thread, where Python delivers no signals, runs to its end, and is TASK_TIMEOUT then; so does an `async def` task that
never waits. Nothing is stopped while a debugger traces this process.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codes import StopCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.run.child.execute import comes_from_a_stop
from horsies.run.outcomes import TaskStopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

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
    """The result of a task that nothing could stop."""
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
    """A person who looks at a stopped program needs longer than any limit."""
    tracer = sys.gettrace()
    module = getattr(tracer, "__module__", None) or type(tracer).__module__
    if tracer is not None and str(module).startswith(_DEBUGGERS):
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
