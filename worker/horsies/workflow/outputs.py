"""The types of the values of nodes and definitions, and which definitions contain which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from horsies.workflow.nodes import MapNode, SubWorkflowNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.workflow.nodes import AnyNode, BaseDefinition


def value_type(node: AnyNode) -> Any:
    """The T of the TaskResult[T, E] that a node ends with."""
    if isinstance(node, SubWorkflowNode):
        return output_type(node.workflow_def)
    return list[node.fn.task_ok_type] if isinstance(node, MapNode) else node.fn.task_ok_type  # type: ignore[name-defined]


def output_type(definition: type[BaseDefinition[Any]]) -> Any:
    """The T of `class X(WorkflowDefinition[T])`; Any if it is not given."""
    for cls in definition.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if getattr(get_origin(base), "build_with", None) is not None:
                (kind,) = get_args(base)
                return Any if isinstance(kind, TypeVar) else kind
    return Any


def nested_cycle(
    definition: type[BaseDefinition[Any]] | None, nodes: Iterable[AnyNode]
) -> list[type[BaseDefinition[Any]]] | None:
    """The path from a definition through nested ones back to one on the path; None if there is none."""
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
