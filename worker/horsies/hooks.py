"""`app.on(...)`: functions of the application that its workers call when something happens.

Hooks for a worker and its tasks are called in the worker's process, each in a thread of its own: one that raises or
hangs is logged, and delays neither tasks nor other hooks. Each event is reported at most once, by one worker; an event
at which that worker is killed is lost.

Hooks for a child process and the runs in it are called in that process, in the context of the run, before its code
begins and after it has ended: a slow one makes the run longer. One that raises is logged and changes no outcome.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

from horsies.domain.errors import ConfigurationError, SourceLocation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from horsies.task.current import CurrentTask


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task is FAILED and will not run again automatically.

    This includes tasks that a stop of the worker interrupted, and those of a dead worker that the sweep of another one
    found. Tasks that an operator ended, that were cancelled, or that expired before they ran are not reported.
    """

    task_id: str
    task_name: str
    queue_name: str
    error_code: str | None
    error_message: str | None
    attempt: int
    """The number of the run that failed, from 1 on."""
    worker_id: str
    """The worker that reports it."""
    found_by_sweep: bool = False


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """A run of a task has failed, and the task is PENDING again."""

    task_id: str
    task_name: str
    queue_name: str
    error_code: str | None
    error_message: str | None
    attempt: int
    retry_at: datetime | None
    """The time from which it may run again, by the database's clock."""
    worker_id: str
    found_by_sweep: bool = False


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker has begun to claim tasks."""

    worker_id: str
    hostname: str
    pid: int
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    """A worker has stopped, and stored what it could. A killed worker reports nothing."""

    worker_id: str
    hostname: str
    pid: int
    lost: tuple[str, ...]
    """Ids of the tasks whose outcomes it could not store."""


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A child process of a worker has imported the application, and runs no task yet."""

    pid: int


@dataclass(frozen=True, slots=True)
class ChildStopped:
    """A child process has run its last task. A killed one reports nothing."""

    pid: int


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The code of a task is about to be called, in this process and context."""

    task: CurrentTask


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The code of a task has raised, was stopped, or has returned an error. It may be retried.

    Reported before the RunEnded of the same run.
    """

    task: CurrentTask
    error_code: str | None
    error_message: str | None
    exception: BaseException | None
    """With its traceback; None if the task has returned an error."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The code of a task has ended, in whichever way."""

    task: CurrentTask
    ok: bool
    error_code: str | None


Event: TypeAlias = TaskFailed | TaskRetried | WorkerStarted | WorkerStopped
"""The events of a worker's process."""
ChildEvent: TypeAlias = ChildStarted | ChildStopped | RunStarted | RunFailed | RunEnded
"""The events of a child process."""
EventName: TypeAlias = Literal[
    "task_failed",
    "task_retried",
    "worker_started",
    "worker_stopped",
    "child_started",
    "child_stopped",
    "run_started",
    "run_failed",
    "run_ended",
]
E = TypeVar("E")
Hook: TypeAlias = Callable[[E], Coroutine[Any, Any, object] | object]

EVENTS: Final[dict[str, type[Event | ChildEvent]]] = dict(
    zip(get_args(EventName), (*get_args(Event), *get_args(ChildEvent)), strict=True)
)
_OF_CHILDREN: Final = (ChildStarted, ChildStopped, RunStarted, RunFailed, RunEnded)


class HookRegistry:
    """The hooks of an application, in the order of their registration."""

    def __init__(self) -> None:
        self._hooks: list[tuple[type[Event | ChildEvent], Hook[Any]]] = []

    def __iter__(self) -> Iterator[tuple[type[Event | ChildEvent], Hook[Any]]]:
        return iter(self._hooks)

    def of_worker(self) -> list[tuple[type[Event], Hook[Any]]]:
        """Return the hooks that are called in the worker's process."""
        return [(event, hook) for event, hook in self._hooks if not issubclass(event, _OF_CHILDREN)]

    def of_child(self) -> list[tuple[type[ChildEvent], Hook[Any]]]:
        """Return the hooks that are called in each child process."""
        return [(event, hook) for event, hook in self._hooks if issubclass(event, _OF_CHILDREN)]

    def add(self, event: str, hook: Hook[Any]) -> None:
        """Add a hook, once. ConfigurationError if it cannot be called with an event."""
        if not callable(hook) or not _takes_one(hook):
            raise ConfigurationError(
                f"the hook {getattr(hook, '__name__', hook)!r} for {event!r} cannot be called with one argument",
                location=SourceLocation.of_function(hook) if callable(hook) else None,
                help_text=f"define it with one parameter for the event: def hook(event: {EVENTS[event].__name__})",
            )
        if (EVENTS[event], hook) not in self._hooks:
            self._hooks.append((EVENTS[event], hook))


def require_event(event: str, location: SourceLocation | None) -> None:
    """Raise ConfigurationError, with the place of the call, if there is no such event."""
    if event in EVENTS:
        return
    near = difflib.get_close_matches(str(event), EVENTS, n=1)
    raise ConfigurationError(
        f"there is no event {event!r}",
        location=location,
        help_text=f"did you mean {near[0]!r}?" if near else f"the events are {', '.join(EVENTS)}",
    )


def _takes_one(hook: Callable[..., object]) -> bool:
    try:
        inspect.signature(hook).bind(object())
    except TypeError:
        return False
    except ValueError:  # a built-in without a signature
        return True
    return True
