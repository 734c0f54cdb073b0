"""`@app.task`: creates a task from a function and its options, or reports all errors in them."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeVar, overload

from horsies.config.app import default_code_problems, mapper_problems
from horsies.config.retry_policy import RetryPolicy
from horsies.domain.errors import (
    ErrorCode,
    HorsiesError,
    SourceLocation,
    TaskDefinitionError,
    raise_collected,
)
from horsies.domain.plain_text import why_not_a_task_name
from horsies.task.calls import ExceptionCodes, return_type_of
from horsies.task.function import TaskFunction
from horsies.task.options import queue_problem, route
from horsies.task.parameters import Parameters
from horsies.task.requests import App, TaskRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import ParamSpec

    from horsies.config.app import AppConfig, ExceptionMapper
    from horsies.domain.codec.classes import StorableClasses
    from horsies.domain.task_result import TaskResult
    from horsies.task.calls import ReturnType

    P = ParamSpec("P")
    T = TypeVar("T")
    E = TypeVar("E")


_MISPLACED: Final = {
    "auto_retry_for": "it belongs to the policy: retry_policy=RetryPolicy.fixed([60], auto_retry_for=[...])",
    "good_until": "a deadline belongs to one send: task.with_options(good_until=...).send(...)",
}


def problems(
    fn: object, task_name: object, options: Mapping[str, Any], known_options: Iterable[str], config: AppConfig
) -> Iterable[HorsiesError]:
    """Return each broken rule except those of the return type, in the documented order."""
    found = list(_bad_options(options, known_options, task_name))
    if (problem := queue_problem(config, options.get("queue_name"))) is not None:
        found.append(problem)
    location = SourceLocation.of_function(fn) if callable(fn) else None
    yield from (error.with_location(location) for error in found)
    yield from _wrapped(fn)


def _bad_options(options: Mapping[str, Any], known_options: Iterable[str], task_name: object) -> Iterable[HorsiesError]:
    for name, way_out in _MISPLACED.items():
        if name in options:
            yield _invalid_option(f"{name} is not an option of a task", way_out)
    if (mapper := options.get("exception_mapper")) is not None:
        yield from mapper_problems(mapper)
    if (code := options.get("default_unhandled_error_code")) is not None:
        yield from default_code_problems(code)
    names = sorted(known_options)
    for name in options.keys() - {*names, *_MISPLACED}:
        yield _invalid_option(f"{name} is not an option of a task", f"the options are {', '.join(names)}")
    policy, timeout = options.get("retry_policy"), options.get("timeout_ms")
    if policy is not None and not isinstance(policy, RetryPolicy):
        yield _bad_value("retry_policy", policy, "RetryPolicy.fixed([...]) or RetryPolicy.exponential(...)")
    if timeout is not None and (not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 1):
        yield _bad_value("timeout_ms", timeout, "a whole number of milliseconds, at least 1, or None for no limit")
    if not isinstance(options.get("requeue_on_interrupt"), bool | None):
        yield _bad_value("requeue_on_interrupt", options["requeue_on_interrupt"], "True, False or None")
    if options.get("persist", True) is not True:
        yield _bad_value("persist", options["persist"], "True: every task is a row in PostgreSQL")
    no_text = None if isinstance(task_name, str) else f"the name of the task is {task_name!r}, not a text"
    if reason := no_text or why_not_a_task_name(str(task_name)):
        yield _invalid_option(reason, 'name it: @app.task("send_report")')


def _wrapped(fn: object) -> Iterable[HorsiesError]:
    """Refuse all but plain functions: a worker would run a decorator below `@app.task` only by chance."""
    location = SourceLocation.of_function(fn) if callable(fn) else None
    refused = partial(
        TaskDefinitionError,
        code=ErrorCode.TASK_PREDECORATED_NOT_SUPPORTED,
        location=location,
        help_text="put @app.task nearest to the function and remove other decorators, or call them inside it",
    )
    if not inspect.isfunction(fn):
        yield refused(f"a task is a plain function; this is {type(fn).__name__}")
    elif inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        yield refused(
            f"{fn.__name__}() is a generator: it would run without end, or not at all",
            help_text="return a TaskResult; for the steps of a long task see horsies.progress, or a workflow",
        )
    elif _is_method(fn):
        yield refused(
            f"{fn.__name__}() is a method of {fn.__qualname__.rpartition('.')[0]}, and a worker has no object for it",
            help_text="put the task at the top level of a module, and pass it what it needs",
        )
    elif hasattr(fn, "__wrapped__"):
        yield refused(f"{fn.__name__}() is already decorated")
    elif inner := _functions_closed_over(fn):
        yield refused(
            f"{fn.__name__}() closes over the function {inner[0]}(), as the wrapper of a decorator does",
            notes=["a helper that the task needs belongs at the top level of a module"],
        )


def _is_method(fn: Callable[..., Any]) -> bool:
    defined_in = fn.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(fn).parameters), None)
    return bool(defined_in) and not defined_in.endswith("<locals>") and first in {"self", "cls"}


def _functions_closed_over(fn: Callable[..., Any]) -> list[str]:
    names = []
    for cell in fn.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # still empty: a name that is bound later, such as the task's own
            continue
        if inspect.isfunction(value) and value is not fn:
            names.append(value.__name__)
    return names


def _bad_value(name: str, value: object, wanted: str) -> HorsiesError:
    return _invalid_option(f"{name}={value!r} is not a possible value", f"write {wanted}")


def _invalid_option(message: str, help_text: str) -> HorsiesError:
    return TaskDefinitionError(message, code=ErrorCode.TASK_INVALID_OPTIONS, help_text=help_text)


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
    return_type = None
    if inspect.isfunction(fn):
        try:
            return_type = return_type_of(fn, local_names)
        except HorsiesError as error:
            errors.append(error)
    raise_collected(errors)
    assert return_type is not None, "what is no function was refused above"
    return _make(app, fn, task_name, options, return_type)


def _make(
    app: ConfiguredApp, fn: Callable[..., Any], task_name: str, options: Mapping[str, Any], return_type: ReturnType
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
        return_type=return_type,
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
