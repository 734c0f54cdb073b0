"""A workflow as it is stored when it starts, and the kwargs of its nodes' tasks.

Results of earlier nodes are embedded in those kwargs, or referred to if they are large.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain import tags
from horsies.domain.codec import CorruptJsonError, dump_task_result, parse_json, to_json
from horsies.domain.codes import OutcomeCode, RetrievalCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.domain.trace import with_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from horsies.domain.trace import Trace

MAP_DEFINITION: Final = "__horsies_map__"  # the definition_key of a node that runs one task per item, and of its child
MAP_ITEMS: Final = "__items__"
"""The pseudo-parameter that receives the result of the node that a map takes its items from."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node; `dependencies` and `args_from` name other nodes by their index, `ctx_from` by their node_id."""

    index: int
    node_id: str
    task_name: str
    kwargs_json: str | None
    queue_name: str
    priority: int
    dependencies: tuple[int, ...]
    args_from: Mapping[str, int]
    ctx_from: tuple[str, ...] | None
    allow_failed_deps: bool
    join: str
    min_success: int | None
    task_options: str | None
    sub_definition_key: str | None = None

    @property
    def is_subworkflow(self) -> bool:
        return self.sub_definition_key is not None


@dataclass(frozen=True, slots=True)
class WorkflowPlan:
    """A workflow; `success_policy` is its stored JSON, `output_index` the node whose result is the workflow's."""

    name: str
    definition_key: str | None
    on_error: str
    output_index: int | None
    success_policy: str | None
    nodes: tuple[NodePlan, ...]

    def traced(self, trace: Trace) -> WorkflowPlan:
        """Return the plan with this trace in every node; unchanged without one."""
        if not trace:
            return self
        nodes = (replace(node, task_options=with_trace(node.task_options, trace)) for node in self.nodes)
        return replace(self, nodes=tuple(nodes))


MOST_EMBEDDED_BYTES: Final = 64 * 1024
"""Limit for all results in the kwargs of one node: more would be copied from node to node, and grow on the way."""

_NODE: Final = "node"
# Inside a stored string the quotes would be escaped, so this text occurs only in a reference.
_SIGN_OF_REFERENCE: Final = f'"{tags.INJECTED_RESULT}":true,"{_NODE}":{{'


class NodeRef(NamedTuple):
    """The node whose row has a result."""

    workflow_id: str
    task_index: int


class NodeTexts(NamedTuple):
    """The two columns of a node that others may receive."""

    result: str | None
    summary: str | None


@dataclass(frozen=True, slots=True)
class SourceResult:
    """An ended node. A column that is known to be large need not be read: its text is None, its size is not 0."""

    ref: NodeRef
    status: str
    result: str | None
    result_bytes: int
    summary: str | None = None
    summary_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Meta:
    """The workflow and the node of a task."""

    workflow_id: str
    task_index: int
    task_name: str
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class Injection:
    """The kwargs of a workflow's task in its worker, split. `context` and `meta` are trees of JSON."""

    kwargs: dict[str, Any]
    context: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None


@dataclass(slots=True)
class _Budget:
    left: int = field(default=MOST_EMBEDDED_BYTES)

    def holds(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


def node_kwargs(
    stored: str | None, *, results: Mapping[str, SourceResult], ctx: Mapping[str, SourceResult] | None, meta: Meta
) -> str:
    """The text of the kwargs column for a node's task; CorruptJsonError if `stored` is no object.

    `results` are by parameter, `ctx` by node_id: of nodes that have ended, others are left out.
    """
    tree = {} if stored is None else parse_json(stored, "task_kwargs")
    if not isinstance(tree, dict):
        raise CorruptJsonError("task_kwargs", "expected a JSON object")
    budget = _Budget()
    for parameter, source in results.items():
        result = _result(source, budget)
        tree[parameter] = _embedded(result) if isinstance(result, str) else result
    where = {"workflow_id": meta.workflow_id, "task_index": meta.task_index, "task_name": meta.task_name}
    if ctx is not None:
        tree[tags.WORKFLOW_CTX] = where | {
            "results_by_id": {node_id: _result(source, budget) for node_id, source in ctx.items()},
            "summaries_by_id": {
                node_id: _summary(source, budget) for node_id, source in ctx.items() if source.summary_bytes
            },
        }
    tree[tags.WORKFLOW_META] = where if meta.node_id is None else where | {"node_id": meta.node_id}
    return to_json(tree, "kwargs")


def skipped(index: int) -> str:
    """Return the result that represents a dependency that did not run."""
    error = TaskError(
        error_code=OutcomeCode.UPSTREAM_SKIPPED,
        message=f"the node with index {index} was skipped",
        data={"dependency_index": index},
    )
    return dump_task_result(TaskResult(err=error))


def references(kwargs: str | None) -> frozenset[NodeRef]:
    """Return the nodes whose columns must be read before the task can run: mostly none, by one text search."""
    if kwargs is None or _SIGN_OF_REFERENCE not in kwargs:
        return frozenset()
    try:
        tree = parse_json(kwargs, "kwargs")
    except CorruptJsonError:  # the child process reports it, as for any arguments that cannot be read
        return frozenset()
    return frozenset(ref for _, _, ref in _references_in(tree))


def resolve(kwargs: str, found: Mapping[NodeRef, NodeTexts]) -> str:
    """Replace each reference in the kwargs by its text, or by an error result if `found` lacks it."""
    tree = parse_json(kwargs, "kwargs")
    context = tree.get(tags.WORKFLOW_CTX)
    summaries = context.get("summaries_by_id") if isinstance(context, dict) else None
    for holder, name, ref in list(_references_in(tree)):
        texts = found.get(ref, NodeTexts(None, None))
        if holder is summaries:
            if texts.summary is None:
                del holder[name]
            else:
                holder[name] = texts.summary
        else:
            text = _not_there(ref) if texts.result is None else texts.result
            holder[name] = _embedded(text) if holder is tree else text
    return to_json(tree, "kwargs")


def split_injection(kwargs: dict[str, Any]) -> Injection:
    """Split the kwargs column: the function's own arguments, and the values that were injected."""
    own = dict(kwargs)
    context, meta = own.pop(tags.WORKFLOW_CTX, None), own.pop(tags.WORKFLOW_META, None)
    return Injection(own, context if isinstance(context, dict) else None, meta if isinstance(meta, dict) else None)


def _result(source: SourceResult, budget: _Budget) -> str | dict[str, Any]:
    """Return the text, or a reference if it is too large or has not been read."""
    if source.status == "SKIPPED":
        return skipped(source.ref.task_index)
    if not source.result_bytes:
        return _not_there(source.ref)
    if source.result is not None and budget.holds(source.result_bytes):
        return source.result
    return _reference(source.ref)


def _summary(source: SourceResult, budget: _Budget) -> str | dict[str, Any]:
    if source.summary is not None and budget.holds(source.summary_bytes):
        return source.summary
    return _reference(source.ref)


def _embedded(text: str) -> dict[str, Any]:
    return {tags.INJECTED_RESULT: True, "data": text}


def _reference(ref: NodeRef) -> dict[str, Any]:
    return {tags.INJECTED_RESULT: True, _NODE: {"workflow_id": ref.workflow_id, "task_index": ref.task_index}}


def _not_there(ref: NodeRef) -> str:
    error = TaskError(
        error_code=RetrievalCode.RESULT_NOT_AVAILABLE,
        message=f"the node with index {ref.task_index} of workflow {ref.workflow_id} has no result any more",
        data={"workflow_id": ref.workflow_id, "task_index": ref.task_index},
    )
    return dump_task_result(TaskResult(err=error))


def _references_in(tree: object) -> Iterator[tuple[dict[str, Any], str, NodeRef]]:
    """Yield each reference with the object that contains it and its key there."""
    holders = [tree]
    context = tree.get(tags.WORKFLOW_CTX) if isinstance(tree, dict) else None
    if isinstance(context, dict):
        holders += [context.get("results_by_id"), context.get("summaries_by_id")]
    for holder in holders:
        if isinstance(holder, dict):
            for name, value in holder.items():
                marked = isinstance(value, dict) and value.get(tags.INJECTED_RESULT) is True
                match value.get(_NODE) if marked else None:
                    case {"workflow_id": str(workflow_id), "task_index": int(task_index)}:
                        yield holder, name, NodeRef(workflow_id, task_index)
