"""What `@app.task` accepts and refuses, and its errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pytest
from task_apps import make_app, make_custom_app
from typing_extensions import TypeAliasType

from horsies import (
    ErrorCode,
    Horsies,
    MultipleValidationErrors,
    RetryPolicy,
    TaskError,
    TaskResult,
)
from horsies.domain.errors import ConfigurationError, HorsiesError, TaskDefinitionError

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

T = TypeVar("T")
Money = TaskResult[int, TaskError]
OrError = TaskResult[T, TaskError]


def good(a: int, b: int = 2) -> TaskResult[int, TaskError]:
    """Add two numbers."""
    return TaskResult(ok=a + b)


def refusal(fn: Any, name: Any = "name", app: Horsies | None = None, **options: Any) -> HorsiesError:
    """The error of defining `fn`."""
    with pytest.raises(HorsiesError) as caught:
        (app or make_app()).task(name, fn, **options)
    return caught.value


def codes(error: HorsiesError) -> list[ErrorCode | None]:
    single = error.report.errors if isinstance(error, MultipleValidationErrors) else [error]
    return [each.code for each in single]


def test_a_task_carries_what_its_definition_says() -> None:
    app = make_custom_app()
    policy = RetryPolicy.fixed([5], auto_retry_for=["BUSY"], jitter=False)
    task = app.task(
        "add",
        good,
        queue_name="mail",
        retry_policy=policy,
        exception_mapper={OSError: "DISK"},
        default_unhandled_error_code="ODD",
        timeout_ms=1500,
        requeue_on_interrupt=True,
        persist=True,
    )
    assert (task.task_name, task.task_queue_name, task.task_ok_type) == ("add", "mail", int)
    assert (task.timeout_ms, task.requeue_on_interrupt, task.retry_policy) == (1500, True, policy)
    assert (task.exception_mapper, task.default_unhandled_error_code) == ({OSError: "DISK"}, "ODD")
    assert task.task_options_json == (
        '{"retry_policy":{"max_retries":1,"intervals":[5],"backoff_strategy":"fixed","jitter":false,'
        '"auto_retry_for":["BUSY"]},"good_until":null}'
    )
    assert (task.__name__, task.__doc__, task._original_fn) == ("good", "Add two numbers.", good)
    assert task.__annotations__ == good.__annotations__
    assert inspect.signature(task) == inspect.signature(good)
    assert task.is_async is False
    assert app.tasks["add"] is task


def test_without_options_a_task_has_the_documented_stored_options() -> None:
    task = make_app().task("add", good)
    assert task.task_options_json == '{"retry_policy":null,"good_until":null}'
    assert (task.task_queue_name, task.exception_mapper, task.default_unhandled_error_code) == (None, None, None)
    assert (task.timeout_ms, task.requeue_on_interrupt) == (None, None)


def test_the_mapper_of_a_task_cannot_be_changed_from_outside() -> None:
    given: dict[type[BaseException], str] = {OSError: "DISK"}
    task = make_app().task("add", good, exception_mapper=given)
    given[ValueError] = "BAD"
    assert task.exception_mapper == {OSError: "DISK"}
    with pytest.raises(TypeError):
        task.exception_mapper[ValueError] = "BAD"  # type: ignore[index]


def no_return(a: int):
    return TaskResult(ok=a)


def plain_return() -> int:
    return 1


def nothing_returned() -> None:
    return None


def bare_result() -> TaskResult:  # type: ignore[type-arg]
    return TaskResult(ok=1)


def unresolvable() -> TaskResult[OnlyForTypeCheckers, TaskError]:
    raise NotImplementedError


def broken_expression() -> TaskResult[1 / 0, TaskError]:  # type: ignore[valid-type]
    raise NotImplementedError


@pytest.mark.parametrize(
    ("fn", "code", "text"),
    [
        (no_return, ErrorCode.TASK_NO_RETURN_TYPE, "no_return() has no return type"),
        (lambda: 1, ErrorCode.TASK_NO_RETURN_TYPE, "has no return type"),
        (plain_return, ErrorCode.TASK_INVALID_RETURN_TYPE, "plain_return() returns int, not TaskResult[T, E]"),
        (nothing_returned, ErrorCode.TASK_INVALID_RETURN_TYPE, "nothing_returned() returns NoneType"),
        (bare_result, ErrorCode.TASK_INVALID_RETURN_TYPE, "returns TaskResult, not TaskResult[T, E]"),
        (unresolvable, ErrorCode.TASK_INVALID_RETURN_TYPE, "name 'OnlyForTypeCheckers' is not defined"),
        (unresolvable, ErrorCode.TASK_INVALID_RETURN_TYPE, "not under `if TYPE_CHECKING:`"),
        (broken_expression, ErrorCode.TASK_INVALID_RETURN_TYPE, "ZeroDivisionError"),
    ],
)
def test_a_return_type_that_promises_no_result_is_refused(fn: Any, code: ErrorCode, text: str) -> None:
    error = refusal(fn)
    assert isinstance(error, TaskDefinitionError)
    assert error.code is code
    assert error.help_text
    assert text in f"{error.message} {error.help_text}"
    assert error.location is not None
    assert error.location.file == __file__
    assert error.location.line == fn.__code__.co_firstlineno


def through_alias() -> Money:
    raise NotImplementedError


def through_generic_alias() -> OrError[str]:
    raise NotImplementedError


def annotated() -> Annotated[TaskResult[bool, TaskError], "a note"]:
    raise NotImplementedError


def quoted_inside() -> TaskResult["Later", TaskError]:  # noqa: UP037
    raise NotImplementedError


def with_parameters_for_type_checkers(price: OnlyForTypeCheckers) -> TaskResult[int, TaskError]:
    raise NotImplementedError


class Later:
    pass


@pytest.mark.parametrize(
    ("fn", "ok_type"),
    [
        (through_alias, int),
        (through_generic_alias, str),
        (annotated, bool),
        (quoted_inside, Later),
        (with_parameters_for_type_checkers, int),
    ],
)
def test_a_return_type_is_resolved_however_it_is_spelled(fn: Any, ok_type: type) -> None:
    assert make_app().task("name", fn).task_ok_type is ok_type


PRICE = {"__value__": TaskResult[int, TaskError]}


@pytest.mark.parametrize(
    "price",
    [
        pytest.param(TypeAliasType("Price", TaskResult[int, TaskError]), id="of typing_extensions"),
        pytest.param(type("TypeAliasType", (), PRICE)(), id="of Python 3.12"),
    ],
)
def test_a_type_alias_statement_is_looked_through(price: Any) -> None:
    def priced() -> price:
        raise NotImplementedError

    assert make_app().task("name", priced).task_ok_type is int


def test_a_class_next_to_the_task_inside_a_function_is_found() -> None:
    class Local:
        pass

    app = make_app()

    @app.task("name")
    def decorated() -> TaskResult[Local, TaskError]:
        raise NotImplementedError

    def called() -> TaskResult[Local, TaskError]:
        raise NotImplementedError

    assert decorated.task_ok_type is Local
    assert app.task("other", called).task_ok_type is Local


def test_names_of_the_caller_do_not_hide_those_of_the_functions_module() -> None:
    Later = int  # noqa: N806 - a name that means something else at the top level

    assert make_app().task("name", quoted_inside).task_ok_type is not Later


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"auto_retry_for": ["X"]}, ErrorCode.TASK_INVALID_OPTIONS, "auto_retry_for is not an option of a task"),
        ({"good_until": None}, ErrorCode.TASK_INVALID_OPTIONS, "good_until is not an option of a task"),
        ({"colour": "red"}, ErrorCode.TASK_INVALID_OPTIONS, "colour is not an option of a task"),
        ({"retry_policy": {"max_retries": 1}}, ErrorCode.TASK_INVALID_OPTIONS, "retry_policy="),
        ({"timeout_ms": 0}, ErrorCode.TASK_INVALID_OPTIONS, "timeout_ms=0"),
        ({"timeout_ms": True}, ErrorCode.TASK_INVALID_OPTIONS, "timeout_ms=True"),
        ({"timeout_ms": 1.5}, ErrorCode.TASK_INVALID_OPTIONS, "timeout_ms=1.5"),
        ({"requeue_on_interrupt": "yes"}, ErrorCode.TASK_INVALID_OPTIONS, "requeue_on_interrupt='yes'"),
        ({"persist": 1}, ErrorCode.TASK_INVALID_OPTIONS, "persist=1"),
        ({"persist": False}, ErrorCode.TASK_INVALID_OPTIONS, "persist=False"),
        ({"exception_mapper": {OSError: "lower"}}, ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER, "UPPER_SNAKE_CASE"),
        ({"exception_mapper": {OSError: "TimeoutError"}}, ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER, "exception class"),
        ({"exception_mapper": {"OSError": "DISK"}}, ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER, "not an exception"),
        ({"exception_mapper": [OSError]}, ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER, "not a dict"),
        ({"default_unhandled_error_code": "odd"}, ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER, "UPPER_SNAKE_CASE"),
        ({"queue_name": "mail"}, ErrorCode.CONFIG_INVALID_QUEUE_MODE, "cannot specify queue_name"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_its_place(
    options: dict[str, Any], code: ErrorCode, text: str
) -> None:
    error = refusal(good, **options)
    assert error.code is code
    assert text in error.message
    assert error.help_text
    assert error.location is not None
    assert error.location.line == good.__code__.co_firstlineno


@pytest.mark.parametrize("name", ["", "   ", "x" * 256, "tab\tin it", 7, None])
def test_a_name_that_the_database_could_not_hold_or_show_is_refused(name: object) -> None:
    assert refusal(good, name).code is ErrorCode.TASK_INVALID_OPTIONS


def test_the_decorator_without_a_name_says_what_is_missing() -> None:
    with pytest.raises(TaskDefinitionError, match=r'name it: @app.task\("send_report"\)'):

        @make_app().task  # type: ignore[call-overload]
        def nameless() -> TaskResult[int, TaskError]:
            raise NotImplementedError


def test_in_custom_mode_a_queue_is_required() -> None:
    error = refusal(good, app=make_custom_app())
    assert isinstance(error, ConfigurationError)
    assert error.code is ErrorCode.CONFIG_INVALID_QUEUE_MODE
    assert "queue_name is required" in error.message
    assert error.help_text == "choose one of mail, reports, or name one for all: AppConfig(default_queue='mail')"


def test_in_custom_mode_the_application_may_name_a_queue_for_all_tasks() -> None:
    app = make_custom_app(default_queue="reports")
    assert app.task("plain", good).task_queue_name == "reports"
    assert app.task("mails", good, queue_name="mail").task_queue_name == "mail"
    app.validate_queue_name(None)


def test_in_custom_mode_the_queue_must_be_configured() -> None:
    error = refusal(good, app=make_custom_app(), queue_name="post")
    assert isinstance(error, ConfigurationError)
    assert error.code is ErrorCode.TASK_INVALID_QUEUE
    assert "'post'" in error.message


def test_a_queue_name_too_long_for_its_channel_is_refused_with_that_reason() -> None:
    error = refusal(good, app=make_custom_app(), queue_name="ü" * 27)
    assert "has 54 bytes" in error.notes[0]


def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def decorate_without_wraps(fn: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> TaskResult[int, TaskError]:
        return fn(*args)  # type: ignore[no-any-return]

    return wrapper


class Callme:
    def __call__(self) -> TaskResult[int, TaskError]:
        raise NotImplementedError

    def method(self) -> TaskResult[int, TaskError]:
        raise NotImplementedError


def generator() -> TaskResult[int, TaskError]:  # type: ignore[misc]
    yield 1


async def async_generator() -> TaskResult[int, TaskError]:  # type: ignore[misc]
    yield 1


@pytest.mark.parametrize(
    "fn",
    [
        generator,
        async_generator,
        Callme.method,
        decorate(good),
        decorate_without_wraps(good),
        functools.partial(good, 1),
        functools.lru_cache(good),
        staticmethod(good),
        Callme(),
        Callme().method,
        Callme,
        make_app().task("inner", good),
        "good",
    ],
    ids=lambda fn: type(fn).__name__,
)
def test_anything_but_a_plain_function_is_refused(fn: Any) -> None:
    assert ErrorCode.TASK_PREDECORATED_NOT_SUPPORTED in codes(refusal(fn))


def test_everything_that_is_wrong_is_reported_at_once_in_the_documented_order() -> None:
    error = refusal(
        decorate(no_return),
        name="",
        auto_retry_for=["X"],
        good_until=None,
        exception_mapper={OSError: "lower"},
        default_unhandled_error_code="odd",
        colour="red",
        timeout_ms=-1,
        queue_name="mail",
    )
    assert isinstance(error, MultipleValidationErrors)
    assert codes(error) == [
        ErrorCode.TASK_INVALID_OPTIONS,
        ErrorCode.TASK_INVALID_OPTIONS,
        ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER,
        ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER,
        ErrorCode.TASK_INVALID_OPTIONS,
        ErrorCode.TASK_INVALID_OPTIONS,
        ErrorCode.TASK_INVALID_OPTIONS,
        ErrorCode.CONFIG_INVALID_QUEUE_MODE,
        ErrorCode.TASK_PREDECORATED_NOT_SUPPORTED,
        ErrorCode.TASK_NO_RETURN_TYPE,
    ]
    assert str(error).endswith("error: aborting due to 10 previous errors")


def test_a_refused_task_is_not_registered() -> None:
    app = make_app()
    with pytest.raises(TaskDefinitionError):
        app.task("bad", plain_return)  # type: ignore[type-var]
    assert app.list_tasks() == []
