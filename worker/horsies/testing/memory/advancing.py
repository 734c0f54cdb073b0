"""Answers the statements that advance a workflow: ends of nodes, joins, new tasks and children, its own end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import OperationalErrorCode, OutcomeCode, RetrievalCode
from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.enqueue import EnqueueRequest
from horsies.testing.memory.stored_rows import LIVE_WORKFLOWS, Record, answers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from horsies.testing.inline_task import InlineTask
    from horsies.testing.memory.stored_rows import MemoryNode, Rows, Workflow

_ADVANCING, _COMPLETING = "horsies.lifecycle.advancing", "horsies.lifecycle.completing"
_NODE_TASKS, _CHILDREN = "horsies.lifecycle.node_tasks", "horsies.lifecycle.children"
_NODE = WorkflowTaskStatus
_WITHOUT_RESULT = {
    TaskStatus.FAILED: OperationalErrorCode.WORKER_CRASHED,
    TaskStatus.CANCELLED: OutcomeCode.TASK_CANCELLED,
    TaskStatus.EXPIRED: OutcomeCode.TASK_EXPIRED,
}


# No two sessions can meet here, so every lock is free.


@answers(_ADVANCING)
def advance_try(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    roots = {workflow.root for workflow in rows.those(workflow_ids)}
    return [Record(root=root, is_ours=True) for root in sorted(roots)]


@answers(_ADVANCING)
def advance_try_tasks(rows: Rows, task_ids: Collection[str], _leave: object) -> list[Record]:
    nodes = [(task_id, node) for task_id in task_ids if (node := rows.node_of(task_id)) is not None]
    return [Record(task_id=task_id, root=node.workflow.root, is_ours=True) for task_id, node in nodes]


# The ends of nodes.


@answers(_ADVANCING)
def advance_ends(rows: Rows, task_ids: Collection[str]) -> list[Record]:
    ended = []
    for task_id in task_ids:
        node, task = rows.node_of(task_id), rows.tasks[task_id]
        if node is None or node.has_ended or not task.is_final or node.workflow.status not in LIVE_WORKFLOWS:
            continue
        completed = task.status is TaskStatus.COMPLETED and task.stored is not None
        rows.write(
            node,
            status=_NODE.COMPLETED if completed else _NODE.FAILED,
            result=task.stored or _no_result(task),
            started_at=task.started_at or node.started_at,
            completed_at=task.ended_at,
        )
        ended.append(_state(node))
    return ended


def _no_result(task: InlineTask) -> str:
    code = _WITHOUT_RESULT.get(task.status, RetrievalCode.RESULT_NOT_AVAILABLE)
    message, data = f"its task is {task.status} and holds no result", {"task_id": task.task_id}
    return dump_task_result(TaskResult(err=TaskError(error_code=code, data=data, message=message)))


@answers(_ADVANCING)
def advance_started(rows: Rows, task_ids: Collection[str]) -> list[Record]:
    begun = [node for task_id in task_ids if (node := rows.node_of(task_id)) is not None]
    begun = [node for node in begun if node.status is _NODE.ENQUEUED and node.workflow.status in LIVE_WORKFLOWS]
    for node in begun:
        rows.write(node, status=_NODE.RUNNING, started_at=rows.now())
    return [Record(workflow_id=node.workflow.id) for node in begun]


@answers(_ADVANCING)
def advance_end_nodes(
    rows: Rows,
    workflow_ids: Sequence[str],
    indexes: Sequence[int],
    statuses: Sequence[str],
    results: Sequence[str | None],
    summaries: Sequence[str | None],
) -> list[Record]:
    ended = []
    for node, status, result, summary in zip(
        rows.nodes(workflow_ids, indexes), statuses, results, summaries, strict=True
    ):
        if node is None or node.has_ended or node.workflow.status not in LIVE_WORKFLOWS:
            continue
        told = node.sub_workflow_summary if summary is None else summary
        rows.write(node, status=_NODE(status), result=result, sub_workflow_summary=told, completed_at=rows.now())
        ended.append(_state(node))
    return ended


@answers(_ADVANCING)
def advance_wave(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int | None]) -> list[Record]:
    asked: dict[str, set[int | None]] = {}
    for workflow_id, index in zip(workflow_ids, indexes, strict=True):
        asked.setdefault(workflow_id, set()).add(index)
    decided = []
    for workflow in rows.those(asked):
        if workflow.status is not WorkflowStatus.RUNNING:
            continue
        ended, states = asked[workflow.id], {node.task_index: node.status.value for node in workflow.nodes.values()}
        ids = {node.node_id: node.task_index for node in workflow.nodes.values()}
        for node in workflow.nodes.values():
            waits = node.status is _NODE.PENDING and (None in ended or not ended.isdisjoint(node.dependencies))
            if waits and (verdict := rows.node_row(node).joined(states, ids)) is not None:
                rows.write(node, status=_NODE.SKIPPED if verdict == _NODE.SKIPPED else _NODE.READY)
                decided.append(_state(node))
    return decided


@answers(_ADVANCING)
def advance_failures(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    first: dict[str, MemoryNode] = {}
    for node in rows.nodes(workflow_ids, indexes):
        if node is not None and (node.workflow.error is None or node.workflow.on_error == "pause"):
            known = first.setdefault(node.workflow.id, node)
            first[node.workflow.id] = min(known, node, key=lambda each: each.task_index)
    return [
        Record(workflow_id=workflow_id, task_index=node.task_index, node_id=node.node_id, result=node.result)
        for workflow_id, node in sorted(first.items())
    ]


@answers(_ADVANCING)
def advance_on_error(rows: Rows, workflow_ids: Sequence[str], errors: Sequence[str]) -> list[Record]:
    changed = []
    for workflow_id, error in zip(workflow_ids, errors, strict=True):
        workflow = rows.workflows[workflow_id]
        pauses = workflow.on_error == "pause" and workflow.status is WorkflowStatus.RUNNING
        status = WorkflowStatus.PAUSED if pauses else workflow.status
        rows.write(workflow, error=workflow.error or error, status=status)
        changed.append(Record(id=workflow_id, status=status))
    return changed


# The end of a workflow.


@answers(_COMPLETING)
def advance_over(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    over = [
        workflow
        for workflow in rows.those(workflow_ids)
        if workflow.status is WorkflowStatus.RUNNING and all(node.has_ended for node in workflow.nodes.values())
    ]
    return [
        Record(
            id=each.id,
            definition_key=each.definition_key,
            output_task_index=each.output_task_index,
            success_policy=each.success_policy,
            error=each.error,
        )
        for each in over
    ]


@answers(_COMPLETING)
def advance_all_nodes(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    nodes = [node for workflow in rows.those(workflow_ids) for node in workflow.nodes.values()]
    return [
        Record(
            workflow_id=node.workflow.id,
            task_index=node.task_index,
            node_id=node.node_id,
            status=node.status.value,
            dependencies=node.dependencies,
        )
        for node in nodes
    ]


@answers(_COMPLETING)
def advance_finish(
    rows: Rows,
    workflow_ids: Sequence[str],
    statuses: Sequence[str],
    results: Sequence[str | None],
    errors: Sequence[str | None],
) -> list[Record]:
    finished = []
    for workflow_id, status, result, error in zip(workflow_ids, statuses, results, errors, strict=True):
        workflow = rows.workflows[workflow_id]
        if workflow.status is WorkflowStatus.RUNNING:
            rows.write(workflow, status=WorkflowStatus(status), result=result, error=error, completed_at=rows.now())
            finished.append(Record(id=workflow_id))
    return finished


@answers(_COMPLETING)
def advance_parents(rows: Rows, children: Sequence[str], parents: Sequence[str]) -> list[Record]:
    asked = [*rows.those(children), *(child for parent in dict.fromkeys(parents) for child in rows.children(parent))]
    return [_ended_child(child) for child in dict.fromkeys(asked) if _ends_its_node(rows, child)]


def _ends_its_node(rows: Rows, child: Workflow) -> bool:
    parent = rows.workflows.get(child.parent_workflow_id or "")
    if not child.status.is_terminal or parent is None or parent.status not in LIVE_WORKFLOWS:
        return False
    node = parent.nodes[child.parent_task_index or 0]
    return not node.has_ended and node.sub_workflow_id == child.id


def _ended_child(child: Workflow) -> Record:
    ends = [node.status for node in child.nodes.values()]
    return Record(
        id=child.id,
        name=child.name,
        definition_key=child.definition_key,
        status=child.status.value,
        result=child.result,
        error=child.error,
        parent_workflow_id=child.parent_workflow_id,
        parent_task_index=child.parent_task_index,
        total=len(ends),
        completed=ends.count(_NODE.COMPLETED),
        failed=ends.count(_NODE.FAILED),
        skipped=ends.count(_NODE.SKIPPED),
    )


@answers(_COMPLETING)
def advance_results(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    nodes = rows.nodes(workflow_ids, indexes)
    return [Record(workflow_id=n.workflow.id, index=n.task_index, result=n.result) for n in nodes if n is not None]


# The tasks of READY nodes, and their arguments.


@answers(_NODE_TASKS)
def advance_ready(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int | None]) -> list[Record]:
    asked = set(zip(workflow_ids, indexes, strict=True))
    ready = [
        node
        for workflow in sorted(rows.those(workflow_ids), key=lambda each: each.id)
        for node in workflow.nodes.values()
        if workflow.status is WorkflowStatus.RUNNING
        and not asked.isdisjoint({(workflow.id, None), (workflow.id, node.task_index)})
        and node.status is _NODE.READY
        and node.task_id is None
        and node.sub_workflow_id is None
    ]
    return [
        Record(
            workflow_id=node.workflow.id,
            task_index=node.task_index,
            task_name=node.task_name,
            task_kwargs=node.task_kwargs,
            queue_name=node.queue_name,
            priority=node.priority,
            args_from=node.args_from,
            has_context=bool(node.workflow_ctx_from),
            task_options=node.task_options,
            is_subworkflow=node.sub_definition_key is not None,
            sub_definition_key=node.sub_definition_key,
            now=rows.now(),
            node_id=node.node_id,
        )
        for node in ready
    ]


@answers(_NODE_TASKS)
def advance_announce(_rows: Rows, _workflow_ids: object) -> None:
    """The queue asks for READY children whenever nothing else is due."""


@answers(_NODE_TASKS)
def advance_enqueue(rows: Rows, *columns: Sequence[Any]) -> list[Record]:
    return [Record(id=task_id) for row in zip(*columns, strict=True) if (task_id := _enqueue(rows, *row)) is not None]


def _enqueue(
    rows: Rows,
    workflow_id: str,
    index: int,
    task_id: str,
    name: str,
    sha: str,
    sent_at: datetime,
    queue: str,
    priority: int,
    kwargs: str,
    options: str | None,
    good_until: datetime | None,
    _max_retries: int,
) -> str | None:
    node = rows.workflows[workflow_id].nodes[index]
    if node.status is not _NODE.READY or node.task_id is not None:
        return None
    rows.add_task(
        EnqueueRequest(
            task_id=task_id,
            task_name=name,
            enqueue_sha=sha,
            sent_at=sent_at,
            queue_name=queue,
            priority=priority,
            kwargs_json=kwargs,
            task_options=options,
            good_until=good_until,
        )
    )
    rows.link(node, task_id)
    return task_id


@answers(_NODE_TASKS)
def advance_sources(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int], most: int) -> list[Record]:
    nodes = [node for node in rows.nodes(workflow_ids, indexes) if node is not None and node.has_ended]
    return [
        Record(workflow_id=node.workflow.id, index=node.task_index, status=node.status.value, **_result(node, most))
        for node in nodes
    ]


@answers(_NODE_TASKS)
def advance_context(rows: Rows, workflow_ids: Sequence[str], readers: Sequence[int], most: int) -> list[Record]:
    found = []
    for reader in rows.nodes(workflow_ids, readers):
        assert reader is not None
        sources = [reader.workflow.nodes[index] for index in sorted(reader.dependencies)]
        for source in sources:
            if source.node_id in (reader.workflow_ctx_from or ()) and source.has_ended:
                summary, size = _limited(source.sub_workflow_summary, most)
                found.append(
                    Record(
                        workflow_id=source.workflow.id,
                        reader=reader.task_index,
                        node_id=source.node_id,
                        task_index=source.task_index,
                        status=source.status.value,
                        **_result(source, most),
                        summary=summary,
                        summary_bytes=size,
                    )
                )
    return found


def _result(node: MemoryNode, most: int) -> dict[str, Any]:
    text, size = _limited(node.result, most)
    return {"result": text, "result_bytes": size}


def _limited(text: str | None, most: int) -> tuple[str | None, int]:
    size = 0 if text is None else len(text.encode())
    return (text if size <= most else None), size


# Child workflows.


@answers(_CHILDREN)
def child_waiting(rows: Rows, _workflow_ids: None, limit: int) -> list[Record]:
    waiting = [
        Record(workflow_id=workflow.id, task_index=node.task_index)
        for workflow in rows.workflows.values()
        if workflow.status is WorkflowStatus.RUNNING
        for node in workflow.nodes.values()
        if node.sub_definition_key is not None and node.sub_workflow_id is None and node.status is _NODE.READY
    ]
    return waiting[:limit]


@answers(_CHILDREN)
def child_parent(rows: Rows, workflow_id: str, index: int) -> list[Record]:
    workflow = rows.workflows[workflow_id]
    node = workflow.nodes[index]
    waits = node.status is _NODE.READY and node.sub_workflow_id is None
    if workflow.status is not WorkflowStatus.RUNNING or not waits:
        return []
    return [Record(depth=workflow.depth, root=workflow.root)]


@answers(_CHILDREN)
def child_link(rows: Rows, workflow_id: str, index: int, child_id: str) -> None:
    node = rows.workflows[workflow_id].nodes[index]
    rows.write(node, status=_NODE.RUNNING, sub_workflow_id=child_id, started_at=rows.now())


def _state(node: MemoryNode) -> Record:
    return Record(workflow_id=node.workflow.id, task_index=node.task_index, status=node.status.value)
