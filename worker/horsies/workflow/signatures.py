"""The types of nodes: the parameters of their functions, the types of their values, and which fit which."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin

from horsies.domain.argument_types import hint_of, hint_or_any, kind_of_parameter
from horsies.domain.codec.conversion import bare_type, conversion_of
from horsies.domain.task_result import TaskResult
from horsies.workflow.context import CONTEXT_PARAMETER, META_PARAMETER
from horsies.workflow.nodes import MapNode, SubWorkflowNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from horsies.domain.argument_types import CheckedType
    from horsies.domain.codec.classes import Classes, StorableClasses
    from horsies.domain.codec.conversion import Conversion
    from horsies.workflow.nodes import AnyNode, BaseDefinition


def fits(source: Any, target: Any) -> bool:
    """Return False only if it is certain: annotations that cannot be checked must not prevent a workflow."""
    source, target = _plain(source), _plain(target)
    if source is target or target in (Any, object) or source is Any or source == target:
        return True
    if isinstance(source, TypeVar | str) or isinstance(target, TypeVar | str):
        return True
    if get_origin(source) in (Union, UnionType):
        return all(fits(member, target) for member in get_args(source))
    if get_origin(target) in (Union, UnionType):
        return any(fits(source, member) for member in get_args(target))
    if get_origin(source) is Literal:
        return all(_holds(value, target) for value in get_args(source))
    if get_origin(target) is Literal:
        return all(type(value) is source for value in get_args(target))
    if isinstance(source, NewType):
        return fits(source.__supertype__, target)
    return _class_fits(source, target)


def _holds(value: object, target: Any) -> bool:
    return value in get_args(target) if get_origin(target) is Literal else fits(type(value), target)


def _class_fits(source: Any, target: Any) -> bool:
    mine, theirs = get_origin(source) or source, get_origin(target) or target
    if not isinstance(mine, type) or not isinstance(theirs, type):
        return True
    if not _is_subclass(mine, theirs):
        return False
    inner, wanted = get_args(source), get_args(target)
    if len(inner) != len(wanted) or Ellipsis in inner or Ellipsis in wanted:
        return True
    return all(fits(one, other) for one, other in zip(inner, wanted, strict=True))


def _is_subclass(mine: type, theirs: type) -> bool:
    if mine is int and theirs is float:
        return True
    if mine is tuple and theirs is list:
        return True  # stored tuples are read back as lists
    try:
        return issubclass(mine, theirs)
    except TypeError:  # isinstance fails for protocols and typed dicts
        return True


def _plain(kind: Any) -> Any:
    """Return the type behind Annotated and aliases, with None replaced by its class."""
    kind = bare_type(kind, keep_new_types=True)
    return NoneType if kind is None else kind


def item_type(kind: Any) -> Any:
    """Return the X of list[X] and the like; None if a value of this type is certainly no list."""
    kind = _plain(kind)
    if get_origin(kind) in (Union, UnionType):
        found = [item_type(member) for member in get_args(kind)]
        return Any if any(each is not None for each in found) else None
    origin = get_origin(kind) or kind
    if origin is Any or not isinstance(origin, type):
        return Any
    if not _is_subclass(origin, Sequence) or issubclass(origin, str | bytes):
        return None
    arguments = get_args(kind)
    return arguments[0] if len(arguments) == 1 or (len(arguments) == 2 and arguments[1] is Ellipsis) else Any


def value_type(node: AnyNode) -> Any:
    """Return the T of the TaskResult[T, E] that a node ends with."""
    if isinstance(node, SubWorkflowNode):
        return output_type(node.workflow_def)
    return list[node.fn.task_ok_type] if isinstance(node, MapNode) else node.fn.task_ok_type  # type: ignore[name-defined]


def output_type(definition: type[BaseDefinition[Any]]) -> Any:
    """Return the T of `class X(WorkflowDefinition[T])`; Any if it is not given."""
    for cls in definition.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if getattr(get_origin(base), "build_with", None) is not None:
                (kind,) = get_args(base)
                return Any if isinstance(kind, TypeVar) else kind
    return Any


def nested_cycle(
    definition: type[BaseDefinition[Any]] | None, nodes: Iterable[AnyNode]
) -> list[type[BaseDefinition[Any]]] | None:
    """Return the path from a definition through nested ones back to one on the path; None if there is none."""
    path = [] if definition is None else [definition]
    sound: set[type[BaseDefinition[Any]]] = set()

    def descend(inner: Iterable[AnyNode]) -> list[type[BaseDefinition[Any]]] | None:
        for node in inner:
            if not isinstance(node, SubWorkflowNode) or node.workflow_def in sound:
                continue
            if node.workflow_def in path:
                return [*path[path.index(node.workflow_def) :], node.workflow_def]
            path.append(node.workflow_def)
            if (found := descend(each for _, each in node.workflow_def.get_workflow_nodes())) is not None:
                return found
            sound.add(path.pop())
        return None

    return descend(nodes)


FILLED_BY_US: Final = frozenset({CONTEXT_PARAMETER, META_PARAMETER})

_BY_KEYWORD: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class NodeFunction:
    """The function that is called with the arguments of a node, and its parameters."""

    def __init__(
        self, fn: Callable[..., Any], label: str, classes: StorableClasses | None = None, *, leave_out: int = 0
    ) -> None:
        """`classes`: those that its application declares, if it is known."""
        self.label = label
        self.classes = classes
        self._fn = fn
        parameters = list(inspect.signature(fn).parameters.values())[leave_out:]
        self.by_keyword = {each.name: each for each in parameters if each.kind in _BY_KEYWORD}
        self.positional_only = {each.name: each for each in parameters if each.kind is each.POSITIONAL_ONLY}
        self.takes_any_keyword = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._conversions: dict[str, Conversion | None] = {}

    def takes(self, name: str) -> bool:
        return name in self.by_keyword or self.takes_any_keyword

    def is_required(self, name: str) -> bool:
        parameter = self.by_keyword.get(name)
        return parameter is not None and parameter.default is parameter.empty

    def close_to(self, name: str) -> str | None:
        return next(iter(difflib.get_close_matches(name, self.by_keyword, n=1)), None)

    def hint(self, name: str) -> Any:
        """Return the type of a parameter; its text if its names cannot be resolved here, None without annotation."""
        parameter = self.by_keyword.get(name)
        return None if parameter is None else hint_of(self._function(), parameter)

    def declared_types(self) -> list[Any]:
        return [self.hint(name) for name in self.by_keyword]

    def classes_for(self, argument: int | str) -> Classes | None:
        """Return the classes that the annotation of an argument allows a row to name."""
        if self.classes is None or not self.takes(str(argument)):
            return None
        parameter = self.by_keyword.get(str(argument))
        if parameter is None:
            return self.classes
        return self.classes.within(lambda: [hint_or_any(self._function(), parameter)])

    def kind(self, name: str) -> CheckedType | None:
        """Return the type for checks of values; None if they are not checked."""
        parameter = self.by_keyword.get(name)
        return None if parameter is None else kind_of_parameter(self._function(), parameter)

    def to_stored(self, name: str, value: Any) -> Any:
        """Return what the codec writes; ConversionError for a value that is not of the parameter's type."""
        conversion = self._conversion(name)
        return value if conversion is None else conversion.dump(value, name)

    def from_stored(self, name: str, value: Any) -> Any:
        """Return the value of the parameter's type, from what the codec has read; ConversionError if it is none."""
        conversion = self._conversion(name)
        return value if conversion is None else conversion.load(value, name)

    def _conversion(self, name: str) -> Conversion | None:
        if name not in self._conversions:
            self._conversions[name] = conversion_of(self.hint(name)) if name in self.by_keyword else None
        return self._conversions[name]

    def _function(self) -> Callable[..., Any]:
        plain: Callable[..., Any] = inspect.unwrap(getattr(self._fn, "__func__", self._fn))
        return plain


def build_target(definition: type[BaseDefinition[Any]], classes: StorableClasses | None = None) -> NodeFunction:
    return NodeFunction(definition.build_with, f"build_with() of {definition.name!r}", classes, leave_out=1)


def target_of(node: AnyNode) -> NodeFunction:
    if isinstance(node, SubWorkflowNode):
        return build_target(node.workflow_def)
    fn: Any = inspect.unwrap(node.fn)  # type: ignore[arg-type]  # a task can be called
    return NodeFunction(fn, f"task {node.name!r}", node.fn.parameters.classes)


def result_types(hint: Any) -> list[Any] | None:
    """Return the T of each `TaskResult[T, E]` in a parameter's type, Any if open; None if it takes no TaskResult."""
    if hint is Any:
        return [Any]
    if isinstance(hint, str):
        return [Any] if "TaskResult" in hint else None
    hint = bare_type(hint)
    if hint is TaskResult:
        return [Any]
    if get_origin(hint) is TaskResult:
        return [get_args(hint)[0]]
    if get_origin(hint) in (Union, UnionType):
        found = [result_types(member) for member in get_args(hint)]
        return [kind for kinds in found if kinds for kind in kinds] or None
    return None
