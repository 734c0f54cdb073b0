"""The declared return type `-> TaskResult[T, E]`, and the check of values against it."""

from __future__ import annotations

import reprlib
import warnings
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import SchemaError

from horsies.domain.argument_types import spell, unwrapped
from horsies.domain.codec.conversion import ConversionError, conversion_of
from horsies.domain.codes import ContractCode, OperationalErrorCode
from horsies.domain.errors import ErrorCode, TaskDefinitionError, signature_place
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from horsies.domain.codec.conversion import Conversion

_REMEDY: Final = "write -> TaskResult[T, TaskError], T being the type of the value"
_ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)

# A list of a million wrong items has a million errors; the first few are enough.
_MAX_ERRORS: Final = 10

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 500


class Promise:
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
        """The same with a value that the codec can write, or the error of one that has no JSON."""
        if self._conversion is None or result.err is not None:
            return result
        try:
            return TaskResult(ok=self._conversion.dump(result.ok, "the value"))
        except ConversionError as error:
            code, message = OperationalErrorCode.WORKER_SERIALIZATION_ERROR, f"the result was not stored: {error}"
            return TaskResult(err=TaskError(error_code=code, message=message))

    def from_stored(self, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]:
        """The same with a value of the declared type."""
        if self._conversion is None or result.err is not None:
            return result
        try:
            return TaskResult(ok=self._conversion.load(result.ok, "the value"))
        except ConversionError as error:
            message = f"the stored result is no {spell(self.ok_type)}: {error}"
            return TaskResult(err=TaskError(error_code=ContractCode.PYDANTIC_HYDRATION_ERROR, message=message))

    def broken_by(self, result: TaskResult[Any, Any]) -> TaskError | None:
        """The error that replaces a result whose value or error is not of the declared type."""
        if result.is_ok():
            return _mismatch("ok", self.ok_type, self.ok_validator, result.ok)
        return _mismatch("err", self.err_type, self.err_validator, result.err)


def promise_of(fn: Callable[..., Any], local_names: Mapping[str, Any]) -> Promise:
    """Read the return annotation; TaskDefinitionError HRS-100 without one, HRS-101 for all but TaskResult[T, E]."""
    hint = unwrapped(_return_hint(fn, local_names))
    arguments = get_args(hint)
    if get_origin(hint) is not TaskResult or len(arguments) != 2:
        raise _refused(fn, f"task function {fn.__name__}() returns {spell(hint)}, not TaskResult[T, E]")
    return Promise(*arguments)


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
