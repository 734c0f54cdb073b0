"""The errors in a task's definition, found when it is defined."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE, QueueMode, default_code_problems, mapper_problems
from horsies.config.retry_policy import RetryPolicy
from horsies.domain.errors import ConfigurationError, ErrorCode, HorsiesError, SourceLocation, TaskDefinitionError
from horsies.domain.plain_text import why_not_a_queue_name, why_not_a_task_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from horsies.config.app import AppConfig

_MISPLACED: Final = {
    "auto_retry_for": "it belongs to the policy: retry_policy=RetryPolicy.fixed([60], auto_retry_for=[...])",
    "good_until": "a deadline belongs to one send: task.with_options(good_until=...).send(...)",
}


def problems(
    fn: object, task_name: object, options: Mapping[str, Any], known_options: Iterable[str], config: AppConfig
) -> Iterable[HorsiesError]:
    """Each broken rule except those of the return type, in the documented order."""
    found: list[HorsiesError] = [
        *_misplaced_options(options),
        *_mapper_problems(options),
        *_unknown_options(options, known_options),
        *_bad_values(options),
        *_bad_task_name(task_name),
    ]
    if (problem := queue_problem(config, options.get("queue_name"))) is not None:
        found.append(problem)
    location = SourceLocation.of_function(fn) if callable(fn) else None
    yield from (error.with_location(location) for error in found)
    yield from _wrapped(fn)


def queue_problem(config: AppConfig, queue_name: object) -> ConfigurationError | None:
    """Return why a task cannot use this queue, or no queue, under this configuration."""
    mode_code = ErrorCode.CONFIG_INVALID_QUEUE_MODE
    if config.queue_mode is QueueMode.DEFAULT:
        if queue_name is None:
            return None
        return ConfigurationError(
            f"cannot specify queue_name in DEFAULT mode: {queue_name!r} is given",
            code=mode_code,
            help_text="remove queue_name, or set queue_mode=QueueMode.CUSTOM and list the queue in custom_queues",
        )
    if queue_name is None and config.default_queue is not None:
        return None
    names = [queue.name for queue in config.custom_queues or ()]
    choice = f"choose one of {', '.join(names)}"
    if queue_name is None:
        help_text = f"{choice}, or name one for all: AppConfig(default_queue={names[0]!r})" if names else choice
        return ConfigurationError("queue_name is required in CUSTOM mode", code=mode_code, help_text=help_text)
    if queue_name in names:
        return None
    return ConfigurationError(
        f"queue_name {queue_name!r} is not one of the application's queues",
        code=ErrorCode.TASK_INVALID_QUEUE,
        notes=[reason] if isinstance(queue_name, str) and (reason := why_not_a_queue_name(queue_name)) else [],
        help_text=f"{choice}, or list it in custom_queues",
    )


def route(config: AppConfig, queue_name: str | None) -> tuple[str, int]:
    """The queue and the priority of a task whose queue_name has no problem."""
    for queue in config.custom_queues or ():
        if queue.name == (queue_name or config.default_queue):
            return queue.name, queue.priority
    return DEFAULT_QUEUE, DEFAULT_PRIORITY


def _misplaced_options(options: Mapping[str, Any]) -> Iterable[HorsiesError]:
    for name, way_out in _MISPLACED.items():
        if name in options:
            yield _invalid_option(f"{name} is not an option of a task", way_out)


def _mapper_problems(options: Mapping[str, Any]) -> Iterable[HorsiesError]:
    if (mapper := options.get("exception_mapper")) is not None:
        yield from mapper_problems(mapper)
    if (code := options.get("default_unhandled_error_code")) is not None:
        yield from default_code_problems(code)


def _unknown_options(options: Mapping[str, Any], known: Iterable[str]) -> Iterable[HorsiesError]:
    names = sorted(known)
    for name in options.keys() - {*names, *_MISPLACED}:
        yield _invalid_option(f"{name} is not an option of a task", f"the options are {', '.join(names)}")


def _bad_values(options: Mapping[str, Any]) -> Iterable[HorsiesError]:
    policy = options.get("retry_policy")
    if policy is not None and not isinstance(policy, RetryPolicy):
        yield _bad_value("retry_policy", policy, "RetryPolicy.fixed([...]) or RetryPolicy.exponential(...)")
    timeout = options.get("timeout_ms")
    if timeout is not None and (not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 1):
        yield _bad_value("timeout_ms", timeout, "a whole number of milliseconds, at least 1, or None for no limit")
    if not isinstance(options.get("requeue_on_interrupt"), bool | None):
        yield _bad_value("requeue_on_interrupt", options["requeue_on_interrupt"], "True, False or None")
    if options.get("persist", True) is not True:
        yield _bad_value("persist", options["persist"], "True: every task is a row in PostgreSQL")


def _bad_task_name(task_name: object) -> Iterable[HorsiesError]:
    reason = (
        why_not_a_task_name(task_name) if isinstance(task_name, str) else f"the task has no name, but {task_name!r}"
    )
    if reason:
        yield _invalid_option(reason, 'name it: @app.task("send_report")')


def _wrapped(fn: object) -> Iterable[HorsiesError]:
    """A decorator below `@app.task` would run in the worker only if it happens to return a suitable function."""
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
