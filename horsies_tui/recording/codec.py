"""Encodes snapshots as JSON and decodes them.

An object that was written before is referred to by its number, so an unchanged row costs a few bytes. Strings, numbers,
booleans and null stand for themselves; anything else is a list whose first item is its type: `["o", 12]` is object 12
of the segment. Decoding creates objects of the classes in `recorded_classes.py` only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, ValidationError

from horsies.domain.damage import (
    Damaged,
    DamagedList,
    DamagedMap,
    DamagedNumber,
    DamagedText,
    DamagedTime,
    plain_stored,
)
from horsies.findings import FindingKind
from horsies_tui.recording.recorded_classes import NotAValue, build, classes, field_names, finding_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_DEEPEST: Final = 60
"""The JSON of a task may be 50 levels deep; a snapshot adds a few."""


class Encoder:
    """Encodes the values of one segment. `hide` is called with each object and returns what may be recorded of it."""

    def __init__(self, hide: Callable[[Any], Any]) -> None:
        self._hide = hide
        self._classes: dict[type, int] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}
        """Numbers of objects by their identity. The object is kept, so that its identity is not reused."""
        self.new_classes: list[list[Any]] = []
        self.new_objects: list[str] = []

    def __len__(self) -> int:
        return len(self._known)

    def take(self) -> tuple[list[list[Any]], list[str]]:
        """Return the classes and objects added since the last call; the objects are JSON already."""
        taken = self.new_classes, self.new_objects
        self.new_classes, self.new_objects = [], []
        return taken

    def encode(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, Damaged):
            return self._damaged(value)
        match value:
            case Mapping():
                return ["m", [[self.encode(key), self.encode(item)] for key, item in value.items()]]
            case list():
                return ["l", [self.encode(item) for item in value]]
            case frozenset():
                return ["s", sorted((self.encode(item) for item in value), key=repr)]
            case tuple() if not hasattr(value, "_fields"):
                return ["(", [self.encode(item) for item in value]]
        scalar = _told(value)
        return ["o", self._object(value)] if scalar is None else scalar

    def _damaged(self, value: Any) -> list[Any]:
        """Encode a damaged value with its stored form only if that is a time or a number: a text may need masking."""
        match value:
            case DamagedTime():
                return ["!t", value.ticks]
            case DamagedNumber():
                return ["!f", plain_stored(value.stored)]
            case DamagedText():
                return ["!s", str(value)]
            case DamagedMap():
                return ["!m", self.encode(dict(value))]
            case _:
                return ["!(", self.encode(tuple(value))]

    def _object(self, value: Any) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        cls = cast("type", type(value))
        shown = self._hide(value)
        if classes().get(cls.__name__) is not cls:
            raise NotAValue(f"{cls.__name__} cannot be recorded")
        if isinstance(shown, BaseModel):
            told: list[Any] = [cls.__name__, shown.model_dump_json()]
        else:
            told = [self._class(cls), *(self.encode(getattr(shown, name)) for name in field_names(cls))]
        text = json.dumps(told, separators=(",", ":"))
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
            self.new_objects.append(text)
        self._known[id(value)] = value, number
        return number

    def _class(self, cls: Any) -> int:
        number = self._classes.get(cls)
        if number is None:
            number = self._classes[cls] = len(self._classes)
            self.new_classes.append([cls.__name__, list(field_names(cls))])
        return number


def _told(value: Any) -> Any:
    """Return a scalar as JSON; None for any other value."""
    match value:
        case Enum():
            return ["e", type(value).__name__, value.name]
        case float() | Decimal():
            return float(value) if math.isfinite(value) else ["f", str(float(value))]
        case datetime():
            return ["t", (value - _EPOCH) // _TICK]
        case timedelta():
            return ["d", value // _TICK]
        case UUID():
            return ["u", value.hex]
        case FindingKind():
            return ["k", value.name]
        case _:
            return None


class Decoder:
    """Decodes the values of one segment.

    It raises NotAValue for input that no Encoder has written. Objects are created on first use, because one moment
    needs few of the objects of five minutes.
    """

    def __init__(self) -> None:
        self._classes: list[tuple[str, list[str]]] = []
        self._told: list[list[Any]] = []
        self._made: dict[int, Any] = {}

    def learn(self, new_classes: Any, new_objects: Any) -> None:
        for name, names in _pairs(new_classes):
            if not isinstance(name, str) or not isinstance(names, list):
                raise NotAValue("a class without a name or fields")
            self._classes.append((name, names))
        self._told.extend(_list(told) for told in _list(new_objects))

    def decode(self, told: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise NotAValue("values are too deep in each other")
        if told is None or isinstance(told, bool | int | float | str):
            return told
        match told:
            case ["o", int(number)] if 0 <= number < len(self._told):
                if number not in self._made:
                    self._made[number] = self._object(self._told[number], depth + 1)
                return self._made[number]
            case ["(", list(items)]:
                return tuple(self.decode(item, depth + 1) for item in items)
            case ["l", list(items)]:
                return [self.decode(item, depth + 1) for item in items]
            case ["s", list(items)]:
                return frozenset(self._key(item, depth) for item in items)
            case ["!s", str(text)]:
                return DamagedText.of(text, "")
            case ["!m" | "!(" as kind, items]:
                return _damaged(kind, self.decode(items, depth + 1))
            case ["m", list(items)]:
                return {self._key(key, depth): self.decode(item, depth + 1) for key, item in _pairs(items)}
            case _:
                return _scalar(told)

    def _key(self, told: Any, depth: int) -> Any:
        value = self.decode(told, depth + 1)
        if not isinstance(value, str | int | Enum | UUID | datetime):
            raise NotAValue("a key of a type that keys cannot have")
        return value

    def _object(self, told: list[Any], depth: int) -> Any:
        match told:
            case [str(name), str(text)]:
                return _settings(name, text)
            case [int(number), *values] if 0 <= number < len(self._classes):
                name, names = self._classes[number]
                if len(names) == len(values):
                    return build(name, names, [self.decode(value, depth) for value in values])
        raise NotAValue(f"{str(told)[:60]} is not an object")


def _scalar(told: Any) -> Any:
    match told:
        case ["t", int(ticks)]:
            return _moment(ticks)
        case ["!t", int(ticks)] if -(2**63) <= ticks < 2**63:
            return DamagedTime.of(ticks)
        case ["!f", str(stored)]:
            number = DamagedNumber()
            number.stored = plain_stored(stored)
            return number
        case ["d", int(ticks)]:
            return _length(ticks)
        case ["u", str(digits)] if re.fullmatch("[0-9a-f]{32}", digits):
            return UUID(hex=digits)
        case ["f", "nan" | "inf" | "-inf" as text]:
            return float(text)
        case ["e", str(name), str(member)]:
            return _member(name, member)
        case ["k", str(name)] if name in finding_kinds():
            return finding_kinds()[name]
        case _:
            raise NotAValue(f"{str(told)[:60]} is not a value")


def _damaged(kind: str, items: Any) -> DamagedMap | DamagedList:
    if kind == "!m" and isinstance(items, dict):
        damaged: DamagedMap | DamagedList = DamagedMap(items)
    elif kind == "!(" and isinstance(items, tuple):
        damaged = DamagedList(items)
    else:
        raise NotAValue("a damaged value of another type")
    damaged.stored = ""
    return damaged


def _settings(name: str, text: str) -> BaseModel:
    cls = classes().get(name)
    if cls is None or not issubclass(cls, BaseModel):
        raise NotAValue(f"there are no settings {name!r}")
    try:
        return cls.model_validate_json(text)
    except ValidationError as error:
        raise NotAValue(f"{name} is not what it should be") from error


def _member(name: str, member: str) -> Enum:
    cls = classes().get(name)
    if cls is None or not issubclass(cls, Enum) or member not in cls.__members__:
        raise NotAValue(f"there is no {name}.{member}")
    return cls[member]


def _moment(ticks: int) -> datetime:
    try:
        return _EPOCH + ticks * _TICK
    except OverflowError as error:
        raise NotAValue("a time outside of the years 1 to 9999") from error


def _length(ticks: int) -> timedelta:
    try:
        return ticks * _TICK
    except OverflowError as error:
        raise NotAValue("a duration that is too long") from error


def _list(told: Any) -> list[Any]:
    if not isinstance(told, list):
        raise NotAValue(f"{str(told)[:60]} is not a list")
    return told


def _pairs(told: Any) -> list[list[Any]]:
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in _list(told)):
        raise NotAValue("a list of two was expected")
    pairs: list[list[Any]] = told
    return pairs
