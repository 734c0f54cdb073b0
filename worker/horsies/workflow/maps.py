"""A map in its stored form, and as a workflow of one node per item; works on stored JSON only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.domain import tags
from horsies.domain.codec import CorruptJsonError, dump_kwargs, dump_value, parse_json, to_json
from horsies.domain.plan import MAP_DEFINITION, MAP_ITEMS, NodePlan, WorkflowPlan
from horsies.workflow.nodes import Node
from horsies.workflow.signatures import target_of

if TYPE_CHECKING:
    from horsies.workflow.nodes import MapNode


class ChildPlanError(Exception):
    """A child workflow cannot be planned; the text is the reason."""


class UnreadableKwargs(ChildPlanError):  # noqa: N818 - named after the problem
    """The arguments of the node cannot be read, or classes in them no longer exist."""


class BuildFailed(ChildPlanError):  # noqa: N818
    """The definition raised or returned something else, or a map has no list or too many items."""


def map_kwargs(node: MapNode[Any]) -> str:
    """The kwargs of a map's node: its task, the fixed arguments, and the items if they are known."""
    target = target_of(node)
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
    kwargs = {name: target.to_stored(name, value) for name, value in node.kwargs.items()}
    return to_json({MAP_DEFINITION: order, **parse_json(dump_kwargs(kwargs, keep_empty=True))}, "kwargs")


def map_plan(kwargs_json: str | None) -> WorkflowPlan:
    """One node per item, from the kwargs that a task of the map's node would get; needs no class of the user's.

    Raises UnreadableKwargs or BuildFailed.
    """
    order, fixed, source = _read(kwargs_json)
    items = order["items"] if "items" in order else _items_of(source)
    limit = order["max_items"]
    if len(items) > limit:
        raise BuildFailed(
            f"task {order['task']!r} was to be mapped over {len(items)} items, its node allows max_items={limit}"
        )
    return WorkflowPlan(
        name=order["task"],
        definition_key=MAP_DEFINITION,
        on_error="fail",
        output_index=None,
        success_policy=None,
        nodes=tuple(_item_node(order, fixed, index, item) for index, item in enumerate(items)),
    )


def _read(kwargs_json: str | None) -> tuple[dict[str, Any], dict[str, Any], object]:
    """The task of the map, its fixed arguments, and the result that has its items, if any."""
    try:
        tree = parse_json(kwargs_json or "null", "task_kwargs")
    except CorruptJsonError as error:
        raise UnreadableKwargs(str(error)) from error
    order = tree.get(MAP_DEFINITION) if isinstance(tree, dict) else None
    if not isinstance(order, dict) or not _is_order(order):
        raise UnreadableKwargs(f"the kwargs of a map's node hold no readable {MAP_DEFINITION!r}")
    ours = {MAP_DEFINITION, MAP_ITEMS, tags.WORKFLOW_CTX, tags.WORKFLOW_META}
    return order, {name: value for name, value in tree.items() if name not in ours}, tree.get(MAP_ITEMS)


def _is_order(order: dict[str, Any]) -> bool:
    return (
        all(isinstance(order.get(name), str) for name in ("task", "param", "queue"))
        and all(isinstance(order.get(name), int) for name in ("priority", "max_items"))
        and isinstance(order.get("task_options"), str | None)
        and isinstance(order.get("items", []), list)
    )


def _items_of(source: object) -> list[Any]:
    """The list in the result of the preceding node."""
    text = source.get("data") if isinstance(source, dict) else None
    if not isinstance(text, str):
        raise BuildFailed("the node that the map goes over has no result")
    try:
        result = parse_json(text, "result")
    except CorruptJsonError as error:
        raise BuildFailed(f"the result that the map goes over cannot be read: {error}") from error
    if not isinstance(result, dict) or result.get("err") is not None:
        raise BuildFailed("the node that the map goes over has an error, and no list")
    items = result.get("ok")
    if not isinstance(items, list):
        raise BuildFailed(f"a map goes over a list; the value before it is stored as {type(items).__name__}")
    return items


def _item_node(order: dict[str, Any], fixed: dict[str, Any], index: int, item: Any) -> NodePlan:
    return NodePlan(
        index=index,
        node_id=f"item:{index}",
        task_name=order["task"],
        kwargs_json=to_json({order["param"]: item, **fixed}, "kwargs"),
        queue_name=order["queue"],
        priority=order["priority"],
        dependencies=(),
        args_from={},
        ctx_from=None,
        allow_failed_deps=False,
        join="all",
        min_success=None,
        task_options=order["task_options"],
    )
