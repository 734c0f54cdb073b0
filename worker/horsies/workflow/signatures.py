"""The parameters of a node's function: of its task, or of its definition's `build_with`."""

from __future__ import annotations

import difflib
import inspect
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from horsies.domain.argument_types import hint_of, hint_or_any, kind_of_parameter, unwrapped
from horsies.domain.codec.conversion import conversion_of
from horsies.domain.task_result import TaskResult
from horsies.workflow.context import CONTEXT_PARAMETER, META_PARAMETER
from horsies.workflow.nodes import SubWorkflowNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.domain.argument_types import CheckedType
    from horsies.domain.codec.classes import Classes, StorableClasses
    from horsies.domain.codec.conversion import Conversion
    from horsies.workflow.nodes import AnyNode, BaseDefinition

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
        """The type of a parameter; its text if its names cannot be resolved here, None without annotation."""
        parameter = self.by_keyword.get(name)
        return None if parameter is None else hint_of(self._function(), parameter)

    def declared_types(self) -> list[Any]:
        return [self.hint(name) for name in self.by_keyword]

    def classes_for(self, argument: int | str) -> Classes | None:
        """The classes that the annotation of an argument allows a row to name."""
        if self.classes is None or not self.takes(str(argument)):
            return None
        parameter = self.by_keyword.get(str(argument))
        if parameter is None:
            return self.classes
        return self.classes.within(lambda: [hint_or_any(self._function(), parameter)])

    def kind(self, name: str) -> CheckedType | None:
        """The type for checks of values; None if they are not checked."""
        parameter = self.by_keyword.get(name)
        return None if parameter is None else kind_of_parameter(self._function(), parameter)

    def to_stored(self, name: str, value: Any) -> Any:
        """Return what the codec writes; ConversionError for a value that is not of the parameter's type."""
        conversion = self._conversion(name)
        return value if conversion is None else conversion.dump(value, name)

    def from_stored(self, name: str, value: Any) -> Any:
        """The value of the parameter's type, from what the codec has read; ConversionError if it is none."""
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
    """The T of each `TaskResult[T, E]` in a parameter's type, Any if it is open; None if it takes no TaskResult."""
    if hint is Any:
        return [Any]
    if isinstance(hint, str):
        return [Any] if "TaskResult" in hint else None
    hint = unwrapped(hint)
    if hint is TaskResult:
        return [Any]
    if get_origin(hint) is TaskResult:
        return [get_args(hint)[0]]
    if get_origin(hint) in (Union, UnionType):
        found = [result_types(member) for member in get_args(hint)]
        return [kind for kinds in found if kinds for kind in kinds] or None
    return None
