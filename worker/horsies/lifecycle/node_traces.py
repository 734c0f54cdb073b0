"""The spans of nodes: written when a traced task of a node has ended, read as links for the nodes that waited for it.

Only for workflows that were started by a program that traces, and only under the families' locks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from horsies.domain.injection import NodeRef
from horsies.domain.trace import trace_of, with_trace
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import asyncpg

_SPAN: Final = "span"
"""In the `trace` of a node's task_options: the traceparent of its last run."""


async def note_spans(conn: asyncpg.Connection, spans: Mapping[str, str]) -> None:
    """Write the traceparents of these tasks' runs to their nodes, if the workflow is traced."""
    noted: dict[str, str] = {}
    for node_id, task_id, options in await conn.fetch(statement(__name__, "nodes_of_tasks"), list(spans)):
        if trace := trace_of(options):
            noted[node_id] = with_trace(options, {**trace, _SPAN: spans[task_id]})
    if noted:
        await conn.execute(statement(__name__, "note_spans"), list(noted), list(noted.values()))


async def spans_before(conn: asyncpg.Connection, nodes: Collection[NodeRef]) -> Mapping[NodeRef, list[str]]:
    """The traceparents of what each of these nodes has waited for, as far as it was traced."""
    spans: dict[NodeRef, list[str]] = defaultdict(list)
    if nodes:
        keys = [node.workflow_id for node in nodes], [node.task_index for node in nodes]
        for workflow_id, index, options in await conn.fetch(statement(__name__, "dependency_options"), *keys):
            span = trace_of(options).get(_SPAN)
            if isinstance(span, str):
                spans[NodeRef(workflow_id, index)].append(span)
    return spans
