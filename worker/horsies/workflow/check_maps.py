"""The check of maps: their items must be such that the task takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from horsies.domain.argument_types import spell
from horsies.domain.codec import CodecError, dump_value, load_value
from horsies.domain.codec.classes import LOADED
from horsies.domain.codec.conversion import ConversionError
from horsies.domain.errors import ErrorCode
from horsies.workflow.fitting import fits, item_type
from horsies.workflow.nodes import Node
from horsies.workflow.outputs import value_type
from horsies.workflow.problems import node_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.domain.errors import WorkflowValidationError
    from horsies.workflow.nodes import MapNode
    from horsies.workflow.signatures import NodeFunction


def map_problems(node: MapNode[Any], target: NodeFunction) -> Iterator[WorkflowValidationError]:
    limit = node.max_items
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield node_problem(
            node, ErrorCode.WORKFLOW_INVALID_ARGS_FROM, f"has max_items={limit!r}", "write a number from 1"
        )
        return
    parameter = next(iter(target.by_keyword), None)
    if parameter is None:
        yield node_problem(
            node,
            ErrorCode.WORKFLOW_INVALID_KWARG_KEY,
            f"maps {target.label}, which takes no argument for the items",
            "the first parameter of the task takes the item",
        )
        return
    if parameter in node.kwargs:
        yield node_problem(
            node,
            ErrorCode.WORKFLOW_KWARGS_ARGS_FROM_OVERLAP,
            f"gives {parameter!r} a fixed value, but the first parameter of {target.label} takes the item",
            "give the items in over=..., and only other parameters besides",
        )
    if isinstance(node.over, Node):
        yield from _source_type_problems(node, target, parameter)
    else:
        yield from _item_problems(node, limit, target, parameter)


def _source_type_problems(
    node: MapNode[Any], target: NodeFunction, parameter: str
) -> Iterator[WorkflowValidationError]:
    assert isinstance(node.over, Node)
    mismatch = ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH
    source = value_type(node.over)  # type: ignore[arg-type]  # every Node is one of the three
    items = item_type(source)
    if items is None:
        yield node_problem(
            node,
            mismatch,
            f"goes over {node.over!r}, whose value is {spell(source)}",
            "a map goes over a list: let that task return one",
        )
    elif (hint := target.hint(parameter)) is not None and not fits(items, hint):
        yield node_problem(
            node,
            mismatch,
            f"goes over items of {spell(items)}, but {parameter!r} of {target.label} takes {spell(hint)}",
            "each item is given as it is, not as a TaskResult",
        )


def _item_problems(
    node: MapNode[Any], limit: int, target: NodeFunction, parameter: str
) -> Iterator[WorkflowValidationError]:
    items, kind = node.over, target.kind(parameter)
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        yield node_problem(
            node,
            ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
            f"goes over {type(items).__name__}",
            "write over=[...], or over=node with a node whose value is a list",
        )
        return
    if len(items) > limit:
        yield node_problem(
            node,
            ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
            f"goes over {len(items)} items and allows max_items={limit}",
            "raise max_items, or give each item more to do",
        )
    try:
        stored = [target.to_stored(parameter, item) for item in items]
        load_value(dump_value(stored, "over", target.classes), "over", LOADED)
    except (CodecError, ConversionError) as error:
        yield node_problem(
            node,
            ErrorCode.WORKFLOW_KWARGS_NOT_SERIALIZABLE,
            f"has an item that cannot be stored: {error}",
            "give it plain JSON values, dataclasses or pydantic models",
        )
        return
    for position, item in enumerate(items):
        if kind is not None and (misfit := kind.misfit(item, "over", position)) is not None:
            yield node_problem(
                node,
                ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH,
                f"goes over an item of another type than its task takes: {misfit}",
                "change the item or the annotation: the worker refuses to run a task with such an argument",
            )
            return
