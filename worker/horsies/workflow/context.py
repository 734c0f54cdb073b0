"""`workflow_ctx` and `workflow_meta`, which tell a task its place in a workflow, as arguments of the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from horsies.domain import tags
from horsies.domain.codec import CodecError, load_summary, load_task_result, parse_json
from horsies.domain.plan import split_injection
from horsies.workflow.nodes import id_of, restored

if TYPE_CHECKING:
    from collections.abc import Container

    from horsies.domain.codec.classes import Classes
    from horsies.domain.task_result import SubWorkflowSummary, TaskError, TaskResult
    from horsies.workflow.nodes import Node, NodeKey

T = TypeVar("T")

CONTEXT_PARAMETER: Final = "workflow_ctx"
META_PARAMETER: Final = "workflow_meta"

_INJECTED: Final = frozenset({tags.WORKFLOW_CTX, tags.WORKFLOW_META})


@dataclass(frozen=True, slots=True)
class WorkflowMeta:
    """The workflow and the node of the task."""

    workflow_id: str
    task_index: int
    task_name: str
    node_id: str | None = None
    """None for a task that upstream, or a version before this field, has made of its node."""


@dataclass(frozen=True, slots=True)
class WorkflowContext:
    """The results of the nodes named in `workflow_ctx_from`. All of them have ended."""

    workflow_id: str
    task_index: int
    task_name: str
    results_by_id: Mapping[str, TaskResult[Any, TaskError]] = field(default_factory=dict)
    summaries_by_id: Mapping[str, SubWorkflowSummary[Any]] = field(default_factory=dict)

    def result_for(self, node: Node[T] | NodeKey[T]) -> TaskResult[T, TaskError]:
        """Return the node's result, UPSTREAM_SKIPPED if it did not run.

        KeyError if the node is not in `workflow_ctx_from`.
        """
        found: TaskResult[T, TaskError] = self._find(self.results_by_id, id_of(node), "result")
        return restored(node, found)

    def has_result(self, node: Node[Any] | NodeKey[Any]) -> bool:
        return id_of(node) in self.results_by_id

    def summary_for(self, node: Node[T] | NodeKey[T]) -> SubWorkflowSummary[T]:
        """Return the summary of the node's child workflow.

        KeyError for a node without one, or not in `workflow_ctx_from`.
        """
        found: SubWorkflowSummary[T] = self._find(self.summaries_by_id, id_of(node), "summary")
        return found

    def has_summary(self, node: Node[Any] | NodeKey[Any]) -> bool:
        return id_of(node) in self.summaries_by_id

    def _find(self, found: Mapping[str, Any], node_id: str, what: str) -> Any:
        if node_id not in found:
            known = ", ".join(sorted(found)) or "none"
            raise KeyError(
                f"no {what} of node {node_id!r} here; workflow_ctx_from of {self.task_name!r} gives: {known}"
            )
        return found[node_id]


def call_kwargs(stored: dict[str, Any], takes: Container[str], classes: Classes) -> dict[str, Any]:
    """Return the keyword arguments of the call, with `workflow_ctx` and `workflow_meta` if the function takes them.

    Results in `workflow_ctx` may have these `classes`.
    """
    if _INJECTED.isdisjoint(stored):
        return stored
    injection = split_injection(stored)
    kwargs = injection.kwargs
    if injection.context is not None and CONTEXT_PARAMETER in takes:
        kwargs[CONTEXT_PARAMETER] = _context(injection.context, classes)
    if injection.meta is not None and META_PARAMETER in takes:
        kwargs[META_PARAMETER] = _meta(injection.meta)
    return kwargs


def meta_in(kwargs: str | None) -> WorkflowMeta | None:
    """Return the place in a workflow from stored kwargs; None for a task that is no node."""
    if kwargs is None or tags.WORKFLOW_META not in kwargs:
        return None
    try:
        tree = parse_json(kwargs, "kwargs")
    except CodecError:
        return None
    meta = tree.get(tags.WORKFLOW_META) if isinstance(tree, dict) else None
    return _meta(meta) if isinstance(meta, dict) else None


def _context(tree: Mapping[str, Any], classes: Classes) -> WorkflowContext:
    return WorkflowContext(
        **_place(tree),
        results_by_id={name: load_task_result(text, classes) for name, text in _texts(tree.get("results_by_id"))},
        summaries_by_id={name: load_summary(text, classes) for name, text in _texts(tree.get("summaries_by_id"))},
    )


def _meta(tree: Mapping[str, Any]) -> WorkflowMeta:
    return WorkflowMeta(**_place(tree), node_id=tree.get("node_id"))


def _place(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tree.get(name) for name in ("workflow_id", "task_index", "task_name")}


def _texts(tree: object) -> list[tuple[str, str]]:
    items = tree.items() if isinstance(tree, Mapping) else ()
    return [(name, text) for name, text in items if isinstance(text, str)]
