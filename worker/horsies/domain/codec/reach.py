"""The classes that a declared type reaches: in unions, generics, fields and fields of fields."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABCMeta
from collections.abc import Iterable
from types import SimpleNamespace, UnionType
from typing import Any, Final, ForwardRef, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import TypeVarTuple, is_typeddict

from horsies.domain.codec.conversion import bare_type, field_hints
from horsies.domain.task_result import TaskResult

_BUILT_IN: Final = frozenset({"builtins", "collections", "collections.abc"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """The classes that values of some types can have."""

    classes: frozenset[type]
    """Named by the types. A value may have a subclass of one, if the application declares that too."""
    is_open: bool
    """A part of the types accepts any class: Any, a protocol, a plain `dict`."""
    is_unresolved: bool
    """An annotation holds a name that is not defined here, or not yet; it counts as open."""


def reach_of(*hints: Any) -> Reach:
    walk = _Walk()
    for hint in hints:
        walk.visit(hint)
    return Reach(frozenset(walk.classes), walk.is_open, walk.is_unresolved)


class _Walk:
    def __init__(self) -> None:
        self.classes: set[type] = set()
        self.is_open = self.is_unresolved = False
        self._seen: dict[int, Any] = {}
        """By identity, because not every annotation has a hash; kept, so that no identity is used again."""

    def visit(self, hint: Any) -> None:
        bare = bare_type(hint)
        if bare is None or id(bare) in self._seen:
            return
        self._seen[id(bare)] = bare
        if isinstance(bare, str | ForwardRef):
            self.is_open = self.is_unresolved = True
        elif isinstance(bare, TypeVar):
            self._visit_variable(bare)
        elif bare is Any or bare is object or isinstance(bare, ParamSpec | TypeVarTuple):
            self.is_open = True
        elif get_origin(bare) is not Literal:
            self._visit_type(bare)

    def _visit_all(self, hints: Iterable[Any]) -> None:
        for hint in hints:
            if isinstance(hint, list):  # the parameters of a Callable
                self._visit_all(hint)
            elif hint is not Ellipsis:
                self.visit(hint)

    def _visit_variable(self, variable: TypeVar) -> None:
        limits = [variable.__bound__] if variable.__bound__ is not None else variable.__constraints__
        self._visit_all(limits)
        if not limits:
            self.is_open = True

    def _visit_type(self, bare: Any) -> None:
        arguments = get_args(bare)
        self._visit_all(arguments)
        cls = get_origin(bare) or bare
        if cls is Union or cls is UnionType or not isinstance(cls, type):
            return
        if issubclass(cls, TaskResult) or cls.__module__ in _BUILT_IN:
            if not arguments and issubclass(cls, Iterable | TaskResult) and not issubclass(cls, str | bytes):
                self.is_open = True
        elif issubclass(cls, BaseModel):
            self._visit_model(cls)
        elif dataclasses.is_dataclass(cls):
            self.classes.add(cls)
            self._visit_all(self._types_of_fields(cls))
        elif is_typeddict(cls) or hasattr(cls, "_fields"):
            self._visit_all(self._types_of_fields(cls))
        elif issubclass(type(cls), ABCMeta):
            # A class may be registered with it, or only look like it.
            self.is_open = True
        else:
            self.classes.add(cls)
            self._visit_all(vars(cls).get("__orig_bases__", ()))

    def _visit_model(self, cls: type[BaseModel]) -> None:
        """A model builds its fields itself, from plain JSON: they name classes, but leave nothing open to a row."""
        generic = cls.__pydantic_generic_metadata__
        self.classes.update((cls, generic["origin"] or cls))
        before = self.is_open
        self._visit_all((*generic["args"], *(field.annotation for field in cls.model_fields.values())))
        self.is_open = before

    def _types_of_fields(self, cls: type) -> Iterable[Any]:
        """Each on its own, if one of the names is imported for type checkers only."""
        if hints := field_hints(cls):
            return hints.values()
        own = ((base, vars(base).get("__annotations__", {})) for base in cls.__mro__)
        return [_resolved(hint, base) for base, hints in own for hint in hints.values()]


def _resolved(hint: Any, cls: type) -> Any:
    only_this = SimpleNamespace(__annotations__={"it": hint})
    names = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    try:
        return get_type_hints(only_this, names, dict(vars(cls)), include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - annotations are the user's expressions
        return str(hint)
