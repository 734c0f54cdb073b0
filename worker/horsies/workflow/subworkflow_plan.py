"""The plan of a child workflow, made in a worker when its node is READY; user code runs in here."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.domain import tags
from horsies.domain.codec import CorruptJsonError, load_kwargs, parse_json, to_json
from horsies.domain.plan import MAP_DEFINITION, MAP_ITEMS, NodePlan, WorkflowPlan
from horsies.domain.result import Err
from horsies.workflow.context import call_kwargs
from horsies.workflow.definition import build_for, find_definition
from horsies.workflow.signatures import build_target

if TYPE_CHECKING:
    from horsies.workflow.nodes import BaseDefinition
    from horsies.workflow.spec import WorkflowApp, WorkflowSpec


class ChildPlanError(Exception):
    """A child workflow cannot be planned; the text is the reason."""


class UnreadableKwargs(ChildPlanError):  # noqa: N818 - named after the problem
    """The arguments of the node cannot be read, or classes in them no longer exist."""


class BuildFailed(ChildPlanError):  # noqa: N818
    """The definition raised or returned something else, or a map has no list or too many items."""


def map_plan(kwargs_json: str | None) -> WorkflowPlan:
    """Plan one node per item, from the kwargs that a task of the map's node would get. No class of the user is needed.

    Raises UnreadableKwargs or BuildFailed.
    """
    order, fixed, source = _read(kwargs_json)
    items = order["items"] if "items" in order else _items_of(source)
    limit = order["max_items"]
    if len(items) > limit:
        raise BuildFailed(
            f"task {order['task']!r} is mapped over {len(items)} items, but its node allows max_items={limit}"
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
    """Return the task of the map, its fixed arguments, and the result that has its items, if any."""
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
    """Return the list in the result of the preceding node."""
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


__all__ = ["BuildFailed", "ChildPlanError", "UnknownDefinition", "UnreadableKwargs", "child_plan", "map_plan"]


class UnknownDefinition(ChildPlanError):  # noqa: N818 - as its siblings
    """No definition with this key has been imported here."""


def child_plan(app: WorkflowApp, definition_key: str, kwargs_json: str | None) -> WorkflowPlan:
    """Plan the child of a node from the kwargs that a task of that node would get, with results of dependencies.

    Raises UnknownDefinition, UnreadableKwargs or BuildFailed. Runs the user's `build_with`, so call it in a thread.
    """
    if definition_key == MAP_DEFINITION:
        return map_plan(kwargs_json)
    definition = find_definition(definition_key)
    if definition is None:
        raise UnknownDefinition(
            f"no WorkflowDefinition with the key {definition_key!r} is known here; list its module in discover_tasks()"
        )
    try:
        # build_with may return a spec with another key, and a worker must find this definition again.
        return replace(built_child(definition, app, kwargs_json).to_plan(), definition_key=definition_key)
    except UnreadableKwargs:
        raise
    except BaseException as error:  # build_with is user code: sys.exit() in it must fail this node, not the worker
        # str(error) is user code and may raise; the traceback module takes care of that.
        text = traceback.TracebackException(type(error), error, None)
        raise BuildFailed(f"{definition.__qualname__} cannot be built: {type(error).__name__}: {text}") from error


def built_child(definition: type[BaseDefinition[Any]], app: WorkflowApp, kwargs_json: str | None) -> WorkflowSpec[Any]:
    """Build a child from the stored kwargs of its node; raise UnreadableKwargs or what `build_with` raises."""
    target = build_target(definition, app.storable)
    loaded = load_kwargs(kwargs_json, target.classes_for)
    if isinstance(loaded, Err):
        raise UnreadableKwargs(loaded.err_value.message)
    kwargs = call_kwargs(loaded.ok_value, target.by_keyword, app.storable)
    kwargs = {name: target.from_stored(name, value) for name, value in kwargs.items()}
    return build_for(definition, app, kwargs)
