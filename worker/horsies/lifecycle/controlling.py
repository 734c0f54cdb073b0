"""Operator actions on workflows: pause, resume, cancel or retry a workflow, skip or complete one of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.domain.codec import dump_task_result, to_json
from horsies.domain.codes import OperationalErrorCode, OutcomeCode, RetrievalCode
from horsies.domain.states import WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.advancing import end_node, lock_families, update_workflows
from horsies.lifecycle.reopening import read_reopening, write
from horsies.lifecycle.workflow_rows import read_nodes
from horsies.store.connect import transaction
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.lifecycle.reopening import Reopening
    from horsies.lifecycle.workflow_rows import NodeRow

_CANCELLED_WORDS = "its workflow was cancelled"
_NO_RESULT = to_json(
    {
        status: dump_task_result(
            TaskResult(err=TaskError(error_code=code, message=f"the task is {status}, without a result"))
        )
        for status, code in (
            ("COMPLETED", RetrievalCode.RESULT_NOT_AVAILABLE),
            ("FAILED", OperationalErrorCode.WORKER_CRASHED),
            ("CANCELLED", OutcomeCode.TASK_CANCELLED),
            ("EXPIRED", OutcomeCode.TASK_EXPIRED),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Tasks that were cancelled, and those of them that a worker was running."""

    tasks: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()


async def pause(conn: asyncpg.Connection, workflow_id: str) -> bool:
    """Pause a RUNNING workflow and all RUNNING workflows below it. Running tasks finish; no new ones start.

    Queued tasks stay linked to their nodes and wait there: if unlinked, they would run again after a resume.
    """
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        return bool(await conn.fetch(statement(__name__, "control_pause"), workflow_id))


async def resume(conn: asyncpg.Connection, workflow_id: str) -> bool:
    """Resume a PAUSED workflow and all PAUSED workflows below it; nodes that became ready in the meantime continue."""
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        resumed = [row[0] for row in await conn.fetch(statement(__name__, "control_resume"), workflow_id)]
        await _continue(conn, resumed, resumed)
        return bool(resumed)


async def _continue(conn: asyncpg.Connection, changed: Collection[str], resumed: Collection[str]) -> None:
    await update_workflows(conn, list(changed))
    await conn.execute(statement(__name__, "control_notify_queues"), list(resumed))
    await conn.execute(statement(__name__, "control_notify_builders"), list(resumed))


async def retry_from_failed(conn: asyncpg.Connection, workflow_id: str) -> Reopening:
    """Run each failed node again with a new task; nodes skipped because of it wait for it again, also in parents.

    A PAUSED workflow is resumed. Raises CannotReopenError if nothing has failed or the workflow cannot continue.
    """
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        resumed = [row[0] for row in await conn.fetch(statement(__name__, "control_resume"), workflow_id)]
        reopening = await read_reopening(conn, workflow_id)
        reopening.retry(workflow_id)
        await write(conn, reopening)
        await _continue(conn, {*reopening.workflows, *resumed}, resumed)
        return reopening


async def cancel(conn: asyncpg.Connection, workflow_id: str) -> bool:
    """Cancel a PENDING, RUNNING or PAUSED workflow with all that is open below it: tasks, nodes, child workflows.

    Tasks and nodes that have already ended keep their outcome. An open parent continues with this node as failed.
    """
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        cancelled = await cancel_below(conn, workflow_id, _CANCELLED_WORDS)
        if cancelled:
            await update_workflows(conn, [workflow_id])
        return cancelled


async def cancel_below(conn: asyncpg.Connection, workflow_id: str, words: str) -> bool:
    """Cancel, under the family's lock, the workflow and all below it; the caller must end the parent's node."""
    cancelled = [row[0] for row in await conn.fetch(statement(__name__, "control_cancel"), workflow_id)]
    if not cancelled:
        return False
    live = [row[0] for row in await conn.fetch(statement(__name__, "control_live_tasks"), cancelled)]
    stopped = await stop_tasks(conn, live, words)
    ended = _cancelled_result(words)
    await conn.execute(
        statement(__name__, "control_cancel_nodes"),
        cancelled,
        list(stopped.tasks),
        list(stopped.ran),
        ended,
        _NO_RESULT,
    )
    return True


async def stop_tasks(conn: asyncpg.Connection, task_ids: Collection[str], words: str) -> Stopped:
    """Set open tasks to CANCELLED; a worker that runs one is notified that it has lost the task."""
    if not task_ids:
        return Stopped()
    ending = statement(__name__, "control_end_tasks")
    rows = await conn.fetch(ending, list(task_ids), _cancelled_result(words), words)
    return Stopped(tuple(row[0] for row in rows), tuple(row[0] for row in rows if row[1] == "RUNNING"))


async def skip_node(conn: asyncpg.Connection, workflow_id: str, index: int, words: str) -> bool:
    """Skip a node that has not ended, and cancel its task or child. Return False if it already has an outcome."""
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        node = await _node(conn, workflow_id, index)
        if node is None or node.has_ended or not await _stop(conn, node, words):
            return False
        return await _decide(conn, node, WorkflowTaskStatus.SKIPPED, None)


async def complete_node(conn: asyncpg.Connection, workflow_id: str, index: int, result_json: str, words: str) -> bool:
    """Complete a node with this result; a node that had failed or was skipped reopens its workflow.

    Its task or child is cancelled. False if the node has completed already; CannotReopenError if the workflow cannot
    continue.
    """
    async with transaction(conn):
        await lock_families(conn, [workflow_id])
        node = await _node(conn, workflow_id, index)
        if node is None or node.status == WorkflowTaskStatus.COMPLETED:
            return False
        if node.has_ended:
            reopening = await read_reopening(conn, workflow_id)
            reopening.reopen(node, "PENDING", keep=True)
            await write(conn, reopening)
        elif not await _stop(conn, node, words):
            return False
        return await _decide(conn, node, WorkflowTaskStatus.COMPLETED, result_json)


async def _node(conn: asyncpg.Connection, workflow_id: str, index: int) -> NodeRow | None:
    nodes = (await read_nodes(conn, [workflow_id]))[workflow_id]
    return next((node for node in nodes if node.index == index), None)


async def _stop(conn: asyncpg.Connection, node: NodeRow, words: str) -> bool:
    """Stop the node's task. Return False if it has ended: the node will get that outcome."""
    if node.sub_workflow_id is not None:
        await cancel_below(conn, node.sub_workflow_id, words)
    if node.task_id is None or node.task_status is None:
        return True
    return bool((await stop_tasks(conn, [node.task_id], words)).tasks)


async def _decide(conn: asyncpg.Connection, node: NodeRow, status: WorkflowTaskStatus, result_json: str | None) -> bool:
    decided = await end_node(conn, node.workflow_id, node.index, status, result_json)
    await update_workflows(conn, [node.workflow_id])
    return decided


def _cancelled_result(words: str) -> str:
    return dump_task_result(TaskResult(err=TaskError(error_code=OutcomeCode.TASK_CANCELLED, message=words)))
