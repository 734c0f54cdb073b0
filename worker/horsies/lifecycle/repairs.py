"""What is inconsistent in a workflow, and what follows from the repair: pure functions of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from horsies.domain.errors import HorsiesError
from horsies.domain.states import OnError, WorkflowStatus, WorkflowTaskStatus
from horsies.domain.workflow_end import EndedNode, judge
from horsies.lifecycle.workflow_rows import TERMINAL_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from horsies.lifecycle.workflow_rows import NodeRow, WorkflowRow

_NODE = WorkflowTaskStatus
_TASK_ENDS = {"COMPLETED": _NODE.COMPLETED, "FAILED": _NODE.FAILED, "CANCELLED": _NODE.FAILED, "EXPIRED": _NODE.FAILED}
_CHILD_ENDS = {"COMPLETED": _NODE.COMPLETED, "FAILED": _NODE.FAILED, "CANCELLED": _NODE.FAILED}
_JOINS = frozenset({"all", "any", "quorum"})


class DamagedWorkflowError(HorsiesError):
    """A row that makes no sense: the message names the workflow and the column."""


class Kind(StrEnum):
    """The kind of inconsistency."""

    TASK_ENDED = "task ended"
    TASK_STARTED = "task started"
    TASK_QUEUED = "task queued"
    TASK_GONE = "task gone"
    NO_TASK = "no task"
    CHILD_ENDED = "child ended"
    CHILD_STARTED = "child started"
    CHILD_GONE = "child gone"
    CHILD_NOT_STARTED = "child not started"
    JOIN = "join"
    ON_ERROR = "on error"
    ALL_ENDED = "all ended"


@dataclass(frozen=True, slots=True)
class Repair:
    """One change that makes a workflow consistent again; without `index`, of the workflow itself.

    `before` and `after` are states. They are equal where a task is created again, and where workers are only notified
    again.
    """

    workflow_id: str
    node_id: str | None
    index: int | None
    before: str
    after: str
    why: str
    kind: Kind
    follows: bool = False
    """The node is consistent by itself; this change follows from the repairs before it."""

    @property
    def changes(self) -> bool:
        """Whether it changes rows; repeated notifications of workers do not count."""
        return self.before != self.after or self.kind is Kind.NO_TASK


def repairs_of(flow: WorkflowRow, nodes: Sequence[NodeRow], grace: timedelta) -> tuple[Repair, ...]:
    """The repairs in order. A task that ended within `grace` is left to the worker that is about to advance it.

    DamagedWorkflowError for rows that make no sense.
    """
    if flow.status != WorkflowStatus.RUNNING:
        return ()
    _check(flow, nodes)
    repairs = [repair for node in nodes if (repair := _of_node(flow, node, grace)) is not None]
    states = {node.index: node.status for node in nodes}
    states |= {repair.index: repair.after for repair in repairs if repair.index is not None}
    failed = any(repair.after == _NODE.FAILED for repair in repairs)
    if failed and flow.on_error == OnError.PAUSE:
        why = "on_error is pause, and a node has failed"
        return (*_held_back(repairs), _of_flow(flow, WorkflowStatus.PAUSED, why, Kind.ON_ERROR, follows=True))
    joined = _joined(nodes, states)
    end = _end(flow, nodes, states, follows=bool(repairs or joined))
    return (*repairs, *joined, *end)


def _held_back(repairs: Sequence[Repair]) -> Iterator[Repair]:
    """In a workflow that pauses, tasks are created only after the resume."""
    for repair in repairs:
        if repair.kind is not Kind.NO_TASK:
            yield repair
        elif repair.before != _NODE.READY:
            yield replace(repair, after=_NODE.READY.value)


def _of_node(flow: WorkflowRow, node: NodeRow, grace: timedelta) -> Repair | None:
    if node.has_ended:
        return None
    if node.task_id is not None:
        return _with_task(flow, node, grace)
    if node.is_subworkflow:
        return _with_child(flow, node)
    if node.status == _NODE.READY:
        return _node(node, _NODE.ENQUEUED, "it has no task", Kind.NO_TASK)
    if node.status == _NODE.ENQUEUED:
        return _node(node, _NODE.ENQUEUED, "its task was never made", Kind.NO_TASK)
    if node.status == _NODE.RUNNING:
        return _node(node, _NODE.FAILED, "it runs without a task", Kind.TASK_GONE)
    return None


def _with_task(flow: WorkflowRow, node: NodeRow, grace: timedelta) -> Repair | None:
    if node.task_status is None:
        return _node(node, _NODE.FAILED, f"the row of its task {node.task_id} is gone", Kind.TASK_GONE)
    if (after := _TASK_ENDS.get(node.task_status)) is not None:
        if node.task_ended_at is not None and node.task_ended_at + grace > flow.now:
            return None
        lost = after == _NODE.COMPLETED and not node.task_has_result
        why = f"its task is {node.task_status}" + (" without a result" if lost else "")
        return _node(node, _NODE.FAILED if lost else after, why, Kind.TASK_ENDED)
    if node.task_status == "RUNNING":
        late = node.task_started_at is None or node.task_started_at + grace <= flow.now
        if node.status != _NODE.RUNNING and late:
            return _node(node, _NODE.RUNNING, "its task is RUNNING", Kind.TASK_STARTED)
    elif node.status in (_NODE.PENDING, _NODE.READY):
        return _node(node, _NODE.ENQUEUED, f"its task is {node.task_status}", Kind.TASK_QUEUED)
    return None


def _with_child(flow: WorkflowRow, node: NodeRow) -> Repair | None:
    if node.child_status is not None:
        if (after := _CHILD_ENDS.get(node.child_status)) is not None:
            return _node(node, after, f"its child workflow is {node.child_status}", Kind.CHILD_ENDED)
        if node.status != _NODE.RUNNING:
            return _node(node, _NODE.RUNNING, f"its child workflow is {node.child_status}", Kind.CHILD_STARTED)
        return None
    if node.status == _NODE.RUNNING:
        return _node(node, _NODE.FAILED, "the row of its child workflow is gone", Kind.CHILD_GONE)
    if node.status in (_NODE.READY, _NODE.ENQUEUED):
        why = "no worker has started its child workflow: they are told again"
        return _node(node, _NODE.READY, why, Kind.CHILD_NOT_STARTED)
    return None


def _joined(nodes: Sequence[NodeRow], states: dict[int, str]) -> list[Repair]:
    """One wave after the other; `states` grows with each."""
    ids = {node.node_id: node.index for node in nodes}
    as_stored = {node.index: node.status for node in nodes}
    waiting = [node for node in nodes if states[node.index] == _NODE.PENDING]
    repairs: list[Repair] = []
    while decided := [(node, after) for node in waiting if (after := _join(node, states, ids)) is not None]:
        for node, after in decided:
            states[node.index] = after
            how = "cannot be met" if after == _NODE.SKIPPED else "is met"
            follows = _join(node, as_stored, ids) is None
            repairs.append(_node(node, after, f"its join ({node.join}) {how}", Kind.JOIN, follows=follows))
        waiting = [node for node in waiting if states[node.index] == _NODE.PENDING]
    return repairs


def _join(node: NodeRow, states: Mapping[int, str], ids: Mapping[str, int]) -> str | None:
    """The new status of a PENDING node; None: it still waits."""
    have = [states[index] for index in node.dependencies]
    completed = have.count(_NODE.COMPLETED)
    still_open = sum(state not in TERMINAL_NODES for state in have)
    if node.join == "all":
        if still_open:
            return None
        possible = node.allow_failed_deps or completed == len(have)
        needed = 0
    else:
        needed = 1 if node.join == "any" else node.min_success or 1
        possible = completed + still_open >= needed
    if not possible:
        return _NODE.SKIPPED
    context_open = any(states[ids[one]] not in TERMINAL_NODES for one in node.context_from if one in ids)
    if completed < needed or context_open:
        return None
    return _NODE.READY if node.is_subworkflow else _NODE.ENQUEUED


def _end(flow: WorkflowRow, nodes: Sequence[NodeRow], states: Mapping[int, str], *, follows: bool) -> Iterator[Repair]:
    if any(state not in TERMINAL_NODES for state in states.values()):
        return
    verdict = judge(
        [EndedNode(node.index, node.node_id, states[node.index], node.dependencies) for node in nodes],
        definition_key=None,
        output_index=None,
        success_policy=flow.success_policy,
        stored_error="{}" if flow.has_error else None,
    )
    yield _of_flow(flow, verdict.status, "all of its nodes have ended", Kind.ALL_ENDED, follows=follows)


def _check(flow: WorkflowRow, nodes: Sequence[NodeRow]) -> None:
    known = {node.index for node in nodes}
    statuses = {str(status) for status in _NODE}
    for node in nodes:
        if lost := [index for index in node.dependencies if index not in known]:
            raise _damaged(flow, f"node {node.node_id} depends on {lost}, which are no nodes of it")
        if node.status not in statuses:
            raise _damaged(flow, f"node {node.node_id} has the status {node.status!r}, which is none")
        if node.join not in _JOINS:
            raise _damaged(flow, f"node {node.node_id} has the join {node.join!r}, which is none")
        if node.child_is_anothers and not node.has_ended:
            raise _damaged(flow, f"node {node.node_id} waits for {node.sub_workflow_id}, which names another parent")


def _damaged(flow: WorkflowRow, what: str) -> DamagedWorkflowError:
    return DamagedWorkflowError(
        f"workflow {flow.name} ({flow.id}) is damaged: {what}",
        help_text=f"`horsies workflows cancel {flow.id}` ends it; rerun is refused until the row is mended",
    )


def _node(node: NodeRow, after: str, why: str, kind: Kind, *, follows: bool = False) -> Repair:
    return Repair(node.workflow_id, node.node_id, node.index, node.status, str(after), why, kind, follows)


def _of_flow(flow: WorkflowRow, after: str, why: str, kind: Kind, *, follows: bool) -> Repair:
    return Repair(flow.id, None, None, flow.status, str(after), why, kind, follows)
