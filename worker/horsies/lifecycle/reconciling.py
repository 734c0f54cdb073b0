"""Repair workflows whose rows are inconsistent because a worker was killed between two transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from horsies.domain.codec import dump_task_result
from horsies.domain.states import WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.advancing import advance_locked, end_node, nodes_started, try_families, update_workflows
from horsies.lifecycle.repairs import Repair, repairs_of
from horsies.lifecycle.workflow_rows import read_flows, read_nodes
from horsies.store.connect import transaction
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, is_about_a_row
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies.lifecycle.workflow_rows import NodeRow

_AT_ONCE = 200
_MAX_REPORTED = 20


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of a pass over all workflows.

    `refused` could not be repaired, with the reasons. `locked` were locked by another session: the next pass tries
    them again.
    """

    repairs: int = 0
    workflows: int = 0
    refused: tuple[RejectedItem[str], ...] = ()
    locked: tuple[str, ...] = ()

    def report(self) -> dict[str, Any]:
        """Return the report for horsies_sweep_state; it lists only the first of many refused workflows."""
        return {
            "repairs": self.repairs,
            "workflows": self.workflows,
            "refused_workflows": [{"id": one.item, "error": one.error} for one in self.refused[:_MAX_REPORTED]],
            "locked_workflows": list(self.locked[:_MAX_REPORTED]),
        }


async def plan_repairs(conn: asyncpg.Connection, workflow_id: str, grace_ms: int) -> tuple[Repair, ...]:
    """Read which repairs `reconcile` would make now. Raise DamagedWorkflowError for contradictory rows."""
    flow = (await read_flows(conn, [workflow_id])).get(workflow_id)
    if flow is None:
        return ()
    nodes = (await read_nodes(conn, [workflow_id]))[workflow_id]
    return repairs_of(flow, nodes, timedelta(milliseconds=grace_ms))


async def reconcile(conn: asyncpg.Connection, workflow_id: str, grace_ms: int) -> tuple[Repair, ...] | None:
    """Repair a RUNNING workflow in one transaction, under the family's lock; a consistent one is not changed.

    Return None if another session has locked the family.
    """
    async with transaction(conn):
        if not all((await try_families(conn, [workflow_id])).values()):
            return None
        repairs = await plan_repairs(conn, workflow_id, grace_ms)
        if repairs:
            nodes = {node.index: node for node in (await read_nodes(conn, [workflow_id]))[workflow_id]}
            await _mend(conn, workflow_id, nodes, repairs)
        return repairs


async def stuck_workflows(
    conn: asyncpg.Connection, grace_ms: int, limit: int = _AT_ONCE, *, after: str = ""
) -> tuple[str, ...]:
    """Read which workflows `reconcile` would change, in the order of their ids."""
    return tuple(row[0] for row in await conn.fetch(statement(__name__, "stuck_workflows"), grace_ms, after, limit))


async def reconcile_all(conn: asyncpg.Connection, grace_ms: int) -> Reconciled:
    """Repair each stuck workflow in a separate transaction; skip workflows that are locked or cannot be repaired."""
    repairs, workflows = 0, 0
    refused: list[RejectedItem[str]] = []
    locked: list[str] = []
    after = ""
    while ids := await stuck_workflows(conn, grace_ms, after=after):
        for workflow_id in ids:
            try:
                found = await reconcile(conn, workflow_id, grace_ms)
            except asyncpg.LockNotAvailableError:
                locked.append(workflow_id)
            except (asyncpg.PostgresError, *ROW_ERRORS) as error:
                if not is_about_a_row(error):
                    raise
                refused.append(RejectedItem(workflow_id, f"{type(error).__name__}: {error}"))
            else:
                if found is None:
                    locked.append(workflow_id)
                done = sum(repair.changes for repair in found or ())
                repairs += done
                workflows += bool(done)
        after = ids[-1]
    return Reconciled(repairs, workflows, tuple(refused), tuple(locked))


async def _mend(
    conn: asyncpg.Connection, workflow_id: str, nodes: dict[int, NodeRow], repairs: Sequence[Repair]
) -> None:
    """Repair the nodes first, then apply all consequences."""
    own = [(nodes[repair.index], repair) for repair in repairs if repair.index is not None]
    linked = [(node.index, repair.rule.linked_as) for node, repair in own if repair.rule.linked_as is not None]
    if linked:
        indexes, states = zip(*linked, strict=True)
        await conn.execute(statement(__name__, "reconcile_link"), workflow_id, indexes, states)
    for node, repair in own:
        if repair.rule.ends_with is not None:
            error = TaskError(error_code=repair.rule.ends_with, message=f"{repair.why}: its outcome is not known")
            failure = dump_task_result(TaskResult(err=error))
            await end_node(conn, workflow_id, node.index, WorkflowTaskStatus.FAILED, failure)
    # Failures first: if on_error is pause, nothing that follows from the other nodes may start.
    children = [
        node.sub_workflow_id
        for node, repair in own
        if repair.rule.then == "end of child" and repair.after == "FAILED" and node.sub_workflow_id is not None
    ]
    await update_workflows(conn, children)
    await nodes_started(conn, _tasks(own, "start"))
    await advance_locked(conn, _tasks(own, "advance"))
    await update_workflows(conn, [workflow_id])
    await conn.execute(statement("horsies.lifecycle.controlling", "control_notify_builders"), [workflow_id])


def _tasks(own: Sequence[tuple[NodeRow, Repair]], then: str) -> list[str]:
    return [node.task_id for node, repair in own if repair.rule.then == then and node.task_id is not None]
