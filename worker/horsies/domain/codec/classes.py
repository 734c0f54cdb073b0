"""The classes of stored objects: those that a row may name, and their addresses."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABCMeta
from collections.abc import Iterable
from functools import reduce
from types import ModuleType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    ForwardRef,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel
from typing_extensions import TypeVarTuple, is_typeddict

from horsies.domain.codec.conversion import bare_type, field_hints, resolved
from horsies.domain.errors import ConfigurationError
from horsies.domain.task_result import SubWorkflowSummary, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

_BUILT_IN: Final = frozenset({"builtins", "collections", "collections.abc"})


class Reach:
    """The classes that values of some types can have."""

    def __init__(self, *hints: Any) -> None:
        self.classes: set[type] = set()
        """Named by the types. A value may have a subclass of one, if the application declares that too."""
        self.is_open = False
        """A part of the types accepts any class: Any, a protocol, a plain `dict`."""
        self.is_unresolved = False
        """An annotation holds a name that is not defined here, or not yet; it counts as open."""
        self._seen: dict[int, Any] = {}
        """By identity, because not every annotation has a hash; kept, so that no identity is used again."""
        self._visit_all(hints)

    def _visit(self, hint: Any) -> None:
        bare = bare_type(hint)
        if bare is None or id(bare) in self._seen:
            return
        self._seen[id(bare)] = bare
        if isinstance(bare, str | ForwardRef):
            self.is_open = self.is_unresolved = True
        elif isinstance(bare, TypeVar):
            limits = [bare.__bound__] if bare.__bound__ is not None else bare.__constraints__
            self._visit_all(limits)
            self.is_open = self.is_open or not limits
        elif bare is Any or bare is object or isinstance(bare, ParamSpec | TypeVarTuple):
            self.is_open = True
        elif get_origin(bare) is not Literal:
            self._visit_type(bare)

    def _visit_all(self, hints: Iterable[Any]) -> None:
        for hint in hints:
            if isinstance(hint, list):  # the parameters of a Callable
                self._visit_all(hint)
            elif hint is not Ellipsis:
                self._visit(hint)

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
        """Visit a model, which builds its fields from plain JSON: they name classes but leave nothing open to a row."""
        generic = cls.__pydantic_generic_metadata__
        self.classes.update((cls, generic["origin"] or cls))
        before = self.is_open
        self._visit_all((*generic["args"], *(field.annotation for field in cls.model_fields.values())))
        self.is_open = before

    def _types_of_fields(self, cls: type) -> Iterable[Any]:
        """Resolve each type on its own if one of the names is imported for type checkers only."""
        if hints := field_hints(cls):
            return hints.values()
        own = ((base, vars(base).get("__annotations__", {})) for base in cls.__mro__)
        return [
            resolved(
                hint, vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}, dict(vars(base))
            )
            for base, hints in own
            for hint in hints.values()
        ]


ClassT = TypeVar("ClassT")

# Stored rows and other readers know this class under the documented path; that module re-exports it, while the class
# itself is in the lowest layer, where every package may import it.
_STORED_MODULES: Final[dict[type, str]] = {SubWorkflowSummary: "horsies.core.models.workflow.context"}

_DICT_OF_MODULE: Final = vars(ModuleType)["__dict__"]
_DICT_OF_CLASS: Final = vars(type)["__dict__"]


class UndeclaredClassError(LookupError):
    """A row names a class that must not be built for it. The text says why, and what to do."""


class Classes(Protocol):
    """The classes that may be built for one part of a row."""

    @property
    def anywhere(self) -> Classes:
        """Those for the parts whose type is left open, such as the data of an error."""
        ...

    def find(self, module: Any, qualname: Any) -> type:
        """The class at this address; UndeclaredClassError for any other."""
        ...


class StorableClasses:
    """The classes that one application declares: `app.storable`. Built on first use, and again for more tasks.

    Call it to allow values of dataclasses and pydantic models where a type leaves it open, as Any or a base class does.
    Classes that the types of tasks and workflows name, also in fields, need no call. As a decorator it is written above
    `@dataclass`.
    """

    def __init__(self, declared: Callable[[], Iterable[Any]], version: Callable[[], Hashable]) -> None:
        """`declared` has the types of all signatures; `version` changes with each that is added."""
        self._declared = declared
        self._version = version
        self._allowed: list[type] = []
        self._built: Hashable = None
        self._unresolved = True
        self._by_address: Mapping[tuple[str, str], type] = {}

    def __call__(self, cls: type[ClassT], /, *more: type) -> type[ClassT]:
        for each in (cls, *more):
            if not isinstance(each, type) or not is_storable(each):
                raise ConfigurationError(
                    f"app.storable() takes dataclasses and pydantic models, not {each!r}",
                    help_text="write the decorator above @dataclass",
                )
        self._allowed += (cls, *more)
        return cls

    @property
    def anywhere(self) -> StorableClasses:
        return self

    def find(self, module: Any, qualname: Any) -> type:
        if not isinstance(module, str) or not isinstance(qualname, str):
            raise UndeclaredClassError("the name of its class is damaged")
        found = self._by_address.get((module, qualname))
        if found is None:
            self._build()
            found = self._by_address.get((module, qualname)) or self._under_another_name(module, qualname)
        if found is None:
            raise UndeclaredClassError(
                f"no signature of this application declares the class {module}.{qualname}; name it in the types of a "
                "task, or allow it where the application is defined: app.storable(...)"
            )
        return found

    def within(self, hints: Callable[[], Iterable[Any]]) -> ClassesWithin:
        """Return the classes that values of these types can have; `hints` is called when a row names a class."""
        return ClassesWithin(self, hints)

    def why_not(self, cls: type) -> str | None:
        """Return why readers of this application may not build `cls`; None if they may."""
        try:
            self.find(**address_of(cls))
        except UndeclaredClassError as error:
            return str(error)
        return None

    def _build(self) -> None:
        version = self._version(), len(self._allowed)
        # Names in annotations may be defined later, in the middle of an import.
        if version == self._built and not self._unresolved:
            return
        reach = Reach(SubWorkflowSummary, *self._declared(), *self._allowed)
        self._by_address = {tuple(address_of(cls).values()): cls for cls in reach.classes if is_storable(cls)}  # type: ignore[misc]
        self._built, self._unresolved = version, reach.is_unresolved

    def _under_another_name(self, module: str, qualname: str) -> type | None:
        """Find a declared class that was moved and still has its old place, or whose file was imported twice."""
        if (there := _contents(sys.modules.get(module))) is None:
            return None
        file, names = there.get("__file__"), there
        found: object = None
        for name in qualname.split("."):  # without calling anything
            found = names.get(name)
            names = _DICT_OF_CLASS.__get__(found) if issubclass(type(found), type) else {}
        for cls in self._by_address.values():
            if cls is found:
                return cls
            own = _contents(sys.modules.get(cls.__module__)) if cls.__qualname__ == qualname else None
            if own is not None and isinstance(file, str) and own.get("__file__") == file:
                return cls
        return None


class ClassesWithin:
    """The classes that values of some declared types can have."""

    def __init__(self, anywhere: StorableClasses, hints: Callable[[], Iterable[Any]]) -> None:
        self.anywhere = anywhere
        self._hints = hints
        self._reach: Reach | None = None
        self._found: dict[tuple[Any, Any], type] = {}

    def find(self, module: Any, qualname: Any) -> type:
        try:
            return self._found[module, qualname]
        except (KeyError, TypeError):  # TypeError: a damaged name that has no hash
            found = self.anywhere.find(module, qualname)
        if self._reach is None or self._reach.is_unresolved:
            self._reach = Reach(*self._hints())
        if not self._reach.is_open and self._reach.classes.isdisjoint(found.__mro__):
            raise UndeclaredClassError(f"{module}.{qualname} does not fit the declared type")
        self._found[module, qualname] = found
        return found


class _Loaded:
    """All classes of this process: only for text that it has just written itself."""

    @property
    def anywhere(self) -> _Loaded:
        return self

    def find(self, module: Any, qualname: Any) -> type:
        found = _loaded_class(module, qualname)
        if found is None:
            raise UndeclaredClassError(f"{module}.{qualname} is not a class of this process")
        return found


OURS: Final = StorableClasses(lambda: (), lambda: 0)
"""Without an application: only what this library stores itself."""
LOADED: Final = _Loaded()


def address_of(cls: type) -> dict[str, str]:
    """Return the two fields of an address, by which a reader finds `cls`."""
    return {"module": _STORED_MODULES.get(cls, cls.__module__), "qualname": cls.__qualname__}


def is_storable(cls: type) -> bool:
    """Return whether the codec writes objects of this class."""
    return dataclasses.is_dataclass(cls) or issubclass(cls, BaseModel)


def why_not_storable(cls: type) -> str | None:
    """Return why another process cannot find `cls` by its address; None if it can."""
    if cls.__module__ == "__main__":
        return f"{cls.__qualname__} is defined in __main__, which is another program in a worker; move it to a module"
    if "<locals>" in cls.__qualname__:
        return f"{cls.__qualname__} is defined inside a function; move it to the top level of its module"
    if _loaded_class(**address_of(cls)) is cls:
        return None
    name = f"{cls.__module__}.{cls.__qualname__}"
    return f"the name {name} does not lead back to this class; give it its own name at the top level of a module"


def _loaded_class(module: str, qualname: str) -> type | None:
    """Return the loaded class of this name; for objects that this process has, not for the names in a row."""
    for cls, documented in _STORED_MODULES.items():
        if (module, qualname) == (documented, cls.__qualname__):
            return cls
    try:
        found = reduce(getattr, qualname.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _contents(module: object) -> dict[str, Any] | None:
    """Return the names of a module without calling a `__getattr__` or a property, which may import more."""
    contents: dict[str, Any] | None = _DICT_OF_MODULE.__get__(module) if issubclass(type(module), ModuleType) else None
    return contents
