"""An event loop in a separate thread, so that connections serve every thread and every loop of the process.

The module also has the two drivers of a sequence of calls: for callers that block and for callers that await.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

T = TypeVar("T")

BlockingCall: TypeAlias = "Callable[..., Any]"
AwaitedCall: TypeAlias = "Callable[..., Awaitable[Any]]"
CallSteps: TypeAlias = "Generator[tuple[BlockingCall, AwaitedCall, tuple[Any, ...]], Any, T]"
"""Yields one call in its blocking and in its awaited form, with its arguments; receives what that call returns, or has
its exception raised; and returns the result."""

# A server that does not answer must not delay the exit of the interpreter.
_EXIT_TIMEOUT_S = 2.0


def drive_blocking(steps: CallSteps[T]) -> T:
    """Run the calls of `steps` in this thread, in their blocking form."""
    try:
        call, _, arguments = next(steps)
        while True:
            try:
                answer = call(*arguments)
            except BaseException as error:  # noqa: BLE001 - the steps handle it, and their spans record it
                call, _, arguments = steps.throw(error)
            else:
                call, _, arguments = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_awaited(steps: CallSteps[T]) -> T:
    """Run the calls of `steps` on the running event loop, in their awaited form."""
    try:
        _, call, arguments = next(steps)
        while True:
            try:
                answer = await call(*arguments)
            except BaseException as error:  # noqa: BLE001 - as above
                _, call, arguments = steps.throw(error)
            else:
                _, call, arguments = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class LoopClosed(RuntimeError):  # noqa: N818 - the end of the caller's work, not a mistake in it
    """The thread was closed before the work was done."""

    def __init__(self) -> None:
        super().__init__("the broker was closed before the call was done")


class LoopThread:
    """Runs coroutines on its own loop, which the first one starts, also after `close` and in a forked child.

    `on_stop` runs on the loop as its last work. `after_fork` runs in a forked child, where the thread does not exist;
    it returns what must never be finalized there, because its sockets belong to the parent.
    """

    def __init__(self, name: str, *, on_stop: Callable[[], Awaitable[None]], after_fork: Callable[[], object]) -> None:
        self._name = name
        self._on_stop = on_stop
        self._after_fork = after_fork
        self._lock = threading.Lock()
        self._current: _RunningLoop | None = None
        _all_threads.add(self)

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` in this thread, whether or not an event loop runs in it."""
        current = self._current
        if current is not None and threading.get_ident() == current.thread.ident:
            work.close()
            raise RuntimeError(f"a blocking call on the thread of {self._name} would wait for itself")
        answer: _Answer[T] = _Answer()
        running = self._submit(submission := _Submission(work, answer.give))
        try:
            return answer.wait()
        except BaseException:
            running.abandon(submission)  # ctrl+c during the wait; nothing to abandon if the work itself failed
            raise

    async def run_from_any_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` on the caller's loop. Cancelling the caller cancels the work."""
        caller = asyncio.get_running_loop()
        future: asyncio.Future[T] = caller.create_future()
        # asyncio.wrap_future(run_coroutine_threadsafe(…)) does the same through three more callbacks, 25 µs of 90
        report: Callable[[T | None, BaseException | None], object]
        report = partial(caller.call_soon_threadsafe, _resolve, future)  # type: ignore[arg-type]
        submission = _Submission(work, report)
        running = self._submit(submission)
        try:
            return await future
        except asyncio.CancelledError:
            running.abandon(submission)
            raise

    def close(self, timeout_s: float) -> bool:
        """Let `on_stop` run and end the thread; False if that takes longer. Callers that still wait get LoopClosed."""
        with self._lock:
            running, self._current = self._current, None
        return running is None or running.stop(timeout_s)

    def forget(self) -> None:
        """Drop the parent's loop in a forked child, which starts a new one when needed."""
        if self._current is not None:
            self._current.detach()
        _parents.append((self._current, self._after_fork()))
        self._lock = threading.Lock()  # another thread of the parent may have held the lock at the fork
        self._current = None

    def _submit(self, submission: _Submission[Any]) -> _RunningLoop:
        running = self._current or self._start()
        running.take(submission)
        return running

    def _start(self) -> _RunningLoop:
        with self._lock:
            if self._current is None:
                self._current = _RunningLoop(self._name, self._on_stop)
            return self._current


class _Answer(Generic[T]):
    """The result that one thread waits for; a concurrent.futures.Future costs a send 6 µs more."""

    __slots__ = ("_error", "_given", "_result")

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()

    def give(self, result: T | None, error: BaseException | None) -> None:
        self._result = result
        self._error = error
        self._given.release()

    def wait(self) -> T:
        self._given.acquire()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


class _Submission(Generic[T]):
    """A coroutine submitted by one thread and run by the loop's thread."""

    __slots__ = ("_report", "_siblings", "_task", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, T], report: Callable[[T | None, BaseException | None], object]
    ) -> None:
        self._work = work
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._siblings: set[_Submission[Any]] = set()

    def start(self, siblings: set[_Submission[Any]]) -> None:
        """Start the coroutine on this loop. It is in `siblings`, which keeps it alive, until it has ended."""
        self._siblings = siblings
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._siblings.discard(self)
        if task.cancelled():
            self._report_result(None, LoopClosed())
        elif error := task.exception():
            self._report_result(None, error)

    def refuse(self) -> None:
        """Raise LoopClosed in the caller: the loop has ended without running the coroutine."""
        self._work.close()
        self._report_result(None, LoopClosed())

    async def _run(self) -> None:
        # Reported here, not in a callback of the task, which would run one iteration of the loop (10 µs) later.
        self._report_result(await self._work, None)

    def _report_result(self, result: T | None, error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the caller's loop is closed: no caller waits
            self._report(result, error)


class _RunningLoop:
    """One loop and its thread, from start to stop."""

    def __init__(self, name: str, on_stop: Callable[[], Awaitable[None]]) -> None:
        self._on_stop = on_stop
        self._submissions: set[_Submission[Any]] = set()
        self._stopping = asyncio.Event()
        self._selector = selectors.DefaultSelector()
        started: Future[asyncio.AbstractEventLoop] = Future()
        self.thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self.thread.start()
        self._loop = started.result()

    def take(self, submission: _Submission[Any]) -> None:
        self._submissions.add(submission)
        try:
            self._loop.call_soon_threadsafe(submission.start, self._submissions)
        except RuntimeError:  # the loop has just been closed
            with suppress(KeyError):  # the closing loop has refused the submission already
                self._submissions.remove(submission)
                submission.refuse()

    def abandon(self, submission: _Submission[Any]) -> None:
        with suppress(RuntimeError):  # closed: it has ended anyway
            self._loop.call_soon_threadsafe(submission.cancel)

    def stop(self, timeout_s: float) -> bool:
        with suppress(RuntimeError):  # another thread has closed it
            self._loop.call_soon_threadsafe(self._stopping.set)
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def detach(self) -> None:
        """Close the selector in a forked child: a finalizer would unregister what the parent's loop waits for."""
        with suppress(OSError):
            self._selector.close()

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, self._selector)) as runner:
            runner.run(self._stay(started))
        # Work submitted while the loop ended never began, and its callers wait.
        while self._submissions:
            self._submissions.pop().refuse()

    async def _stay(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        await self._on_stop()


def _resolve(future: Future[T] | asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    if future.done():  # cancelled by its owner
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


_all_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()
_parents: list[object] = []


def _forget_all() -> None:
    for thread in tuple(_all_threads):
        thread.forget()


def _close_all() -> None:
    """Close connections properly; the server would log a lost connection for each one that just ends."""
    for thread in tuple(_all_threads):
        thread.close(_EXIT_TIMEOUT_S)


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
