"""The nodes of one workflow as numbered and named copies of the user's, and in the form in which they are stored."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, cast

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE
from horsies.domain.codec import dump_value, parse_json, to_json
from horsies.domain.plan import MAP_DEFINITION, MAP_ITEMS, NodePlan
from horsies.workflow.nodes import MapNode, Node, NodeKey, SubWorkflowNode, TaskNode
from horsies.workflow.signatures import target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from horsies.workflow.nodes import AnyNode, NodeRef, SuccessPolicy
    from horsies.workflow.signatures import NodeFunction


_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_\-:.]")


def slugify(text: str) -> str:
    """`text` as a part of a node_id: spaces are replaced by _, other characters that are not allowed are removed."""
    return _NOT_IN_AN_ID.sub("", text.replace(" ", "_")) or "_"


class Graph:
    """Copies in the order of the list; a reference to a node that is not in the list stays as it is."""

    def __init__(self, workflow_name: str, originals: Sequence[AnyNode]) -> None:
        self.originals = originals
        self.nodes: tuple[AnyNode, ...] = tuple(map(copy.copy, originals))
        self._copies = {id(old): new for old, new in zip(originals, self.nodes, strict=True)}
        self._members = {id(node) for node in self.nodes}
        slug = slugify(workflow_name)
        for index, node in enumerate(self.nodes):
            node.__dict__.pop("_frozen", None)
            node.index = index
            if node.node_id is None or node.named_by_index:
                node.node_id = f"{slug}:{index}"
                node.named_by_index = True
            self._redirect(node)

    def __contains__(self, node: object) -> bool:
        return id(node) in self._members

    def find(self, ref: NodeRef | None) -> AnyNode | None:
        """Return the copy that belongs to one of the user's nodes, to a key or to a node_id."""
        if isinstance(ref, NodeKey):
            ref = ref.node_id
        if isinstance(ref, str):
            return next((node for node in self.nodes if node.node_id == ref), None)
        if ref is None:
            return None
        return self._copies.get(id(ref)) or (ref if ref in self else None)

    def write_back(self) -> None:
        """Write index and name to the user's nodes, so that `node.key()` works on them."""
        for old, new in zip(self.originals, self.nodes, strict=True):
            if not old.is_frozen:
                old.index, old.node_id, old.named_by_index = new.index, new.node_id, new.named_by_index

    def _redirect(self, node: AnyNode) -> None:
        node.waits_for = self._each(node.waits_for)
        node.args_from = {name: self._copies.get(id(source), source) for name, source in node.args_from.items()}
        if node.workflow_ctx_from is not None:
            node.workflow_ctx_from = self._each(node.workflow_ctx_from)
        if isinstance(node, MapNode) and isinstance(node.over, Node):
            node.over = self._copies.get(id(node.over), node.over)

    def _each(self, nodes: Iterable[AnyNode]) -> tuple[AnyNode, ...]:
        """Return the nodes without repetitions: to wait twice for one node has no further effect."""
        found = (self._copies.get(id(node), node) for node in nodes)
        return tuple({id(node): node for node in found}.values())


def node_plan(node: AnyNode) -> NodePlan:
    """Return the plan of a numbered node with a queue."""
    target, definition_key, sources = target_of(node), None, dict(node.args_from)
    kwargs_json = dump_value({name: target.to_stored(name, value) for name, value in node.kwargs.items()}, "kwargs")
    if isinstance(node, MapNode):
        definition_key, kwargs_json = MAP_DEFINITION, _map_kwargs(node, target, kwargs_json)
        if isinstance(node.over, Node):
            sources = {MAP_ITEMS: cast("AnyNode", node.over)}
    elif isinstance(node, SubWorkflowNode):
        definition_key = node.workflow_def.definition_key
    task, context = (node if isinstance(node, TaskNode) else None), node.workflow_ctx_from
    return NodePlan(
        index=_index(node),
        node_id=str(node.node_id),
        task_name=node.name,
        kwargs_json=kwargs_json,
        queue_name=(task and task.queue) or DEFAULT_QUEUE,
        priority=(task and task.priority) or DEFAULT_PRIORITY,
        dependencies=tuple(map(_index, node.waits_for)),
        args_from={name: _index(source) for name, source in sources.items()},
        ctx_from=None if context is None else tuple(str(each.node_id) for each in context),
        allow_failed_deps=node.allow_failed_deps,
        join=node.join,
        min_success=node.min_success,
        task_options=task.fn.stored_options(task.good_until) if task else None,
        sub_definition_key=definition_key,
    )


def policy_json(policy: SuccessPolicy, graph: Graph) -> str:
    def indices(refs: Iterable[NodeRef]) -> list[int]:
        return [_index(node) for ref in refs if (node := graph.find(ref)) is not None]

    cases = [{"required_indices": indices(case.required)} for case in policy.cases]
    return to_json({"cases": cases, "optional_indices": indices(policy.optional or ())}, "success_policy")


def _index(node: Node[Any]) -> int:
    assert node.index is not None, "the graph has numbered them"
    return node.index


def _map_kwargs(node: MapNode[Any], target: NodeFunction, fixed: str) -> str:
    """Return the kwargs of a map's node: its task, the fixed arguments, and the items if they are known."""
    item = next(iter(target.by_keyword))
    order: dict[str, Any] = {
        "task": node.name,
        "param": item,
        "task_options": node.fn.stored_options(node.good_until),
        "queue": node.queue,
        "priority": node.priority,
        "max_items": node.max_items,
    }
    if not isinstance(node.over, Node):
        order["items"] = parse_json(dump_value([target.to_stored(item, value) for value in node.over], "over"))
    return to_json({MAP_DEFINITION: order, **parse_json(fixed)}, "kwargs")
