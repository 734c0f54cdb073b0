"""`@app.task`: creates a task from a function and its options, or reports all errors in them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, overload

from horsies.domain.errors import HorsiesError, SourceLocation, raise_collected
from horsies.task.calls import ExceptionCodes
from horsies.task.checks import problems, route
from horsies.task.function import TaskFunction
from horsies.task.parameters import Parameters
from horsies.task.requests import App, TaskRequests
from horsies.task.returns import promise_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import ParamSpec

    from horsies.config.app import AppConfig, ExceptionMapper
    from horsies.config.retry_policy import RetryPolicy
    from horsies.domain.codec.classes import StorableClasses
    from horsies.domain.task_result import TaskResult
    from horsies.task.returns import Promise

    P = ParamSpec("P")
    T = TypeVar("T")
    E = TypeVar("E")


class TaskOptions(TypedDict, total=False):
    """The options of `@app.task`."""

    queue_name: str | None
    """The queue that it is sent to; None: the application's default."""
    retry_policy: RetryPolicy | None
    """Which errors are tried again, how often and when; without one, none is."""
    exception_mapper: ExceptionMapper | None
    """Error codes for exceptions that it raises, by their class; asked before the application's."""
    default_unhandled_error_code: str | None
    """The error code of all other exceptions; None: the application's."""
    timeout_ms: int | None
    """The task is stopped when it has run that long, and fails with TASK_TIMEOUT."""
    requeue_on_interrupt: bool | None
    """Whether a stopping worker may put the running task back, to run again from its start; None: as the app says."""
    persist: bool
    """Accepted for those who know it from elsewhere; always true here: every task is a row in PostgreSQL."""


class ConfiguredApp(App, Protocol):
    """The part of an application that a definition uses."""

    config: AppConfig
    storable: StorableClasses


class TaskDecorator(Protocol):
    """Turns a function into a task of the same parameters."""

    @overload
    def __call__(
        self, fn: Callable[P, Coroutine[Any, Any, TaskResult[T, E]]], /
    ) -> TaskFunction[P, T, E, Coroutine[Any, Any, TaskResult[T, E]]]: ...
    @overload
    def __call__(self, fn: Callable[P, TaskResult[T, E]], /) -> TaskFunction[P, T, E, TaskResult[T, E]]: ...


def define(
    app: ConfiguredApp, fn: Any, task_name: str, options: Mapping[str, Any], local_names: Mapping[str, Any]
) -> TaskFunction[..., Any, Any, Any]:
    """Check everything, then create the task. `local_names` are those of the scope of the definition."""
    errors = list(problems(fn, task_name, options, TaskOptions.__annotations__, app.config))
    promise = None
    if inspect.isfunction(fn):
        try:
            promise = promise_of(fn, local_names)
        except HorsiesError as error:
            errors.append(error)
    raise_collected(errors)
    assert promise is not None, "what is no function was refused above"
    return _make(app, fn, task_name, options, promise)


def _make(
    app: ConfiguredApp, fn: Callable[..., Any], task_name: str, options: Mapping[str, Any], promise: Promise
) -> TaskFunction[..., Any, Any, Any]:
    queue_name, priority = route(app.config, options.get("queue_name"))
    mapper = options.get("exception_mapper")
    requests = TaskRequests(
        app,
        task_name=task_name,
        queue_name=queue_name,
        priority=priority,
        retry_policy=options.get("retry_policy"),
        parameters=Parameters(fn, app.storable),
        promise=promise,
    )
    codes = ExceptionCodes(
        task_mapper=None if mapper is None else dict(mapper),
        app_mapper=app.config.exception_mapper,
        task_default=options.get("default_unhandled_error_code"),
        app_default=app.config.default_unhandled_error_code,
    )
    return TaskFunction(
        fn,
        requests,
        codes,
        queue_name=options.get("queue_name") or app.config.default_queue,
        timeout_ms=options.get("timeout_ms"),
        requeue_on_interrupt=options.get("requeue_on_interrupt"),
        location=SourceLocation.of_function(fn),
    )
