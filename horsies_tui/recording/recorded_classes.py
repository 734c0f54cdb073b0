"""The classes that may occur in a recording, by name. A file that names any other class is not read."""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel

from horsies.doctor.examine import DATABASE
from horsies.domain.states import TargetKind
from horsies.findings.diagnose import searches

if typing.TYPE_CHECKING:
    from horsies.findings import FindingKind

_MODULES: Final = (
    "horsies.config.recovery",
    "horsies.config.schedule",
    "horsies.findings.blockers",
    "horsies.findings.cluster",
    "horsies.findings.diagnose",
    "horsies.findings",
    "horsies.operations.target",
    "horsies.findings.why",
    "horsies.views.activity",
    "horsies.views.audit",
    "horsies.views.series",
    "horsies.views.counts",
    "horsies.views.detail",
    "horsies.views.flow",
    "horsies.views.tasks",
    "horsies.views.progress",
    "horsies.views.cluster",
    "horsies.views.schedules",
    "horsies.views.searching",
    "horsies.views.statistics",
    "horsies.views.workers",
    "horsies.views.workflow_stories",
    "horsies.views.workflows",
    "horsies_tui.activity.feed",
    "horsies_tui.feed.status",
    "horsies_tui.health.glance",
    "horsies_tui.health.history",
    "horsies_tui.health.windows",
    "horsies_tui.workers.feed",
    "horsies_tui.workflow.feed",
    "horsies_tui.workflow.gantt",
)


class NotAValue(Exception):  # noqa: N818 - says what it is about
    """Raised for a value that may not be in a recording, or does not fit its class."""


@cache
def classes() -> Mapping[str, type]:
    """Return the allowed classes: dataclasses, named tuples, enumerations and settings whose creation has no side
    effects.
    """
    found: dict[str, type] = {}
    for module in map(import_module, _MODULES):
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and _is_value(value):
                assert name not in found, f"two classes are named {name}"
                found[name] = value
    return found


def _is_value(cls: type) -> bool:
    return is_dataclass(cls) or issubclass(cls, Enum | BaseModel) or hasattr(cls, "_fields")


@cache
def finding_kinds() -> Mapping[str, FindingKind]:
    """Return the kinds of findings by name. They are compared by identity, so a replay uses the modules' records."""
    return {kind.name: kind for kind in (DATABASE, *(kind for search in searches() for kind in search.kinds))}


@cache
def field_names(cls: Hashable) -> tuple[str, ...]:
    if is_dataclass(cls) and isinstance(cls, type):
        return tuple(field.name for field in fields(cls))
    return tuple(getattr(cls, "_fields", ()))


def build(name: str, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return an object of this class. Raise NotAValue if the class is unknown or a value does not fit its field."""
    cls = classes().get(name)
    if cls is None or not field_names(cls):
        raise NotAValue(f"there is no value {name!r}")
    hints = _hints(cls)
    for field, value in zip(names, values, strict=True):
        if field not in hints:
            raise NotAValue(f"{name} has no field {field!r}")
        if not _fits(value, hints[field]):
            raise NotAValue(f"{name}.{field} is not {hints[field]}: {value!r:.60}")
    try:
        return cls(**dict(zip(names, values, strict=True)))
    except TypeError as error:  # a field without a default is missing
        raise NotAValue(str(error)) from error


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    """Return the types of the fields, including those that a module imports for the type checker only."""
    # Generic parameters, as of Page[RowT], stay unchecked: they are no types that a value could be compared with.
    known: dict[str, Any] = {}
    for module in _MODULES:
        known |= vars(import_module(module))
    known |= {**vars(typing), **classes(), "datetime": datetime, "timedelta": timedelta, "UUID": UUID}
    known |= {"Mapping": Mapping, "Sequence": Sequence, "TargetKind": TargetKind}
    try:
        return get_type_hints(cls, localns=known)
    except NameError as error:
        raise NotAValue(f"{cls.__name__} is not a value: {error}") from error


def _fits(value: Any, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        return _is_a(value, hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in args)
    if origin is Literal:
        return value in args
    if origin in (tuple, list):
        # asyncpg returns lists, which some views pass on.
        if not isinstance(value, tuple | list):
            return False
        each = args[:1] * len(value) if args[-1:] == (...,) or origin is list else args
        return len(each) == len(value) and all(map(_fits, value, each))
    if origin is frozenset:
        return isinstance(value, origin) and all(_fits(item, args[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    return not isinstance(origin, type) or isinstance(value, origin)


def _is_a(value: Any, hint: Any) -> bool:
    """Return whether a value fits a type. As in SQL, an integer may stand for a float and the other way round; a
    boolean is no number.
    """
    if hint is None:
        return value is None
    if hint is Any or not isinstance(hint, type):
        return True
    if hint in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint)
