"""Converts Python values to a tree of JSON values, with tags where plain JSON would lose the type."""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import BaseModel

from horsies.domain import tags
from horsies.domain.codec.classes import address_of, why_not_storable
from horsies.domain.codec.conversion import PlainTree, model_holds_sets, with_sorted_sets
from horsies.domain.codec.json_text import CodecError, clean_text, first_surrogate, replace_surrogates, spell_path
from horsies.domain.codes import BuiltInTaskCode
from horsies.domain.task_result import SubWorkflowError, TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.domain.codec.classes import StorableClasses

# Each level takes up to seven of the 1,000 stack frames that Python allows by default, and the caller has some, too.
MAX_DEPTH: Final = 100
# 4,214 digits. Python refuses to read integers of more than 4,300 from text.
MAX_INTEGER_BITS: Final = 14_000

_REMEDY: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (Decimal, "annotate it as Decimal, or convert it to str or float"),
    (UUID, "annotate it as UUID, or convert it to str"),
    ((bytes, bytearray, memoryview), "annotate it as bytes, or encode it as text, for example with base64"),
    ((set, frozenset), "annotate it as set[...], or convert it to a list"),
    (timedelta, "annotate it as timedelta, or send its total_seconds()"),
    (Enum, "annotate it as its enum, or send its value"),
    (type, "send its name"),
)
_DEFAULT_REMEDY: Final = "send plain JSON values, a dataclass or a pydantic model"

_MESSAGE_LIMIT: Final = 8_000
_TRACEBACK_LIMIT: Final = 32_000


def to_tree(value: Any, name: str, classes: StorableClasses | None = None) -> Any:
    """Return the JSON tree; CodecError names the part at fault, starting at `name`. `classes`: see `dump_value`."""
    writer = _Writer(name, classes)
    try:
        return writer.tree(value)
    except CodecError:
        raise
    except RecursionError as error:
        raise writer.refusal("nested too deeply") from error
    # Serializers, properties and iterators of user classes may raise anything.
    except Exception as error:
        raise writer.refusal(f"reading the value raised {type(error).__name__}: {error}") from error


class _Writer:
    """One traversal. `path` is the current position; after an exception it is the place at fault."""

    def __init__(self, name: str, classes: StorableClasses | None) -> None:
        self.path: list[str | int] = [name]
        self.classes = classes
        self.ancestors: set[int] = set()
        self.plain = False

    def tree(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum) and isinstance(value, str | int | float):
            value = value.value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, float):
            return self.number(value)
        if isinstance(value, date | time):
            return moment(value)
        return self.container(value)

    def text(self, value: str) -> str:
        if (position := first_surrogate(value)) is not None:
            raise self.refusal(
                f"the string contains the lone surrogate {value[position]!r} at position {position}, which UTF-8 "
                "cannot write; encode or replace it"
            )
        return value

    def integer(self, value: int) -> int:
        if value.bit_length() > MAX_INTEGER_BITS:
            raise self.refusal("the integer has more than 4,214 digits; send it as a string")
        return value

    def number(self, value: float) -> float:
        if not math.isfinite(value):
            raise self.refusal(f"{value} is not JSON; send None or a string")
        return value

    def container(self, value: Any) -> Any:
        if type(value) is PlainTree:
            return self.tree(value.tree)
        if id(value) in self.ancestors:
            raise self.refusal(f"this {_type_name(value)} contains itself")
        if len(self.ancestors) >= MAX_DEPTH:
            raise self.refusal(f"nested more than {MAX_DEPTH} levels deep")
        self.ancestors.add(id(value))
        tree = self.contents(value)
        self.ancestors.remove(id(value))
        return tree

    def contents(self, value: Any) -> Any:
        for kind, write in _CONTAINERS:
            if isinstance(value, kind):
                return write(self, value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.dataclass(value)
        if isinstance(value, Mapping):
            return self.mapping(value)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return [self.step(position, item) for position, item in enumerate(value)]
        way_out = next((hint for kind, hint in _REMEDY if isinstance(value, kind)), _DEFAULT_REMEDY)
        raise self.refusal(f"{_type_name(value)} is not JSON; {way_out}")

    def step(self, name: str | int, value: Any) -> Any:
        self.path.append(name)
        tree = self.tree(value)
        self.path.pop()
        return tree

    def fields(self, value: Any, names: Iterator[str]) -> dict[str, Any]:
        return {name: self.step(name, getattr(value, name)) for name in names}

    def mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, item in value.items():
            name = self.text(key.value if isinstance(key, str) and isinstance(key, Enum) else str(key))
            if name in tree:
                raise self.refusal(f"two keys are both written as {name!r}")
            if name in tags.RESERVED and not self.plain:
                raise self.refusal(f"the key {name!r} is reserved for stored types; rename it")
            tree[name] = self.step(name, item)
        return tree

    def model(self, value: BaseModel) -> dict[str, Any]:
        self.check_class(type(value))
        # round_trip leaves out computed fields, which a model that forbids extra fields would refuse when read back.
        data = value.model_dump(mode="json", round_trip=True)
        if model_holds_sets(type(value)):
            data = with_sorted_sets(value, data)
        # A model's own JSON is read by the model and not searched for tags, so it may use any key.
        before, self.plain = self.plain, True
        tree = self.tree(data)
        self.plain = before
        return {tags.PYDANTIC_MODEL: True, **address_of(type(value)), "data": tree}

    def dataclass(self, value: Any) -> dict[str, Any]:
        self.check_class(type(value))
        data = self.fields(value, (field.name for field in dataclasses.fields(value)))
        return {tags.DATACLASS: True, **address_of(type(value)), "data": data}

    def task_result(self, value: TaskResult[Any, Any]) -> dict[str, Any]:
        return {tags.TASK_RESULT: True, "ok": self.step("ok", value.ok), "err": self.step("err", value.err)}

    def task_error(self, value: TaskError) -> dict[str, Any]:
        code, message, exception = value.error_code, value.message, value.exception
        tree: dict[str, Any] = {
            tags.TASK_ERROR: True,
            "error_code": {tags.BUILTIN_CODE: code.value} if isinstance(code, BuiltInTaskCode) else self.tree(code),
            "data": self.step("data", value.data),
            # Texts of exceptions often contain file names that are not UTF-8; the error itself must not be lost because
            # of that.
            "message": None if message is None else replace_surrogates(message),
        }
        if isinstance(exception, BaseException):
            # A `__str__` that raises, NUL, surrogates and megabytes of text are handled.
            report = traceback.TracebackException.from_exception(exception)
            tree["exception"] = {
                "type": type(exception).__name__,
                "message": clean_text(str(report), _MESSAGE_LIMIT),
                "traceback": clean_text("".join(report.format()), _TRACEBACK_LIMIT),
            }
        elif exception is not None:
            tree["exception"] = self.step("exception", exception)
        return tree | self.own_error_fields(value)

    def own_error_fields(self, value: TaskError) -> dict[str, Any]:
        """Write the fields of a subclass, so that it is read back as that subclass and not as a plain TaskError."""
        own = type(value).model_fields.keys() - TaskError.model_fields.keys()
        tree = self.fields(value, (name for name in type(value).model_fields if name in own and name != _SUMMARY))
        if isinstance(value, SubWorkflowError):
            tree[_SUMMARY] = self.step(_SUMMARY, vars(value.sub_workflow_summary))
        if type(value) not in (TaskError, SubWorkflowError):
            self.check_class(type(value))
            tree[tags.ERROR_CLASS] = address_of(type(value))
        return tree

    def check_class(self, cls: type) -> None:
        reason = why_not_storable(cls)
        if reason is None and self.classes is not None:
            reason = self.classes.why_not(cls)
        if reason is not None:
            raise self.refusal(reason)

    def refusal(self, reason: str) -> CodecError:
        return CodecError(spell_path(self.path), reason)


_SUMMARY: Final = "sub_workflow_summary"

# TaskError comes before BaseModel, of which it is a subclass.
_CONTAINERS: Final[tuple[tuple[type, Callable[[_Writer, Any], Any]], ...]] = (
    (TaskResult, _Writer.task_result),
    (TaskError, _Writer.task_error),
    (BaseModel, _Writer.model),
)


def moment(value: date | time) -> dict[str, Any]:
    tag = tags.TIME if isinstance(value, time) else tags.DATETIME if isinstance(value, datetime) else tags.DATE
    return {tag: True, "value": value.isoformat()}


def _type_name(value: object) -> str:
    return type(value).__name__
