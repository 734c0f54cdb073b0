"""Calls the hooks of the application in a child: at its start and end, and in the context of each run."""

from __future__ import annotations

import contextvars
import inspect
import logging
import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from horsies.hooks import ChildStarted, ChildStopped, RunEnded, RunFailed, RunStarted
from horsies.run.outcomes import TaskStopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.hooks import ChildEvent, Hook
    from horsies.run.outcomes import Outcome
    from horsies.task.current import CurrentTask

_log: Final = logging.getLogger("horsies.hooks")
_UNSET: Final = object()


class HookedRun(Protocol):
    """The facts of a run from which its events are made."""

    raised: BaseException | None

    def describe(self) -> CurrentTask | None: ...


class ChildHooks:
    """A hook that raises is logged; the others are called all the same, and the outcome of the run stays as it is.

    `async def` hooks of a plain task, and of the child, run in the event loop of the `async def` tasks, while the main
    thread waits: so what they open belongs to that loop.
    """

    def __init__(
        self,
        hooks: list[tuple[type[ChildEvent], Hook[Any]]],
        wait_for: Callable[[Awaitable[object], contextvars.Context], None],
    ) -> None:
        """`wait_for` runs something in the event loop, in that context, until it has ended."""
        self._hooks: defaultdict[type[ChildEvent], list[Hook[Any]]] = defaultdict(list)
        for event, hook in hooks:
            self._hooks[event].append(hook)
        self._run_in_loop = wait_for

    def child_started(self) -> None:
        self._call(ChildStarted(os.getpid()))

    def child_stopped(self) -> None:
        self._call(ChildStopped(os.getpid()))

    def run_started(self, run: HookedRun) -> None:
        """Call the hooks for its start; TaskStopped if the run is stopped meanwhile."""
        for event in _started(run):
            self._call(event)

    def run_ended(self, run: HookedRun, outcome: Outcome) -> None:
        """Call the hooks for its end. A stop ends only the hook that it interrupts: the outcome is there already."""
        for event in _ended(run, outcome):
            self._call(event, stoppable=False)

    async def run_started_async(self, run: HookedRun) -> None:
        for event in _started(run):
            await self._call_async(event)

    async def run_ended_async(self, run: HookedRun, outcome: Outcome) -> None:
        for event in _ended(run, outcome):
            await self._call_async(event, stoppable=False)

    def _call(self, event: ChildEvent, *, stoppable: bool = True) -> None:
        for hook in self._hooks[type(event)]:
            try:
                answer = hook(event)
                if inspect.isawaitable(answer):
                    self._wait_for(answer)
            except BaseException as error:
                if stoppable and isinstance(error, TaskStopped):
                    raise
                _failed(hook, event)

    async def _call_async(self, event: ChildEvent, *, stoppable: bool = True) -> None:
        """Call the hooks in the event loop, where a stop arrives as a cancellation."""
        for hook in self._hooks[type(event)]:
            try:
                answer = hook(event)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:  # noqa: BLE001
                _failed(hook, event)
            except BaseException as error:
                if stoppable and not isinstance(error, SystemExit | KeyboardInterrupt):
                    raise
                _failed(hook, event)

    def _wait_for(self, answer: Any) -> None:
        """Run an `async def` hook; the task sees the values that it gives to context variables."""
        context = contextvars.copy_context()
        self._run_in_loop(answer, context)
        for variable, value in context.items():
            if variable.get(_UNSET) is not value:
                variable.set(value)


def _started(run: HookedRun) -> list[ChildEvent]:
    task = run.describe()
    return [] if task is None else [RunStarted(task)]


def _ended(run: HookedRun, outcome: Outcome) -> list[ChildEvent]:
    task = run.describe()
    if task is None:
        return []
    ok, _, code, message = outcome
    ended = RunEnded(task, ok, code)
    return [ended] if ok else [RunFailed(task, code, message, run.raised), ended]


def _failed(hook: Hook[Any], event: ChildEvent) -> None:
    name = getattr(hook, "__qualname__", None) or repr(hook)
    _log.exception("the hook %s for %s failed", name, type(event).__name__)
