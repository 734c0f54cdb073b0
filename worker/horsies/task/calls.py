"""Runs user code: every return value and exception is turned into a TaskResult; exceptions get their error code."""

from __future__ import annotations

import asyncio
import reprlib
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import SchemaError

from horsies.domain.argument_types import spell
from horsies.domain.codec import EXCEPTION_TYPE
from horsies.domain.codec.conversion import ConversionError, bare_type, conversion_of
from horsies.domain.codes import ContractCode, OperationalErrorCode, to_builtin
from horsies.domain.errors import ErrorCode, TaskDefinitionError, WorkflowContextMissingIdError, signature_place
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from horsies.domain.codec.conversion import Conversion
    from horsies.domain.codes import BuiltInTaskCode


_REMEDY: Final = "write -> TaskResult[T, TaskError], T being the type of the value"
_ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)

# A list of a million wrong items has a million errors; the first few are enough.
_MAX_ERRORS: Final = 10

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 500


class ReturnType:
    """The two types of one task's TaskResult. Validators are built when first needed; a producer does not need them."""

    def __init__(self, ok_type: Any, err_type: Any) -> None:
        self.ok_type = ok_type
        self.err_type = err_type

    @cached_property
    def ok_validator(self) -> TypeAdapter[Any]:
        return _validator(self.ok_type)

    @cached_property
    def err_validator(self) -> TypeAdapter[Any]:
        return _validator(self.err_type)

    def why_unusable(self) -> str | None:
        """Return why no value can be checked against these types, or None. At run time it fails the task."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ArbitraryTypeWarning)  # an annotation that is not a type
                _ = self.ok_validator, self.err_validator
        except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, ArbitraryTypeWarning) as error:
            return str(error)
        return None

    @cached_property
    def _conversion(self) -> Conversion | None:
        return conversion_of(self.ok_type)

    def to_stored(self, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]:
        """Return the result with a value that the codec can write, or the error of one that has no JSON."""
        if self._conversion is None or result.err is not None:
            return result
        try:
            return TaskResult(ok=self._conversion.dump(result.ok, "the value"))
        except ConversionError as error:
            code, message = OperationalErrorCode.WORKER_SERIALIZATION_ERROR, f"the result was not stored: {error}"
            return TaskResult(err=TaskError(error_code=code, message=message))

    def from_stored(self, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]:
        """Return the result with a value of the declared type."""
        if self._conversion is None or result.err is not None:
            return result
        try:
            return TaskResult(ok=self._conversion.load(result.ok, "the value"))
        except ConversionError as error:
            message = f"the stored result is not a {spell(self.ok_type)}: {error}"
            return TaskResult(err=TaskError(error_code=ContractCode.PYDANTIC_HYDRATION_ERROR, message=message))

    def broken_by(self, result: TaskResult[Any, Any]) -> TaskError | None:
        """Return the error that replaces a result whose value or error is not of the declared type."""
        if result.is_ok():
            return _mismatch("ok", self.ok_type, self.ok_validator, result.ok)
        return _mismatch("err", self.err_type, self.err_validator, result.err)


def return_type_of(fn: Callable[..., Any], local_names: Mapping[str, Any]) -> ReturnType:
    """Read the return annotation; TaskDefinitionError HRS-100 without one, HRS-101 for all but TaskResult[T, E]."""
    hint = bare_type(_return_hint(fn, local_names))
    arguments = get_args(hint)
    if get_origin(hint) is not TaskResult or len(arguments) != 2:
        raise _refused(fn, f"task function {fn.__name__}() returns {spell(hint)}, not TaskResult[T, E]")
    return ReturnType(*arguments)


def _return_hint(fn: Callable[..., Any], local_names: Mapping[str, Any]) -> Any:
    if "return" not in fn.__annotations__:
        raise TaskDefinitionError(
            f"task function {fn.__name__}() has no return type",
            code=ErrorCode.TASK_NO_RETURN_TYPE,
            location=signature_place(fn),
            help_text=_REMEDY,
        )
    annotation = fn.__annotations__["return"]
    only_return = SimpleNamespace(__annotations__={"return": annotation})
    # Names of a caller in another module must not hide those of the function's own module.
    nearby = dict(local_names) if "<locals>" in fn.__qualname__ else {}
    try:
        # Only this one: a parameter's type may be imported for type checkers only.
        return get_type_hints(only_return, fn.__globals__, nearby, include_extras=True)["return"]
    except NameError as error:
        raise _refused(
            fn,
            f"the return type {annotation!r} of task function {fn.__name__}() cannot be resolved: {error}",
            "the task checks its results against this type: import it where it runs, not under `if TYPE_CHECKING:`, "
            "and define it above the task",
        ) from None
    # An annotation is the user's expression and may raise anything.
    except Exception as error:
        raise _refused(
            fn,
            f"the return type {annotation!r} of task function {fn.__name__}() cannot be resolved: "
            f"{type(error).__name__}: {error}",
        ) from error


def _refused(fn: Callable[..., Any], message: str, help_text: str = _REMEDY) -> TaskDefinitionError:
    return TaskDefinitionError(
        message,
        code=ErrorCode.TASK_INVALID_RETURN_TYPE,
        location=signature_place(fn),
        help_text=help_text,
    )


def _validator(kind: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind, config=_ANY_CLASS)
    except PydanticUserError as error:
        # Models, dataclasses and typed dicts have a configuration of their own and refuse another.
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(kind)


def _mismatch(variant: str, kind: Any, validator: TypeAdapter[Any], value: object) -> TaskError | None:
    try:
        validator.validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[:_MAX_ERRORS]
        return TaskError(
            error_code=ContractCode.RETURN_TYPE_MISMATCH,
            message=f"the {variant} value is {type(value).__name__}, which does not fit {spell(kind)}: "
            f"{found[0]['msg']}",
            data={
                "variant": variant,
                "expected_type": spell(kind),
                "actual_value": _short.repr(value),
                "validation_errors": [{**line, "loc": list(line["loc"])} for line in found],
            },
        )
    return None


CodeByException: TypeAlias = Mapping[type[BaseException], str]


@dataclass(frozen=True, slots=True)
class ExceptionCodes:
    """The rules for one task. Only the exact class counts, so a new subclass never changes its meaning silently."""

    task_mapper: CodeByException | None
    app_mapper: CodeByException
    task_default: str | None
    app_default: str

    def is_mapped(self, exception: BaseException) -> bool:
        return type(exception) in {**self.app_mapper, **(self.task_mapper or {})}

    def code_of(self, exception: BaseException) -> BuiltInTaskCode | str:
        """Return the enum member if the rules name a built-in code."""
        if isinstance(exception, WorkflowContextMissingIdError):
            return ContractCode.WORKFLOW_CTX_MISSING_ID
        kind = type(exception)
        if self.task_mapper is not None and kind in self.task_mapper:
            return to_builtin(self.task_mapper[kind])
        if kind in self.app_mapper:
            return to_builtin(self.app_mapper[kind])
        return to_builtin(self.app_default if self.task_default is None else self.task_default)


@dataclass(frozen=True, slots=True)
class TaskInvoker:
    """The rules for the outcomes of one task."""

    function_name: str
    return_type: ReturnType
    codes: ExceptionCodes

    def call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any, Any]:
        """Run `fn` in this process. Only KeyboardInterrupt is passed on: ctrl+c is meant for the whole program."""
        try:
            return self._checked(fn(*args, **kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - user code ends here, sys.exit() included
            return self.failure(error)

    async def call_async(
        self, fn: Callable[..., Awaitable[Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[Any, Any]:
        """`call` for `async def`; cancellations from outside are passed on too, for the timeouts around it."""
        try:
            return self._checked(await fn(*args, **kwargs))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self.failure(error)
        except BaseException as error:  # noqa: BLE001 - user code ends here, sys.exit() included
            return self.failure(error)

    def _checked(self, returned: object) -> TaskResult[Any, Any]:
        """Return the returned TaskResult, or an error if it is none, or not of the declared types."""
        if isinstance(returned, TaskResult):
            broken = self.return_type.broken_by(returned)
            return returned if broken is None else TaskResult(err=broken)
        what = "None" if returned is None else f"{type(returned).__name__}, not a TaskResult"
        return TaskResult(
            err=TaskError(
                error_code=OperationalErrorCode.TASK_EXCEPTION,
                message=f"task {self.function_name} returned {what}; return TaskResult(ok=...) or TaskResult(err=...)",
            )
        )

    def failure(self, error: BaseException) -> TaskResult[Any, TaskError]:
        # str(error) is user code and may raise; the traceback module handles that.
        text = str(traceback.TracebackException(type(error), error, None))
        kind = type(error).__name__
        # An exception with a code of its own was foreseen; its text is often passed on to the application's users.
        what = "" if self.codes.is_mapped(error) else f"Unhandled exception in task {self.function_name}: "
        return TaskResult(
            err=TaskError(
                exception=error,
                error_code=self.codes.code_of(error),
                message=f"{what}{kind}: {text}",
                data={EXCEPTION_TYPE: kind},
            )
        )
