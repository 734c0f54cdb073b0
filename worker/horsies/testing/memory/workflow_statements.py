"""Answers the statements of starts, handles and operators: create, read, pause, resume, cancel, retry."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus
from horsies.testing.memory.rows import LIVE_TASKS, LIVE_WORKFLOWS, MemoryNode, Record, Workflow, answers, array

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from horsies.testing.memory.rows import Rows

_CREATE, _READING = "horsies.lifecycle.create_workflow", "horsies.store.reading"
_CONTROLLING, _REOPENING = "horsies.lifecycle.controlling", "horsies.lifecycle.reopening"
_ROWS = "horsies.lifecycle.workflow_rows"
_NODE_COLUMNS = (
    *("id", "task_index", "node_id", "task_name", "task_kwargs", "queue_name", "priority", "dependencies", "args_from"),
    *("workflow_ctx_from", "allow_failed_deps", "join_type", "min_success", "task_options", "sub_definition_key"),
)
"""In the order of the statement's parameters."""


# The start.


@answers(_CREATE)
def insert_workflow(rows: Rows, workflow_id: str, *columns: Any) -> list[Record]:
    if workflow_id in rows.workflows:
        return []
    *described, _sent_at, parent, parent_index, depth, root = columns
    row = [workflow_id, *described, parent, parent_index, depth, root or workflow_id, rows.now()]
    rows.add(Workflow(*row))
    return [Record(id=workflow_id)]


@answers(_CREATE)
def insert_nodes(rows: Rows, workflow_id: str, *columns: Sequence[Any]) -> None:
    workflow = rows.workflows[workflow_id]
    for values in zip(*columns, strict=True):
        row = dict(zip(_NODE_COLUMNS, values, strict=True))
        row["dependencies"] = tuple(map(int, array(row["dependencies"])))
        row["workflow_ctx_from"] = array(row["workflow_ctx_from"] or "{}")
        status = WorkflowTaskStatus.PENDING if row["dependencies"] else WorkflowTaskStatus.READY
        workflow.nodes[row["task_index"]] = MemoryNode(workflow=workflow, status=status, **row)


@answers(_CREATE)
def workflow_name(rows: Rows, workflow_id: str) -> list[Record]:
    return [Record(name=workflow.name) for workflow in rows.those([workflow_id])]


@answers(_CREATE)
def first_difference(
    rows: Rows, workflow_id: str, definition_key: str | None, indexes: Sequence[int], *columns: Sequence[Any]
) -> list[Record]:
    workflow = rows.workflows[workflow_id]
    if workflow.definition_key != definition_key:
        return [Record(what="another definition", node=None)]
    given = dict(zip(indexes, zip(*columns, strict=True), strict=True))
    for index in sorted({*given, *workflow.nodes}):
        node = workflow.nodes.get(index)
        if (what := _difference(given.get(index), node)) is not None:
            return [Record(what=what, node=str(index) if node is None else node.node_id)]
    return []


def _difference(given: Sequence[Any] | None, node: MemoryNode | None) -> str | None:
    if given is None or node is None:
        return "other nodes, as to"
    name, kwargs, needs, sources = given
    if name != node.task_name:
        return "another task for"
    if kwargs != node.task_kwargs:
        return "other arguments for"
    same = tuple(map(int, array(needs))) == node.dependencies and _tree(sources) == _tree(node.args_from)
    return None if same else "other dependencies of"


def _tree(text: str | None) -> Any:
    return None if text is None else json.loads(text)


# What handles read.


@answers(_READING)
def read_workflow_outcomes(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    return [Record.of(workflow, "id status result error") for workflow in rows.those(workflow_ids)]


@answers(_READING)
def read_workflow_nodes(rows: Rows, workflow_id: str) -> list[Record]:
    names = "task_index node_id task_name status result started_at completed_at sub_workflow_id sub_workflow_summary"
    found = [Record.of(node, names) for node in rows.nodes_of([workflow_id])]
    return found or [Record(task_index=None) for _ in rows.those([workflow_id])]


@answers(_READING)
def read_workflow_node(rows: Rows, workflow_id: str, node_id: str) -> list[Record]:
    found = [node for node in rows.nodes_of([workflow_id]) if node.node_id == node_id]
    return [Record.of(node, "task_index status result") for node in found] or [
        Record(task_index=None, status=None, result=None) for _ in rows.those([workflow_id])
    ]


@answers(_READING)
def read_task(rows: Rows, task_id: str, _with_result: bool, _with_reason: bool) -> list[Record]:
    task = rows.tasks.get(task_id)
    if task is None:
        return []
    completed = task.status is TaskStatus.COMPLETED
    nothing = "worker_hostname", "worker_pid", "worker_process_name", "done", "total", "unit", "reported_at"
    columns = Record.of(
        task,
        "task_id task_name status queue_name retry_count max_retries next_retry_at started_at error_code failed_reason",
        priority=task.request.priority,
        sent_at=task.request.sent_at,
        enqueued_at=task.due,
        claimed_at=task.started_at,
        completed_at=task.ended_at if completed else None,
        failed_at=None if completed else task.ended_at,
        result=task.stored,
        **dict.fromkeys(nothing),
    )
    return [columns]


@answers(_READING)
def read_attempts(rows: Rows, task_id: str) -> list[Record]:
    return [Record(**asdict(attempt)) for attempt in reversed(rows.tasks[task_id].attempts)]


@answers("horsies.lifecycle.node_tasks")
def reference_texts(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    names = "workflow_id task_index result sub_workflow_summary"
    return [Record.of(node, names) for node in rows.nodes(workflow_ids, indexes) if node]


@answers("horsies.lifecycle.node_tasks")
def dependency_options(_rows: Rows, _workflow_ids: object, _indexes: object) -> None:
    """Do nothing: runs are not traced here, so no node has a span."""


# Pause, resume and cancel.


@answers(_CONTROLLING)
def control_pause(rows: Rows, workflow_id: str) -> list[Record]:
    return _change(rows, workflow_id, {WorkflowStatus.RUNNING}, status=WorkflowStatus.PAUSED)


@answers(_CONTROLLING)
def control_resume(rows: Rows, workflow_id: str) -> list[Record]:
    return _change(rows, workflow_id, {WorkflowStatus.PAUSED}, status=WorkflowStatus.RUNNING)


@answers(_CONTROLLING)
def control_notify_queues(_rows: Rows, _workflow_ids: object) -> None:
    """Do nothing: there are no workers to notify."""


@answers(_CONTROLLING)
def control_notify_builders(_rows: Rows, _workflow_ids: object) -> None:
    """Do nothing: there are no workers to notify."""


@answers(_CONTROLLING)
def control_cancel(rows: Rows, workflow_id: str) -> list[Record]:
    cancelled = {"status": WorkflowStatus.CANCELLED, "completed_at": rows.now()}
    return _change(rows, workflow_id, LIVE_WORKFLOWS, **cancelled)


def _change(rows: Rows, workflow_id: str, those: Collection[WorkflowStatus], **columns: Any) -> list[Record]:
    """Change the workflow and those below it that have one of these states, if it has one itself."""
    first = rows.workflows.get(workflow_id)
    if first is None or first.status not in those:
        return []
    changed = [workflow for workflow in rows.below(workflow_id) if workflow.status in those]
    for workflow in changed:
        rows.write(workflow, **columns)
    return [Record(id=workflow.id) for workflow in changed]


@answers(_CONTROLLING)
def control_live_tasks(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    return [Record(task_id=node.task_id) for node in _open_nodes(rows, workflow_ids) if node.task_id is not None]


@answers(_CONTROLLING)
def control_end_tasks(rows: Rows, task_ids: Collection[str], result: str, _words: str) -> list[Record]:
    ended = []
    for task_id in task_ids:
        task = rows.tasks[task_id]
        if task.status in LIVE_TASKS:
            ended.append(Record(id=task_id, before_status=task.status.value))
            task.cancel(result, rows.now())
    return ended


@answers(_CONTROLLING)
def control_cancel_nodes(
    rows: Rows,
    workflow_ids: Collection[str],
    cancelled_tasks: Collection[str],
    ran_tasks: Collection[str],
    result_of_ran: str,
    no_result: str,
) -> None:
    texts = json.loads(no_result)
    for node in _open_nodes(rows, workflow_ids):
        task = rows.tasks.get(node.task_id or "")
        if task is None or task.task_id in cancelled_tasks:
            ran = node.status is WorkflowTaskStatus.RUNNING or node.task_id in ran_tasks
            status, result = WorkflowTaskStatus.SKIPPED, None
            if ran:
                status, result = WorkflowTaskStatus.FAILED, result_of_ran
        else:  # it had ended before, and keeps its outcome
            completed = task.status is TaskStatus.COMPLETED and task.stored is not None
            status = WorkflowTaskStatus.COMPLETED if completed else WorkflowTaskStatus.FAILED
            result = task.stored or texts[task.status.value]
        started_at = node.started_at if task is None else task.started_at or node.started_at
        rows.write(node, status=status, result=result, started_at=started_at, completed_at=rows.now())


def _open_nodes(rows: Rows, workflow_ids: Collection[str]) -> list[MemoryNode]:
    return [node for node in rows.nodes_of(workflow_ids) if not node.has_ended]


# Retry.


@answers(_ROWS)
def family_workflows(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    return [
        Record.of(
            workflow,
            "id name status on_error success_policy has_error parent_workflow_id parent_task_index depth root"
            " updated_at",
            now=rows.now(),
        )
        for workflow in sorted(rows.those(workflow_ids), key=lambda each: (each.depth, each.id))
    ]


@answers(_ROWS)
def family_nodes(rows: Rows, workflow_ids: Collection[str]) -> list[Record]:
    return [Record(**asdict(rows.node_row(node))) for node in rows.nodes_of(workflow_ids)]


@answers(_ROWS)
def family_of(rows: Rows, root: str) -> list[Record]:
    return [Record(id=each.id) for each in rows.workflows.values() if root in (each.id, each.root)]


@answers(_REOPENING)
def reopen_nodes(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int], *columns: Sequence[Any]) -> None:
    for node, status, keeps_task in zip(rows.nodes(workflow_ids, indexes), *columns, strict=True):
        if node is None or not node.has_ended:
            continue
        nothing = dict.fromkeys(("result", "completed_at", "sub_workflow_summary"))
        if not keeps_task:
            nothing |= dict.fromkeys(("task_id", "sub_workflow_id", "started_at"))
        rows.write(node, status=WorkflowTaskStatus(status), **nothing)


@answers(_REOPENING)
def reopen_workflows(rows: Rows, workflow_ids: Collection[str]) -> None:
    for workflow in rows.those(workflow_ids):
        if workflow.status in {*LIVE_WORKFLOWS, WorkflowStatus.FAILED}:
            paused = workflow.status is WorkflowStatus.PAUSED
            status = WorkflowStatus.PAUSED if paused else WorkflowStatus.RUNNING
            rows.write(workflow, status=status, error=None, result=None, completed_at=None)


@answers(_REOPENING)
def reopen_deadlines(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[Record]:
    return [
        Record.of(
            node,
            "workflow_id task_index task_options",
            map_kwargs=node.task_kwargs if node.sub_definition_key == MAP_DEFINITION else None,
            now=rows.now(),
        )
        for node in rows.nodes(workflow_ids, indexes)
        if node
    ]


@answers(_REOPENING)
def reopen_options(rows: Rows, workflow_ids: Sequence[str], indexes: Sequence[int], *columns: Sequence[Any]) -> None:
    for node, option, kwargs in zip(rows.nodes(workflow_ids, indexes), *columns, strict=True):
        if node is not None and node.task_id is None:
            rows.write(node, task_options=option, task_kwargs=node.task_kwargs if kwargs is None else kwargs)
