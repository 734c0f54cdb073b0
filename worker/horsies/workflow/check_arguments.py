"""The check of nodes' arguments against their functions: values, results of other nodes, context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from horsies.domain.argument_types import spell
from horsies.domain.codec import CodecError, dump_value, load_value
from horsies.domain.codec.classes import LOADED
from horsies.domain.codec.conversion import ConversionError
from horsies.domain.errors import ErrorCode
from horsies.workflow.context import CONTEXT_PARAMETER
from horsies.workflow.nodes import FromNode, MapNode, Node, SubWorkflowNode
from horsies.workflow.signatures import FILLED_BY_US, NodeFunction, fits, item_type, result_types, target_of, value_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from horsies.workflow.nodes import AnyNode
    from horsies.workflow.signatures import NodeFunction


NodeProblem: TypeAlias = tuple[ErrorCode, str, str]
"""A code, the rest of the sentence that begins with the node, and what to do about it."""


def map_problems(node: MapNode[Any], target: NodeFunction) -> Iterator[NodeProblem]:
    limit = node.max_items
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield (ErrorCode.WORKFLOW_INVALID_ARGS_FROM, f"has max_items={limit!r}", "write a number from 1")
        return
    parameter = next(iter(target.by_keyword), None)
    if parameter is None:
        yield (
            ErrorCode.WORKFLOW_INVALID_KWARG_KEY,
            f"maps {target.label}, which takes no argument for the items",
            "the first parameter of the task takes the item",
        )
        return
    if parameter in node.kwargs:
        yield (
            ErrorCode.WORKFLOW_KWARGS_ARGS_FROM_OVERLAP,
            f"gives {parameter!r} a fixed value, but the first parameter of {target.label} takes the item",
            "give the items in over=..., and only other parameters besides",
        )
    if isinstance(node.over, Node):
        yield from _source_type_problems(node, target, parameter)
    else:
        yield from _item_problems(node, limit, target, parameter)


def _source_type_problems(node: MapNode[Any], target: NodeFunction, parameter: str) -> Iterator[NodeProblem]:
    assert isinstance(node.over, Node)
    mismatch = ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH
    source = value_type(node.over)  # type: ignore[arg-type]  # every Node is one of the three
    items = item_type(source)
    if items is None:
        yield (
            mismatch,
            f"goes over {node.over!r}, whose value is {spell(source)}",
            "a map goes over a list: let that task return one",
        )
    elif (hint := target.hint(parameter)) is not None and not fits(items, hint):
        yield (
            mismatch,
            f"goes over items of {spell(items)}, but {parameter!r} of {target.label} takes {spell(hint)}",
            "each item is given as it is, not as a TaskResult",
        )


def _item_problems(node: MapNode[Any], limit: int, target: NodeFunction, parameter: str) -> Iterator[NodeProblem]:
    items, kind = node.over, target.kind(parameter)
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        yield (
            ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
            f"goes over {type(items).__name__}",
            "write over=[...], or over=node with a node whose value is a list",
        )
        return
    if len(items) > limit:
        yield (
            ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
            f"goes over {len(items)} items and allows max_items={limit}",
            "raise max_items, or give each item more to do",
        )
    try:
        stored = [target.to_stored(parameter, item) for item in items]
        load_value(dump_value(stored, "over", target.classes), "over", LOADED)
    except (CodecError, ConversionError) as error:
        yield (
            ErrorCode.WORKFLOW_KWARGS_NOT_SERIALIZABLE,
            f"has an item that cannot be stored: {error}",
            "give it plain JSON values, dataclasses or pydantic models",
        )
        return
    for position, item in enumerate(items):
        if kind is not None and (misfit := kind.misfit(item, "over", position)) is not None:
            yield (
                ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH,
                f"goes over an item of another type than its task takes: {misfit}",
                "change the item or the annotation: the worker refuses to run a task with such an argument",
            )
            return


_FILLED: Final = "it is filled in when the task runs; take it out of the node"


_OPTIONS_OF_MAPS = frozenset({"waits_for", "queue", "priority", "good_until", "node_id"})
"""What TaskNode.map(task, over=...) would take for an argument of the task."""


def argument_problems(node: AnyNode) -> Iterator[NodeProblem]:
    yield from _source_problems(node)
    target = target_of(node)
    yield from _value_problems(node, target)
    if not isinstance(node, SubWorkflowNode):
        try:
            node.fn.stored_options(node.good_until)
        except ValueError as error:
            yield ErrorCode.TASK_INVALID_OPTIONS, f"has a bad deadline: {error}", "pass an aware datetime"
    if isinstance(node, SubWorkflowNode) and not node.workflow_def.has_key():
        yield (
            ErrorCode.WORKFLOW_NO_DEFINITION_KEY,
            f"runs {node.workflow_def.__qualname__}, which has no definition_key of its own",
            "give the definition one that never changes: workers find it by its key",
        )
    if isinstance(node, SubWorkflowNode) and not node.workflow_def.takes_parameters():
        if node.kwargs or node.args_from or node.workflow_ctx_from:
            yield (
                ErrorCode.WORKFLOW_SUBWORKFLOW_PARAMS_REQUIRE_BUILD_WITH,
                f"gives parameters to {node.name!r}, which has no build_with() of its own to take them",
                "define build_with(cls, app, ...) with these parameters in the definition",
            )
        return
    given = [*node.kwargs, *node.args_from]
    yield from _name_problems(node, target, given)
    if isinstance(node, MapNode):
        yield from map_problems(node, target)
    yield from _missing_problems(node, target, given)
    yield from _type_problems(node, target)
    if node.workflow_ctx_from and CONTEXT_PARAMETER not in target.by_keyword:
        what = f"names nodes in workflow_ctx_from, but {target.label} has no parameter {CONTEXT_PARAMETER!r}"
        remedy = f"add {CONTEXT_PARAMETER}: WorkflowContext | None = None"
        yield ErrorCode.WORKFLOW_CTX_PARAM_MISSING, what, remedy


def _source_problems(node: AnyNode) -> Iterator[NodeProblem]:
    for name, source in node.args_from.items():
        if not isinstance(source, Node):
            yield (
                ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
                f"takes {name!r} from {type(source).__name__}, which is not a node",
                "name a node of waits_for",
            )
        elif not _is_in(source, node.waits_for):
            yield (
                ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
                f"takes {name!r} from {source!r} without waiting for it",
                "put that node into waits_for as well",
            )
    for name, value in node.kwargs.items():
        if _holds_marker(value):
            yield (
                ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
                f"has from_node() within its argument {name!r}",
                "from_node() is for the call of a factory, my_task.node()(name=from_node(step)); here write args_from",
            )
    for source in node.workflow_ctx_from or ():
        if not _is_in(source, node.waits_for):
            what = repr(source) if isinstance(source, Node) else type(source).__name__
            yield (
                ErrorCode.WORKFLOW_INVALID_CTX_FROM,
                f"wants the result of {what} in its context without waiting for it",
                "put that node into waits_for as well",
            )


def _is_in(node: object, nodes: Iterable[object]) -> bool:
    return any(node is other for other in nodes)


def _holds_marker(value: object) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_holds_marker, value))
    return isinstance(value, FromNode)


def _value_problems(node: AnyNode, target: NodeFunction) -> Iterator[NodeProblem]:
    for name, value in node.kwargs.items():
        if _holds_marker(value) or not isinstance(name, str) or name.startswith("__"):
            continue  # reported separately
        try:
            stored = {name: target.to_stored(name, value)}
            load_value(dump_value(stored, "kwargs", target.classes), "kwargs", LOADED)
        except (CodecError, ConversionError) as error:
            yield (
                ErrorCode.WORKFLOW_KWARGS_NOT_SERIALIZABLE,
                f"has an argument that cannot be stored: {error}",
                "give it plain JSON values, a dataclass or a pydantic model",
            )
            continue
        kind = None if name in node.args_from else target.kind(name)
        if kind is not None and (misfit := kind.misfit(value, name)) is not None:
            yield (
                ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH,
                f"gives {target.label} an argument of another type: {misfit}",
                "change the value or the annotation: the worker refuses to run a task with such an argument",
            )


def _name_problems(node: AnyNode, target: NodeFunction, given: list[str]) -> Iterator[NodeProblem]:
    by_position = [name for name, each in target.positional_only.items() if each.default is each.empty or name in given]
    if by_position:
        yield (
            ErrorCode.WORKFLOW_POSITIONAL_ARGS_NOT_SUPPORTED,
            f"cannot give {', '.join(map(repr, by_position))} to {target.label}, which takes it by position only",
            "arguments of nodes are given by name: take the / out of the signature",
        )
    for name in dict.fromkeys(given):
        if name in target.positional_only:
            continue
        if name in FILLED_BY_US or not isinstance(name, str) or not target.takes(name) or name.startswith("__"):
            close = target.close_to(name) if isinstance(name, str) else None
            other = f"did you mean {close!r}?" if close else f"it takes {', '.join(target.by_keyword) or 'nothing'}"
            if isinstance(node, MapNode) and name in _OPTIONS_OF_MAPS:
                other = f"an option of the node: MapNode({node.name}, over=..., kwargs={{...}}, {name}=...)"
            yield (
                ErrorCode.WORKFLOW_INVALID_KWARG_KEY,
                f"gives {name!r} to {target.label}, which takes no such argument from a node",
                _FILLED if name in FILLED_BY_US else other,
            )
    for name in node.kwargs.keys() & node.args_from.keys():
        yield (
            ErrorCode.WORKFLOW_KWARGS_ARGS_FROM_OVERLAP,
            f"gives {name!r} both as a value and from another node",
            "take it out of kwargs or out of args_from",
        )


def _missing_problems(node: AnyNode, target: NodeFunction, given: list[str]) -> Iterator[NodeProblem]:
    filled = {*given, *FILLED_BY_US} - (set() if node.workflow_ctx_from else {CONTEXT_PARAMETER})
    if isinstance(node, MapNode):
        filled.update(list(target.by_keyword)[:1])
    absent = [name for name in target.by_keyword if target.is_required(name) and name not in filled]
    if absent:
        yield (
            ErrorCode.WORKFLOW_MISSING_REQUIRED_PARAMS,
            f"does not give {', '.join(map(repr, absent))} to {target.label}",
            "give it in kwargs or args_from, or give the parameter a default",
        )
    for name in node.args_from if _may_be_early(node) else ():
        if target.is_required(name):
            yield (
                ErrorCode.WORKFLOW_MISSING_REQUIRED_PARAMS,
                f"can run before {node.args_from[name]!r} has ended (join={node.join!r}), and {target.label} "
                f"requires its result as {name!r}",
                f"give the parameter a default: {name}: TaskResult[...] | None = None",
            )


def _may_be_early(node: AnyNode) -> bool:
    """Return whether it can run before all nodes that it waits for have ended: their results are missing then."""
    wanted = {"any": 1, "quorum": node.min_success}.get(node.join)
    return isinstance(wanted, int) and wanted < len(node.waits_for)


def _type_problems(node: AnyNode, target: NodeFunction) -> Iterator[NodeProblem]:
    for name, source in node.args_from.items():
        hint = target.hint(name)
        if name not in target.by_keyword or not isinstance(source, Node) or hint is None:
            continue
        wanted = result_types(hint)
        if wanted is None:
            yield (
                ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH,
                f"gives a TaskResult as {name!r} to {target.label}, which takes {spell(hint)}",
                f"a node is given the whole result of another: write {name}: TaskResult[...]",
            )
        elif not any(fits(value_type(source), kind) for kind in wanted):
            kinds = " or ".join(spell(kind) for kind in wanted)
            yield (
                ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH,
                f"gives {source!r}, whose value is {spell(value_type(source))}, as {name!r} to {target.label}, "
                f"which takes a result of {kinds}",
                "change one of the two types, or put a task between them that converts",
            )
