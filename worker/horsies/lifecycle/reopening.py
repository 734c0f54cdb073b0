"""Reopen failed workflows: failed nodes are ready again, nodes skipped because of them wait, parents continue.

A node's deadline that has passed is dropped: it would expire the node before any worker starts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.lifecycle.advancing import update_workflows
from horsies.lifecycle.workflow_rows import family_of, read_flows, read_nodes
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import asyncpg

    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow


_PENDING, _READY, _ENQUEUED, _RUNNING = "PENDING", "READY", "ENQUEUED", "RUNNING"
_CAN_GO_ON = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.PAUSED, WorkflowStatus.FAILED})


class CannotReopenError(Exception):
    """The reason why a workflow cannot continue, as shown to the operator."""


@dataclass(frozen=True, slots=True)
class Reopened:
    """One node: its new status, and whether it keeps its task or child workflow."""

    node: NodeRow
    status: str
    keep: bool


@dataclass(slots=True)
class Reopening:
    """All changes that reopening nodes of a family requires."""

    flows: Mapping[str, FamilyWorkflowRow]
    nodes: Mapping[str, Sequence[NodeRow]]
    reopened: dict[tuple[str, int], Reopened] = field(default_factory=dict)
    workflows: dict[str, None] = field(default_factory=dict)

    def retry(self, workflow_id: str) -> None:
        """Run each failed node again; a failed child workflow continues from its own failed nodes."""
        failed = [node for node in self.nodes[workflow_id] if node.status == WorkflowTaskStatus.FAILED]
        if not failed:
            raise CannotReopenError(f"none of its nodes has failed{self._paused_below(workflow_id)}")
        for node in failed:
            if self._child_can_go_on(node):
                self.reopen(node, _RUNNING, keep=True)
                self.retry(node.sub_workflow_id or "")
            else:
                self.reopen(node, _PENDING if node.dependencies else _READY, keep=False)

    def reopen(self, node: NodeRow, status: str, *, keep: bool) -> None:
        """Reopen the node, the nodes skipped because of it, its workflow, and the parent's node that failed with it."""
        self._put(node, status, keep=keep)
        self._put_skipped_after(node)
        self._open(node.workflow_id)

    def _paused_below(self, workflow_id: str) -> str:
        for flow in self.flows.values():
            if flow.parent_workflow_id == workflow_id and flow.status == WorkflowStatus.PAUSED:
                return f"; its child {flow.name} {flow.id} is PAUSED: retry or resume the child"
        return ""

    def _child_can_go_on(self, node: NodeRow) -> bool:
        """Build a child again that was cancelled, or that failed without a failed node."""
        child = self.flows.get(node.sub_workflow_id or "")
        return (
            child is not None
            and child.status == WorkflowStatus.FAILED
            and any(one.status == WorkflowTaskStatus.FAILED for one in self.nodes[child.id])
        )

    def _open(self, workflow_id: str) -> None:
        if workflow_id in self.workflows:
            return
        flow = self.flows[workflow_id]
        if flow.status not in _CAN_GO_ON:
            raise CannotReopenError(f"its workflow {flow.name} is {flow.status}")
        self.workflows[workflow_id] = None
        if flow.parent_workflow_id is None or flow.parent_workflow_id not in self.flows:
            return
        if flow.status != WorkflowStatus.FAILED:
            return
        waiting = self._node_of(flow, self.flows[flow.parent_workflow_id])
        if waiting.sub_workflow_id != workflow_id or not waiting.has_ended:
            return
        # It failed with its child, unless an operator completed or skipped it, after which other nodes may have gone
        # on.
        if waiting.status != WorkflowTaskStatus.FAILED:
            raise CannotReopenError(f"an operator has set {waiting.node_id} of its parent to {waiting.status}")
        self.reopen(waiting, _RUNNING, keep=True)

    def _node_of(self, child: FamilyWorkflowRow, parent: FamilyWorkflowRow) -> NodeRow:
        """The node of the parent that ran this child, as stored in the child's row."""
        found = next((node for node in self.nodes[parent.id] if node.index == child.parent_index), None)
        if found is None:
            raise CannotReopenError(
                f"its workflow {child.name} ({child.id}) is damaged: its parent_task_index is {child.parent_index},"
                f" and its parent {parent.name} ({parent.id}) has no such node; correct the row in SQL"
            )
        return found

    def _put(self, node: NodeRow, status: str, *, keep: bool) -> None:
        self.reopened.setdefault((node.workflow_id, node.index), Reopened(node, status, keep))

    def _put_skipped_after(self, node: NodeRow) -> None:
        """Return the nodes that were skipped because of it. A node that an operator skipped (completed_at) is kept."""
        siblings = self.nodes[node.workflow_id]
        open_now = {node.index}
        grew = True
        while grew:
            grew = False
            for one in siblings:
                skipped = one.status == WorkflowTaskStatus.SKIPPED and one.completed_at is None
                if skipped and one.index not in open_now and open_now.intersection(one.dependencies):
                    open_now.add(one.index)
                    self._put(one, _PENDING, keep=False)
                    grew = True


async def read_reopening(conn: asyncpg.Connection, workflow_id: str) -> Reopening:
    """Read the family of this workflow; nothing is reopened yet. CannotReopenError if the workflow was deleted."""
    flow = (await read_flows(conn, [workflow_id])).get(workflow_id)
    if flow is None:
        raise CannotReopenError("its row was deleted")
    ids = await family_of(conn, flow.root)
    return Reopening(await read_flows(conn, ids), await read_nodes(conn, ids))


async def write(conn: asyncpg.Connection, reopening: Reopening) -> None:
    """Write under the family's lock. PAUSED workflows stay PAUSED; new tasks do not get a deadline that has passed."""
    ordered = [reopening.reopened[key] for key in sorted(reopening.reopened)]
    await conn.execute(
        statement(__name__, "reopen_nodes"),
        [one.node.workflow_id for one in ordered],
        [one.node.index for one in ordered],
        [one.status for one in ordered],
        [one.keep for one in ordered],
    )
    await drop_past_deadlines(conn, [(one.node.workflow_id, one.node.index) for one in ordered if not one.keep])
    await conn.execute(statement(__name__, "reopen_workflows"), list(reopening.workflows))


async def lock_families_of(conn: asyncpg.Connection, task_ids: Collection[str]) -> None:
    """Lock the families of these tasks in the caller's transaction, before any of the tasks is changed."""
    if task_ids:
        await conn.execute(statement(__name__, "advance_lock_tasks"), list(task_ids))


async def reopen_for_tasks(conn: asyncpg.Connection, task_ids: Collection[str]) -> None:
    """Reopen, under the families' locks, the failed or skipped nodes of tasks that are PENDING again.

    A completed node keeps its outcome, and so does one whose workflow, or a parent of it, cannot continue.
    """
    rows = await conn.fetch(statement(__name__, "reopen_tasks"), list(task_ids)) if task_ids else []
    for workflow_id in sorted({row["workflow_id"] for row in rows}):
        indexes = {row["task_index"] for row in rows if row["workflow_id"] == workflow_id}
        try:
            reopening = await read_reopening(conn, workflow_id)
            for node in reopening.nodes[workflow_id]:
                if node.index in indexes:
                    reopening.reopen(node, _ENQUEUED, keep=True)
        except CannotReopenError:
            continue
        await write(conn, reopening)
        await update_workflows(conn, list(reopening.workflows))


def without_past_deadline(task_options: str | None, now: datetime) -> str | None:
    """The options of a node without a past deadline; unchanged if the deadline lies ahead or cannot be read."""
    options = _tree(task_options)
    try:
        passed = isinstance(options, dict) and datetime.fromisoformat(options["good_until"]) <= now
    except (KeyError, TypeError, ValueError):  # no deadline, or one that workers cannot read either
        return task_options
    return to_json(options | {"good_until": None}) if passed else task_options


def map_without_past_deadline(kwargs: str | None, now: datetime) -> str | None:
    """Return the arguments of a map's node, which contain the options of its items, without a past deadline."""
    tree = _tree(kwargs)
    order = tree.get(MAP_DEFINITION) if isinstance(tree, dict) else None
    if not isinstance(order, dict) or not isinstance(stored := order.get("task_options"), str):
        return kwargs
    options = without_past_deadline(stored, now)
    return kwargs if options == stored else to_json({**tree, MAP_DEFINITION: {**order, "task_options": options}})


async def drop_past_deadlines(conn: asyncpg.Connection, keys: Sequence[tuple[str, int]]) -> None:
    """Within the caller's transaction, under the families' locks: for these nodes, which have no task yet."""
    columns = [key[0] for key in keys], [key[1] for key in keys]
    late = []
    for workflow_id, index, *texts, now in await conn.fetch(statement(__name__, "reopen_deadlines"), *columns):
        mended = [without_past_deadline(texts[0], now), map_without_past_deadline(texts[1], now)]
        if mended != texts:
            late.append((workflow_id, index, *mended))
    if late:
        await conn.execute(statement(__name__, "reopen_options"), *map(list, zip(*late, strict=True)))


def _tree(text: str | None) -> Any:
    try:
        return None if text is None else parse_json(text)
    except CodecError:
        return None
