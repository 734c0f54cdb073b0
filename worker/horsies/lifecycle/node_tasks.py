"""Create tasks for READY nodes: arguments with the results they depend on, links to runs, the link of node and task.

The spans of nodes are written when a traced task of a node has ended, and read as links for the nodes that waited for
it; only for workflows that were started by a program that traces, and only under the families' locks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain.codec import CodecError, CorruptJsonError, dump_task_result, parse_json
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.ids import enqueue_sha, new_task_id
from horsies.domain.plan import (
    MOST_EMBEDDED_BYTES,
    Meta,
    NodeRef,
    NodeTexts,
    SourceResult,
    node_kwargs,
    references,
    resolve,
)
from horsies.domain.retry import RetryRule
from horsies.domain.states import WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.domain.trace import following, trace_of, with_trace
from horsies.lifecycle.completing import NodeEnd
from horsies.store.isolate_bad_rows import batches_of
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import asyncpg


# Each may carry 64 kB of results: 6 MB in one statement.
_BATCH = 100


class ReadyNode(NamedTuple):
    """A READY node, in the column order of its statement."""

    workflow_id: str
    task_index: int
    task_name: str
    kwargs: str | None
    queue_name: str
    priority: int
    args_from: str | None
    has_context: bool
    task_options: str | None
    is_subworkflow: bool
    sub_definition_key: str | None
    now: datetime
    node_id: str | None

    @property
    def key(self) -> NodeRef:
        return NodeRef(self.workflow_id, self.task_index)


@dataclass(slots=True)
class Made:
    """The created tasks. `broken` nodes cannot be read and get none; `unfinished`: workflows of the other nodes."""

    enqueued: list[str] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    broken: list[NodeEnd] = field(default_factory=list)
    ready_children: set[str] = field(default_factory=set)


async def ready_nodes(conn: asyncpg.Connection, keys: Sequence[tuple[str, int | None]]) -> list[ReadyNode]:
    """Read which of these nodes of RUNNING workflows are READY without a task or child; index None: all nodes."""
    rows = await conn.fetch(statement(__name__, "advance_ready"), [key[0] for key in keys], [key[1] for key in keys])
    return [ReadyNode(*row) for row in rows]


async def enqueue_nodes(conn: asyncpg.Connection, keys: Sequence[tuple[str, int | None]]) -> Made:
    """Create tasks for these nodes, under the families' locks; nodes with child workflows are announced."""
    made = Made()
    if not keys:
        return made
    nodes = await ready_nodes(conn, keys)
    made.ready_children = {node.workflow_id for node in nodes if node.is_subworkflow}
    made.unfinished |= made.ready_children
    tasks = [node for node in nodes if not node.is_subworkflow]
    for batch in batches_of(tasks, _BATCH):
        await _enqueue(conn, batch, made)
    if made.ready_children:
        await conn.execute(statement(__name__, "advance_announce"), sorted(made.ready_children))
    return made


async def arguments_of(conn: asyncpg.Connection, nodes: Sequence[ReadyNode]) -> dict[NodeRef, str | CodecError]:
    """Return for each node its kwargs with the results it depends on, or the error if its row cannot be read."""
    given: dict[NodeRef, dict[str, int] | CodecError] = {node.key: _args_from(node) for node in nodes}
    sources = await _sources(conn, given)
    contexts = await _contexts(conn, nodes)
    return {node.key: _kwargs(node, given[node.key], sources, contexts) for node in nodes}


def unreadable(node: ReadyNode, error: CodecError) -> NodeEnd:
    """Return the failure of a node whose row is damaged."""
    failure = TaskError(
        error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR,
        message=f"the stored row of this node cannot be read: {error}",
        data={"workflow_id": node.workflow_id, "task_index": node.task_index},
    )
    return NodeEnd(*node.key, WorkflowTaskStatus.FAILED, dump_task_result(TaskResult(err=failure)))


async def _enqueue(conn: asyncpg.Connection, nodes: Sequence[ReadyNode], made: Made) -> None:
    rows: list[tuple[Any, ...]] = []
    arguments = await arguments_of(conn, nodes)
    before = await spans_before(conn, [node.key for node in nodes if trace_of(node.task_options)])
    for node in nodes:
        kwargs = arguments[node.key]
        if isinstance(kwargs, CodecError):
            made.broken.append(unreadable(node, kwargs))
            continue
        try:
            rows.append(_row(node, kwargs, following(node.task_options, *before.get(node.key, ()))))
        except CodecError as error:
            made.broken.append(unreadable(node, error))
    if rows:
        inserted = await conn.fetch(statement(__name__, "advance_enqueue"), *map(list, zip(*rows, strict=True)))
        made.enqueued += [task_id for (task_id,) in inserted]
        made.unfinished.update(row[0] for row in rows)


def _row(node: ReadyNode, kwargs: str, task_options: str | None) -> tuple[Any, ...]:
    options = None if task_options is None else parse_json(task_options, "task_options")
    rule = RetryRule.from_stored(options)
    good_until = _good_until(options)
    sha = enqueue_sha(
        task_name=node.task_name,
        queue_name=node.queue_name,
        priority=node.priority,
        args_json=None,
        kwargs_json=kwargs,
        sent_at=node.now,
        good_until=good_until,
        task_options=task_options,
    )
    return (
        *node.key,
        new_task_id(),
        node.task_name,
        sha,
        node.now,
        node.queue_name,
        node.priority,
        kwargs,
        task_options,
        good_until,
        0 if rule is None else rule.max_retries,
    )


def _good_until(options: object) -> datetime | None:
    stored = options.get("good_until") if isinstance(options, dict) else None
    if stored is None:
        return None
    try:
        moment = datetime.fromisoformat(stored)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:  # OverflowError: the first or last hours of the calendar
        raise CorruptJsonError("task_options", f"good_until is not a time: {stored!r}") from error
    raise CorruptJsonError("task_options", f"good_until has no time zone: {stored!r}")


def _args_from(node: ReadyNode) -> dict[str, int] | CodecError:
    if node.args_from is None:
        return {}
    tree = parse_json(node.args_from, "args_from")
    if not isinstance(tree, dict) or not all(type(index) is int and abs(index) < 2**31 for index in tree.values()):
        return CorruptJsonError("args_from", "expected an object of parameter names and indexes")
    return tree


async def _sources(
    conn: asyncpg.Connection, given: Mapping[NodeRef, dict[str, int] | CodecError]
) -> dict[NodeRef, SourceResult]:
    """Read the ended nodes whose results are used as arguments."""
    wanted = {
        NodeRef(key.workflow_id, index)
        for key, parameters in given.items()
        if isinstance(parameters, dict)
        for index in parameters.values()
    }
    if not wanted:
        return {}
    keys = [ref.workflow_id for ref in wanted], [ref.task_index for ref in wanted]
    rows = await conn.fetch(statement(__name__, "advance_sources"), *keys, MOST_EMBEDDED_BYTES)
    found = (SourceResult(NodeRef(row[0], row[1]), *row[2:]) for row in rows)
    return {source.ref: source for source in found}


async def _contexts(conn: asyncpg.Connection, nodes: Sequence[ReadyNode]) -> dict[NodeRef, dict[str, SourceResult]]:
    """Return the contexts by node_id, for each node that has one."""
    readers = [node.key for node in nodes if node.has_context]
    contexts: dict[NodeRef, dict[str, SourceResult]] = defaultdict(dict)
    if readers:
        keys = [ref.workflow_id for ref in readers], [ref.task_index for ref in readers]
        rows = await conn.fetch(statement(__name__, "advance_context"), *keys, MOST_EMBEDDED_BYTES)
        for workflow_id, reader, node_id, index, *texts in rows:
            contexts[NodeRef(workflow_id, reader)][node_id] = SourceResult(NodeRef(workflow_id, index), *texts)
    return contexts


def _kwargs(
    node: ReadyNode,
    parameters: dict[str, int] | CodecError,
    sources: Mapping[NodeRef, SourceResult],
    contexts: Mapping[NodeRef, dict[str, SourceResult]],
) -> str | CodecError:
    if isinstance(parameters, CodecError):
        return parameters
    refs = {name: NodeRef(node.workflow_id, index) for name, index in parameters.items()}
    results = {name: sources[ref] for name, ref in refs.items() if ref in sources}
    context = contexts.get(node.key, {}) if node.has_context else None
    meta = Meta(node.workflow_id, node.task_index, node.task_name, node.node_id)
    try:
        return node_kwargs(node.kwargs, results=results, ctx=context, meta=meta)
    except CodecError as error:
        return error


async def resolved(conn: asyncpg.Connection, kwargs: str | None) -> str | None:
    """Return the kwargs with each reference replaced by its text; kwargs without references need no read."""
    refs = list(references(kwargs))
    if kwargs is None or not refs:
        return kwargs
    keys = [ref.workflow_id for ref in refs], [ref.task_index for ref in refs]
    rows = await conn.fetch(statement(__name__, "reference_texts"), *keys)
    found = {NodeRef(workflow_id, index): NodeTexts(*texts) for workflow_id, index, *texts in rows}
    return resolve(kwargs, found)


_SPAN: Final = "span"
"""Key in the `trace` of a node's task_options: the traceparent of its last run."""


async def note_spans(conn: asyncpg.Connection, spans: Mapping[str, str]) -> None:
    """Write the traceparents of these tasks' runs to their nodes, if the workflow is traced."""
    noted: dict[str, str] = {}
    for node_id, task_id, options in await conn.fetch(statement(__name__, "nodes_of_tasks"), list(spans)):
        if trace := trace_of(options):
            noted[node_id] = with_trace(options, {**trace, _SPAN: spans[task_id]})
    if noted:
        await conn.execute(statement(__name__, "note_spans"), list(noted), list(noted.values()))


async def spans_before(conn: asyncpg.Connection, nodes: Collection[NodeRef]) -> Mapping[NodeRef, list[str]]:
    """Read the traceparents of the traced runs that each of these nodes has waited for."""
    spans: dict[NodeRef, list[str]] = defaultdict(list)
    if nodes:
        keys = [node.workflow_id for node in nodes], [node.task_index for node in nodes]
        for workflow_id, index, options in await conn.fetch(statement(__name__, "dependency_options"), *keys):
            span = trace_of(options).get(_SPAN)
            if isinstance(span, str):
                spans[NodeRef(workflow_id, index)].append(span)
    return spans
