"""Answers the statements that advance a workflow: ends of nodes, joins, new tasks and children, its own end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import OperationalErrorCode, OutcomeCode, RetrievalCode
from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.enqueue import EnqueueRequest
from horsies.testing.memory.rows import LIVE_WORKFLOWS, Record, answers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from horsies.testing.inline_task import InlineTask
    from horsies.testing.memory.rows import MemoryNode, Rows, Workflow

_ADVANCING, _COMPLETING = "horsies.lifecycle.advancing", "horsies.lifecycle.completing"
_NODE_TASKS, _CHILDREN = "horsies.lifecycle.node_tasks", "horsies.lifecycle.create_workflow"
_NODE = WorkflowTaskStatus
_STATE = "workflow_id task_index status"
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
    return [Record(task_id=node.task_id, root=node.workflow.root, is_ours=True) for node in _nodes_of(rows, task_ids)]


def _nodes_of(rows: Rows, task_ids: Collection[str]) -> list[MemoryNode]:
    return [node for task_id in task_ids if (node := rows.node_of(task_id)) is not None]


# The ends of nodes.


@answers(_ADVANCING)
def advance_ends(rows: Rows, task_ids: Collection[str]) -> list[Record]:
    ended = []
    for node in _nodes_of(rows, task_ids):
        task = rows.tasks[node.task_id or ""]
        if node.has_ended or not task.is_final or node.workflow.status not in LIVE_WORKFLOWS:
            continue
        completed = task.status is TaskStatus.COMPLETED and task.stored is not None
        rows.write(
            node,
            status=_NODE.COMPLETED if completed else _NODE.FAILED,
            result=task.stored or _no_result(task),
            started_at=task.started_at or node.started_at,
            completed_at=task.ended_at,
        )
        ended.append(Record.of(node, _STATE))
    return ended


def _no_result(task: InlineTask) -> str:
    code = _WITHOUT_RESULT.get(task.status, RetrievalCode.RESULT_NOT_AVAILABLE)
    message, data = f"its task is {task.status} and holds no result", {"task_id": task.task_id}
    return dump_task_result(TaskResult(err=TaskError(error_code=code, data=data, message=message)))


@answers(_ADVANCING)
def advance_started(rows: Rows, task_ids: Collection[str]) -> list[Record]:
    nodes = _nodes_of(rows, task_ids)
    begun = [node for node in nodes if node.status is _NODE.ENQUEUED and node.workflow.status in LIVE_WORKFLOWS]
    for node in begun:
        rows.write(node, status=_NODE.RUNNING, started_at=rows.now())
    return [Record.of(node, "workflow_id") for node in begun]


@answers(_ADVANCING)
def advance_end_nodes(
    rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int], *columns: Sequence[str | None]
) -> list[Record]:
    ended = []
    for node, status, result, summary in zip(rows.nodes(workflow_ids, indexes), *columns, strict=True):
        if node is None or node.has_ended or node.workflow.status not in LIVE_WORKFLOWS:
            continue
        told = node.sub_workflow_summary if summary is None else summary
        rows.write(node, status=_NODE(status), result=result, sub_workflow_summary=told, completed_at=rows.now())
        ended.append(Record.of(node, _STATE))
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
                decided.append(Record.of(node, _STATE))
    return decided


@answers(_ADVANCING)
def advance_failures(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    first: dict[str, MemoryNode] = {}
    for node in rows.nodes(workflow_ids, indexes):
        if node is not None and (node.workflow.error is None or node.workflow.on_error == "pause"):
            known = first.setdefault(node.workflow_id, node)
            first[node.workflow_id] = min(known, node, key=lambda each: each.task_index)
    return [Record.of(node, "workflow_id task_index node_id result") for _, node in sorted(first.items())]


@answers(_ADVANCING)
def advance_on_error(rows: Rows, workflow_ids: Sequence[str], errors: Sequence[str]) -> list[Record]:
    changed = []
    for workflow_id, error in zip(workflow_ids, errors, strict=True):
        workflow = rows.workflows[workflow_id]
        pauses = workflow.on_error == "pause" and workflow.status is WorkflowStatus.RUNNING
        status = WorkflowStatus.PAUSED if pauses else workflow.status
        rows.write(workflow, error=workflow.error or error, status=status)
        changed.append(Record.of(workflow, "id status"))
    return changed


# The end of a workflow.


@answers(_COMPLETING)
def advance_over(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    return [
        Record.of(workflow, "id definition_key output_task_index success_policy error")
        for workflow in rows.those(workflow_ids)
        if workflow.status is WorkflowStatus.RUNNING and all(node.has_ended for node in workflow.nodes.values())
    ]


@answers(_COMPLETING)
def advance_all_nodes(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    names = "workflow_id task_index node_id status dependencies"
    return [Record.of(node, names) for node in rows.nodes_of(workflow_ids)]


@answers(_COMPLETING)
def advance_finish(rows: Rows, workflow_ids: Sequence[str], *columns: Sequence[str | None]) -> list[Record]:
    finished = []
    for workflow_id, status, result, error in zip(workflow_ids, *columns, strict=True):
        workflow = rows.workflows[workflow_id]
        if workflow.status is WorkflowStatus.RUNNING:
            rows.write(workflow, status=WorkflowStatus(status), result=result, error=error, completed_at=rows.now())
            finished.append(Record(id=workflow_id))
    return finished


@answers(_COMPLETING)
def advance_parents(rows: Rows, children: Sequence[str], parents: Sequence[str]) -> list[Record]:
    asked = [each for each in rows.workflows.values() if each.id in children or each.parent_workflow_id in parents]
    return [_ended_child(child) for child in asked if _ends_its_node(rows, child)]


def _ends_its_node(rows: Rows, child: Workflow) -> bool:
    parent = rows.workflows.get(child.parent_workflow_id or "")
    if not child.status.is_terminal or parent is None or parent.status not in LIVE_WORKFLOWS:
        return False
    node = parent.nodes[child.parent_task_index or 0]
    return not node.has_ended and node.sub_workflow_id == child.id


def _ended_child(child: Workflow) -> Record:
    ends = [node.status for node in child.nodes.values()]
    return Record.of(
        child,
        "id name definition_key status result error parent_workflow_id parent_task_index",
        total=len(ends),
        completed=ends.count(_NODE.COMPLETED),
        failed=ends.count(_NODE.FAILED),
        skipped=ends.count(_NODE.SKIPPED),
    )


@answers(_COMPLETING)
def advance_results(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    return [Record.of(node, "workflow_id task_index result") for node in rows.nodes(workflow_ids, indexes) if node]


# The tasks of READY nodes, and their arguments.


@answers(_NODE_TASKS)
def advance_ready(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int | None]) -> list[Record]:
    asked = set(zip(workflow_ids, indexes, strict=True))
    return [
        Record.of(
            node,
            "workflow_id task_index task_name task_kwargs queue_name priority args_from",
            has_context=bool(node.workflow_ctx_from),
            task_options=node.task_options,
            is_subworkflow=node.is_subworkflow,
            sub_definition_key=node.sub_definition_key,
            now=rows.now(),
            node_id=node.node_id,
        )
        for node in rows.nodes_of(sorted(workflow_ids))
        if node.is_ready and not asked.isdisjoint({(node.workflow_id, None), (node.workflow_id, node.task_index)})
    ]


@answers(_NODE_TASKS)
def advance_announce(_rows: Rows, _workflow_ids: object) -> None:
    """Do nothing: the queue asks for READY children whenever nothing else is due."""


@answers(_NODE_TASKS)
def advance_enqueue(rows: Rows, *columns: Sequence[Any]) -> list[Record]:
    return [Record(id=task_id) for row in zip(*columns, strict=True) if (task_id := _enqueue(rows, *row)) is not None]


def _enqueue(rows: Rows, workflow_id: str, index: int, task_id: str, name: str, sha: str, *columns: Any) -> str | None:
    node = rows.workflows[workflow_id].nodes[index]
    if node.status is not _NODE.READY or node.task_id is not None:
        return None
    sent_at, queue, priority, kwargs, options, good_until, _max_retries = columns
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
    return [Record.of(node, "workflow_id task_index status", **_limited("result", node.result, most)) for node in nodes]


@answers(_NODE_TASKS)
def advance_context(rows: Rows, workflow_ids: Sequence[str], readers: Sequence[int], most: int) -> list[Record]:
    found = []
    for reader in rows.nodes(workflow_ids, readers):
        assert reader is not None
        for source in (reader.workflow.nodes[index] for index in sorted(reader.dependencies)):
            if source.node_id in reader.workflow_ctx_from and source.has_ended:
                place = {"workflow_id": source.workflow_id, "reader": reader.task_index, "node_id": source.node_id}
                texts = _limited("result", source.result, most) | _limited("summary", source.sub_workflow_summary, most)
                found.append(Record(**place, task_index=source.task_index, status=source.status, **texts))
    return found


def _limited(name: str, text: str | None, most: int) -> dict[str, Any]:
    size = 0 if text is None else len(text.encode())
    return {name: text if size <= most else None, f"{name}_bytes": size}


# Child workflows.


@answers(_CHILDREN)
def child_waiting(rows: Rows, _workflow_ids: None, limit: int) -> list[Record]:
    waiting = [node for node in rows.nodes_of(rows.workflows) if node.is_subworkflow and node.is_ready]
    return [Record.of(node, "workflow_id task_index") for node in waiting[:limit]]


@answers(_CHILDREN)
def child_parent(rows: Rows, workflow_id: str, index: int) -> list[Record]:
    node = rows.workflows[workflow_id].nodes[index]
    return [Record.of(node.workflow, "depth root")] if node.is_ready else []


@answers(_CHILDREN)
def child_link(rows: Rows, workflow_id: str, index: int, child_id: str) -> None:
    node = rows.workflows[workflow_id].nodes[index]
    rows.write(node, status=_NODE.RUNNING, sub_workflow_id=child_id, started_at=rows.now())
