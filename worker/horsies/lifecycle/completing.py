"""The end of a workflow whose nodes have all ended, and of the node of its parent that ran it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from horsies.domain.codec import dump_task_result, to_json
from horsies.domain.codes import OutcomeCode
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import SubWorkflowError, SubWorkflowSummary, TaskResult
from horsies.domain.workflow_end import EndedNode, end_of, error_summary, judge, ok_part
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.domain.workflow_end import WorkflowVerdict

_NOTHING = '{"__task_result__":true,"ok":null,"err":null}'


class NodeEnd(NamedTuple):
    """The values to store for a node that has ended."""

    workflow_id: str
    task_index: int
    status: WorkflowTaskStatus
    result: str | None
    summary: str | None = None


async def complete(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> dict[str, WorkflowStatus]:
    """End those of these workflows that are RUNNING without an open node; under the families' locks."""
    over = await conn.fetch(statement(__name__, "advance_over"), list(workflow_ids)) if workflow_ids else []
    if not over:
        return {}
    nodes: dict[str, list[EndedNode]] = defaultdict(list)
    for workflow_id, *node in await conn.fetch(statement(__name__, "advance_all_nodes"), [row["id"] for row in over]):
        nodes[workflow_id].append(EndedNode(*node))
    verdicts = {
        row["id"]: judge(
            nodes[row["id"]],
            definition_key=row["definition_key"],
            output_index=row["output_task_index"],
            success_policy=row["success_policy"],
            stored_error=row["error"],
        )
        for row in over
    }
    results = await _results(conn, verdicts)
    ends = {workflow_id: end_of(verdict, results[workflow_id]) for workflow_id, verdict in verdicts.items()}
    rows = await conn.fetch(
        statement(__name__, "advance_finish"),
        list(ends),
        [end.status.value for end in ends.values()],
        [end.result for end in ends.values()],
        [end.error for end in ends.values()],
    )
    return {workflow_id: ends[workflow_id].status for (workflow_id,) in rows}


async def parents_ends(
    conn: asyncpg.Connection, children: Collection[str], parents: Collection[str] = ()
) -> list[NodeEnd]:
    """Return how nodes end that ran these workflows, or a child of `parents`, unless the nodes have ended already."""
    if not children and not parents:
        return []
    rows = await conn.fetch(statement(__name__, "advance_parents"), list(children), list(parents))
    return [_node_end(row) for row in rows]


async def _results(conn: asyncpg.Connection, verdicts: dict[str, WorkflowVerdict]) -> dict[str, dict[int, str | None]]:
    wanted = {
        (workflow_id, node.task_index)
        for workflow_id, verdict in verdicts.items()
        for node in (*verdict.results_of, *([] if verdict.blamed is None else [verdict.blamed]))
    }
    results: dict[str, dict[int, str | None]] = {workflow_id: {} for workflow_id in verdicts}
    keys = [workflow_id for workflow_id, _ in wanted], [index for _, index in wanted]
    for workflow_id, index, result in await conn.fetch(statement(__name__, "advance_results"), *keys):
        results[workflow_id][index] = result
    return results


def _node_end(child: asyncpg.Record) -> NodeEnd:
    where = child["parent_workflow_id"], child["parent_task_index"]
    if child["status"] == WorkflowStatus.COMPLETED:
        result = child["result"] or _NOTHING
        return NodeEnd(*where, WorkflowTaskStatus.COMPLETED, result, _summary_text(child, ok_part(result), None))
    unknown = "it was cancelled" if child["status"] == WorkflowStatus.CANCELLED else "no error is stored"
    reason = error_summary(child["error"]) or unknown
    message = f"the workflow {child['name']!r} of this node is {child['status']}: {reason}"
    if child["definition_key"] == MAP_DEFINITION and child["failed"]:
        items = f"{child['failed']} of {child['total']} items of the map of {child['name']!r}"
        message = f"{items} failed, the first: {reason}"
    summary = SubWorkflowSummary(
        WorkflowStatus(child["status"]),
        None,
        child["total"],
        child["completed"],
        child["failed"],
        child["skipped"],
        reason,
    )
    error = SubWorkflowError(
        error_code=OutcomeCode.SUBWORKFLOW_FAILED,
        message=message,
        sub_workflow_id=child["id"],
        sub_workflow_summary=summary,
    )
    result = dump_task_result(TaskResult(err=error))
    return NodeEnd(*where, WorkflowTaskStatus.FAILED, result, _summary_text(child, None, reason))


def _summary_text(child: asyncpg.Record, output: Any, reason: str | None) -> str:
    """Encode a SubWorkflowSummary like the codec, around an output that is already stored and may be of any class."""
    return to_json(
        {
            "__dataclass__": True,
            "module": "horsies.core.models.workflow.context",
            "qualname": "SubWorkflowSummary",
            "data": {
                "status": child["status"],
                "output": output,
                "total_tasks": child["total"],
                "completed_tasks": child["completed"],
                "failed_tasks": child["failed"],
                "skipped_tasks": child["skipped"],
                "error_summary": reason,
            },
        }
    )
