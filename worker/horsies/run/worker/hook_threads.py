"""Calls the hooks of the application, each in a thread of its own, so that none can hold up the worker."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from contextlib import suppress
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codes import OperationalErrorCode
from horsies.hooks import TaskFailed, TaskRetried
from horsies.run.events import Observer

if TYPE_CHECKING:
    from horsies.hooks import Event, Hook, HookRegistry
    from horsies.lifecycle.recovering import CrashedRun
    from horsies.run.events import Events, TaskEnd

_MOST_WAITING: Final = 1_000
_LIMIT_S: Final = 30.0
_END = None


class HookThread:
    """One hook: its events one after the other, in the order in which they happened.

    An `async def` hook runs in an event loop of this thread and is cancelled after the time limit. Plain code cannot be
    ended from outside: while it hangs, its further events wait, and are dropped beyond a number.
    """

    def __init__(self, hook: Hook[Any], events: Events) -> None:
        self._hook = hook
        self.name = getattr(hook, "__qualname__", None) or repr(hook)
        self._events = events
        self._waiting: Queue[Event | None] = Queue(_MOST_WAITING)
        self._busy_since: float | None = None
        self._dropped = 0
        self._logged_hanging = self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"horsies hook {self.name}", daemon=True)
        self._thread.start()

    def notify(self, event: Event) -> None:
        """Pass on an event without blocking. The first dropped event is logged, and once a call that hangs."""
        since = self._busy_since
        if since is not None and time.monotonic() - since > _LIMIT_S and not self._logged_hanging:
            self._logged_hanging = True
            self._events.warn("hook hangs", hook=self.name, since=f"{time.monotonic() - since:.0f}s")
        try:
            self._waiting.put_nowait(event)
        except Full:
            self._dropped += 1
            if self._dropped == 1:
                self._events.warn("hook falls behind", hook=self.name, dropped="its further events, until it has room")

    def close(self) -> None:
        """Take no more events; the thread ends when the hook has been called for the last one."""
        self._closing = True
        with suppress(Full):
            self._waiting.put_nowait(_END)

    def ends_within(self, seconds: float) -> bool:
        """Block until its thread has ended, or until then."""
        self._thread.join(max(seconds, 0.0))
        return not self._thread.is_alive()

    @property
    def left(self) -> int:
        """Number of events that it has not begun, and the one that it has."""
        return sum(event is not _END for event in list(self._waiting.queue)) + (self._busy_since is not None)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not _END:
            self._busy_since = time.monotonic()
            try:
                answer = self._hook(event)
                if inspect.isawaitable(answer):
                    if self._loop is None:
                        self._loop = asyncio.new_event_loop()
                    self._loop.run_until_complete(asyncio.wait_for(answer, _LIMIT_S))
            except TimeoutError as error:
                self._fail(event, error, f"it did not end within {_LIMIT_S:g} s" if not error.args else None)
            except BaseException as error:  # noqa: BLE001 - SystemExit of a hook must not end its thread silently
                self._fail(event, error)
            self._busy_since, self._logged_hanging = None, False
            if self._dropped and self._waiting.empty():
                self._events.warn("hook has caught up", hook=self.name, dropped=self._dropped)
                self._dropped = 0
            if self._closing and self._waiting.empty():
                break  # its queue was full, so that there was no room for the mark of its end
        if self._loop is not None:
            self._loop.close()

    def _fail(self, event: Event, error: BaseException, why: str | None = None) -> None:
        self._events.hook_failed(self.name, type(event).__name__, error, why)


class Hooks(Observer):
    """The hooks of an application that are called in the worker's process."""

    def __init__(self, registry: HookRegistry, events: Events, worker_id: str) -> None:
        self.worker_id = worker_id
        self._events = events
        self._threads = [(event, HookThread(hook, events)) for event, hook in registry.of_worker()]

    def task_ended(self, end: TaskEnd) -> None:
        task, outcome = end.entry.task, end.outcome
        attempt = task.retry_count + 1
        facts = end.entry.task_id, task.task_name, task.queue_name, outcome.error_code, outcome.error_message, attempt
        if end.ending == "failed":
            self.notify(TaskFailed(*facts, self.worker_id))
        elif end.ending == "retried":
            self.notify(TaskRetried(*facts, end.due, self.worker_id))

    def run_crashed(self, crash: CrashedRun) -> None:
        code = OperationalErrorCode.WORKER_CRASHED.value
        facts = crash.task_id, crash.task_name, crash.queue_name, code, crash.message, crash.attempt
        if crash.retry_at is None:
            self.notify(TaskFailed(*facts, self.worker_id, found_by_sweep=True))
        else:
            self.notify(TaskRetried(*facts, crash.retry_at, self.worker_id, found_by_sweep=True))

    def notify(self, event: Event) -> None:
        for wanted, thread in self._threads:
            if type(event) is wanted:
                thread.notify(event)

    async def close(self, within_s: float) -> None:
        """Wait until the hooks have been called for all events so far; after that time they end with the process."""
        for _, thread in self._threads:
            thread.close()
        await asyncio.to_thread(self._wait, time.monotonic() + within_s)

    def _wait(self, end: float) -> None:
        for _, thread in self._threads:
            if not thread.ends_within(end - time.monotonic()) and thread.left:
                self._events.warn("hook not awaited", hook=thread.name, events=thread.left)
