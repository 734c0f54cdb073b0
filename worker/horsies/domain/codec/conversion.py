"""Values whose annotated type the JSON of the codec would lose: pydantic writes and reads them, by their annotation.

An annotation is one of three kinds. KEPT: the codec's JSON and tags preserve the value. RESTORED (an enum of texts, a
tuple, a dict whose keys are numbers): the stored JSON is plain, so that upstream can read it, and the value is rebuilt
from it. OWN (UUID, Decimal, bytes, a set): pydantic writes a JSON that upstream could not store at all.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence, Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, time
from enum import Enum, IntEnum
from functools import cached_property, lru_cache
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, PydanticUserError, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import is_typeddict

from horsies.domain.codec.json_text import CodecError, spell_path, to_json
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONFIG: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_KEPT_CLASSES: Final = (bool, int, float, str, datetime, date, time)
# The codec refuses secrets: pydantic would write stars.
_TAGGED_OR_REFUSED: Final = (BaseModel, TaskResult, TaskError, SecretStr, SecretBytes, type, bytearray)
_DICTS: Final = (dict, Mapping, MutableMapping)
_UNBUILDABLE: Final = (PydanticUserError, SchemaError, NameError, TypeError)


class ConversionError(ValueError):
    """A value is not of the annotated type. The text names the part at fault and contains no value."""


class Fidelity(IntEnum):
    """The degrees to which the codec's JSON keeps values of a type."""

    KEPT = 0
    RESTORED = 1
    OWN = 2


@dataclasses.dataclass(frozen=True, slots=True)
class PlainTree:
    """JSON that a conversion has made; the codec writes it as it is."""

    tree: Any


class Conversion:
    """The conversion of the values of one annotation."""

    def __init__(self, hint: Any, *, own: bool) -> None:
        self._hint = hint
        self._own = own

    def dump(self, value: Any, name: str) -> Any:
        """Return what the codec writes in place of the value."""
        try:
            if not self._own:
                self._adapter.validate_python(value)
                return value
            self._adapter.validate_python(value, strict=True)
            tree = self._adapter.dump_python(value, mode="json", round_trip=True, warnings="error")
            return PlainTree(with_sorted_sets(value, tree) if self._holds_sets else tree)
        except ValidationError as error:
            raise _misfit(error, name) from None
        except (PydanticSerializationError, ValueError) as error:  # ValueError: bytes within a model that are no text
            raise ConversionError(f"{name} cannot be written: {type(error).__name__}: {str(error)[:300]}") from None

    def load(self, value: Any, name: str) -> Any:
        """Return the value of the annotated type, from what the codec has read."""
        try:
            if self._own:
                with suppress(CodecError):  # it has objects of tags in it
                    return self._adapter.validate_json(to_json(value))
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise _misfit(error, name) from None

    @cached_property
    def _holds_sets(self) -> bool:
        return holds_sets(self._adapter.core_schema)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return _adapter(self._hint)


class ResultConversion(Conversion):
    """The conversion of a TaskResult by the type of its value."""

    def dump(self, value: Any, name: str) -> Any:
        return _with_ok(value, lambda ok: super(ResultConversion, self).dump(ok, f"{name}.ok"))

    def load(self, value: Any, name: str) -> Any:
        return _with_ok(value, lambda ok: super(ResultConversion, self).load(ok, f"{name}.ok"))


def _with_ok(value: Any, convert: Any) -> Any:
    return TaskResult(ok=convert(value.ok)) if isinstance(value, TaskResult) and value.err is None else value


def conversion_of(hint: Any) -> Conversion | None:
    """Return the conversion; None if the codec keeps the annotation's values, or pydantic does not know it."""
    make: type[Conversion] = Conversion
    if get_origin(bare_type(hint)) is TaskResult:
        hint, make = get_args(bare_type(hint))[0], ResultConversion
    found = fidelity(hint)
    if found is Fidelity.KEPT:
        return None
    return make(hint, own=found is Fidelity.OWN) if _is_known(hint) else None


def reading_of(hint: Any) -> Conversion | None:
    """Return the conversion of hand-written JSON: its `load` makes a dataclass or a model of a plain object, too.

    None for an annotation that pydantic does not know.
    """
    return Conversion(hint, own=True) if _is_known(hint) else None


def fidelity(hint: Any, within: frozenset[int] = frozenset()) -> Fidelity:
    """Return how well the codec keeps values of this type. `within`: the recursive types that are being looked at."""
    bare = bare_type(hint)
    if id(bare) in within:
        return Fidelity.KEPT
    within |= {id(bare)}
    # Text beside a type is a comment; everything else may be for pydantic.
    has_constraints = get_origin(hint) is Annotated and not all(isinstance(extra, str) for extra in get_args(hint)[1:])
    constrained = Fidelity.RESTORED if has_constraints else Fidelity.KEPT
    origin, arguments = get_origin(bare), get_args(bare)
    if origin is Union or origin is UnionType:
        return max(constrained, _most(arguments, within))
    if origin is Literal:
        of_enum = any(isinstance(member, Enum) for member in arguments)
        return max(constrained, Fidelity.RESTORED if of_enum else Fidelity.KEPT)
    cls = origin or bare
    if cls in {None, NoneType, Any, object} or not isinstance(cls, type):
        return constrained
    return max(constrained, _of_class(cls, bare, arguments, within))


def _of_class(cls: type, hint: Any, arguments: Sequence[Any], within: frozenset[int]) -> Fidelity:
    if cls in _KEPT_CLASSES or issubclass(cls, _TAGGED_OR_REFUSED):
        return Fidelity.KEPT
    if issubclass(cls, Enum):
        return Fidelity.RESTORED if issubclass(cls, str | int | float) else Fidelity.OWN
    if dataclasses.is_dataclass(cls):
        # What is RESTORED in a dataclass is restored where the codec makes the dataclass.
        return Fidelity.OWN if _most(field_hints(cls).values(), within) is Fidelity.OWN else Fidelity.KEPT
    if is_typeddict(cls):
        return _most(field_hints(cls).values(), within)
    if issubclass(cls, tuple):
        items = field_hints(cls).values() if hasattr(cls, "_fields") else arguments
        return max(Fidelity.RESTORED, _most(items, within))
    if issubclass(cls, AbstractSet):
        return Fidelity.OWN
    if issubclass(cls, Mapping):
        return _of_mapping(cls, arguments, within)
    if issubclass(cls, Sequence) and not issubclass(cls, str | bytes | bytearray | memoryview):
        return max(Fidelity.RESTORED if issubclass(cls, deque) else Fidelity.KEPT, _most(arguments, within))
    return Fidelity.OWN if _is_known(hint) else Fidelity.KEPT


def _of_mapping(cls: type, arguments: Sequence[Any], within: frozenset[int]) -> Fidelity:
    if len(arguments) != 2:
        return Fidelity.KEPT
    key, value = bare_type(arguments[0]), fidelity(arguments[1], within)
    keys = Fidelity.KEPT if key in {str, Any, object} else max(Fidelity.RESTORED, fidelity(key, within))
    return max(keys, value, Fidelity.KEPT if cls in _DICTS else Fidelity.RESTORED)


def _most(hints: Iterable[Any], within: frozenset[int]) -> Fidelity:
    return max((fidelity(hint, within) for hint in hints if hint is not Ellipsis), default=Fidelity.KEPT)


def field_hints(cls: type) -> dict[str, Any]:
    """Return the annotations of a class; none if its names cannot be resolved."""
    try:
        return get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are the user's expressions
        return {}


def resolved(annotation: Any, names: dict[str, Any], local: Mapping[str, Any]) -> Any:
    """Return one annotation with its names resolved, or its text: names are often imported for type checkers only."""
    only_this = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(only_this, names, local, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - annotations are the user's expressions
        return str(annotation)


@lru_cache(maxsize=256)
def conversions_of_fields(cls: type) -> Mapping[str, Conversion]:
    """Return conversions for the fields of a dataclass whose type the codec's JSON would lose."""
    made = ((name, conversion_of(hint)) for name, hint in field_hints(cls).items())
    return {name: conversion for name, conversion in made if conversion is not None}


def bare_type(hint: Any, *, keep_new_types: bool = False) -> Any:
    """Return the type behind Annotated, NewType and `type X = …`."""
    for _ in range(20):
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif isinstance(hint, NewType) and not keep_new_types:
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # by name: typing_extensions has its own class for it
            try:
                hint = hint.__value__
            except Exception:  # noqa: BLE001 - evaluated here for the first time, so its names may be missing
                return Any
        else:
            break
    return hint


def _is_known(hint: Any) -> bool:
    """Return whether pydantic can write and read this type."""
    try:
        _adapter(hint)
    except _UNBUILDABLE:
        return False
    return True


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=_CONFIG)
    except PydanticUserError as error:
        # Models, dataclasses and typed dicts have a configuration of their own and refuse another.
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(hint)


def _misfit(error: ValidationError, name: str) -> ConversionError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    steps = (step for step in first["loc"] if step != "[key]")  # pydantic's mark of a key of a dict
    return ConversionError(f"{spell_path([name, *steps])}: {first['msg']}")


_SETS: Final = (set, frozenset)
_TEXTS: Final = (str, bytes, bytearray)


def holds_sets(schema: object) -> bool:
    """Return whether values of this schema of pydantic may hold sets: few do, and only these are walked."""
    if isinstance(schema, Mapping):
        return schema.get("type") in ("set", "frozenset") or any(map(holds_sets, schema.values()))
    return isinstance(schema, list | tuple) and any(map(holds_sets, schema))


@lru_cache(maxsize=256)
def model_holds_sets(cls: type[BaseModel]) -> bool:
    return holds_sets(cls.__pydantic_core_schema__)


def with_sorted_sets(value: Any, tree: Any) -> Any:
    """Sort the items of each set, by their texts, in the JSON that pydantic has made of a value."""
    if isinstance(value, Mapping) and isinstance(tree, dict):
        # Two keys may be written alike.
        pairs = zip(tree.items(), value.values(), strict=True) if len(value) == len(tree) else ()
        return {name: with_sorted_sets(part, text) for (name, text), part in pairs} or tree
    if isinstance(tree, dict):
        return {name: with_sorted_sets(getattr(value, name, None), part) for name, part in tree.items()}
    # An iterator has been used up by pydantic, and a serializer of a field may write what it likes.
    is_container = isinstance(value, (*_SETS, Sequence)) and not isinstance(value, _TEXTS)
    if not isinstance(tree, list) or not is_container or len(value) != len(tree):
        return tree
    items = [with_sorted_sets(*pair) for pair in zip(value, tree, strict=True)]
    return sorted(items, key=to_json) if isinstance(value, _SETS) else items
