"""Nodes and success policies in the form in which they are stored when a workflow starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE
from horsies.domain.codec import dump_kwargs, to_json
from horsies.domain.plan import MAP_DEFINITION, MAP_ITEMS, NodePlan
from horsies.workflow.maps import map_kwargs
from horsies.workflow.nodes import MapNode, Node, SubWorkflowNode, TaskNode
from horsies.workflow.signatures import target_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.workflow.graph import Graph
    from horsies.workflow.nodes import AnyNode, NodeRef, SuccessPolicy


def node_plan(node: AnyNode) -> NodePlan:
    """Return the plan of a numbered node with a queue."""
    task = node if isinstance(node, TaskNode) else None
    return NodePlan(
        index=_index(node),
        node_id=str(node.node_id),
        task_name=node.name,
        kwargs_json=map_kwargs(node) if isinstance(node, MapNode) else _kwargs_json(node),
        queue_name=(task and task.queue) or DEFAULT_QUEUE,
        priority=(task and task.priority) or DEFAULT_PRIORITY,
        dependencies=tuple(map(_index, node.waits_for)),
        args_from=_args_from(node),
        ctx_from=None
        if node.workflow_ctx_from is None
        else tuple(str(each.node_id) for each in node.workflow_ctx_from),
        allow_failed_deps=node.allow_failed_deps,
        join=node.join,
        min_success=node.min_success,
        task_options=task.fn.stored_options(task.good_until) if task else None,
        sub_definition_key=_definition_key(node),
    )


def _kwargs_json(node: AnyNode) -> str:
    target = target_of(node)
    return dump_kwargs({name: target.to_stored(name, value) for name, value in node.kwargs.items()}, keep_empty=True)


def policy_json(policy: SuccessPolicy, graph: Graph) -> str:
    def indices(refs: Iterable[NodeRef]) -> list[int]:
        return [_index(node) for ref in refs if (node := graph.find(ref)) is not None]

    cases = [{"required_indices": indices(case.required)} for case in policy.cases]
    return to_json({"cases": cases, "optional_indices": indices(policy.optional or ())}, "success_policy")


def _index(node: Node[Any]) -> int:
    assert node.index is not None, "the graph has numbered them"
    return node.index


def _args_from(node: AnyNode) -> dict[str, int]:
    if isinstance(node, MapNode) and isinstance(node.over, Node):
        return {MAP_ITEMS: _index(node.over)}
    return {name: _index(source) for name, source in node.args_from.items()}


def _definition_key(node: AnyNode) -> str | None:
    if isinstance(node, MapNode):
        return MAP_DEFINITION
    return node.workflow_def.definition_key if isinstance(node, SubWorkflowNode) else None
