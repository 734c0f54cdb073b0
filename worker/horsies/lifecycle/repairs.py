"""The inconsistencies of a workflow, what their repairs write, and what follows: pure functions of its rows.

A repair is a `RepairRule`: the sweep, `horsies workflows reconcile` and the recovery report read these records. Where
the scan of the sweep, `stuck_workflows`, does not select a workflow for a new rule, it needs that case as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from horsies.domain.codes import OutcomeCode, RetrievalCode
from horsies.domain.errors import HorsiesError
from horsies.domain.states import OnError, WorkflowStatus, WorkflowTaskStatus
from horsies.domain.workflow_end import EndedNode, judge
from horsies.lifecycle.workflow_rows import TERMINAL_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow

_NODE = WorkflowTaskStatus
_TASK_ENDS = {"COMPLETED": _NODE.COMPLETED, "FAILED": _NODE.FAILED, "CANCELLED": _NODE.FAILED, "EXPIRED": _NODE.FAILED}
_CHILD_ENDS = {"COMPLETED": _NODE.COMPLETED, "FAILED": _NODE.FAILED, "CANCELLED": _NODE.FAILED}


class DamagedWorkflowError(HorsiesError):
    """The error for a contradictory row; the message names the workflow and the column."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """The report's name of an inconsistency, why it happens, and what the sweep does about it."""

    name: str
    why: str
    action: str = "repair"
    changes: bool = True
    """Whether the repair changes rows; otherwise workers are only notified again."""
    late_after: timedelta = timedelta()
    """Not reported as long as the workflow was changed within this time."""


Holds: TypeAlias = "Callable[[FamilyWorkflowRow, NodeRow, timedelta], tuple[str, str] | None]"


@dataclass(frozen=True, slots=True)
class RepairRule:
    """One repair of a node: `holds` returns its new state and what is inconsistent, or None.

    Without `holds` it is about the graph: `repairs_of` finds it. Without `symptom` it only follows from others.
    """

    name: str
    symptom: Symptom | None
    holds: Holds | None = None
    linked_as: str | None = None
    """The state that is written first; from it the usual steps of a workflow continue."""
    ends_with: RetrievalCode | OutcomeCode | None = None
    """The error with which the node fails."""
    then: Literal["advance", "start", "end of child"] | None = None
    """The usual step that continues: the end or the start of its task, or the end of its child."""
    creates_task: bool = False
    waits_for_worker: bool = False
    """Whether the repair waits for a grace period in which a worker may do the same."""


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
    rule: RepairRule = field(repr=False)
    follows: bool = False
    """True if the node is consistent, and this change only follows from the repairs before it."""

    @property
    def changes(self) -> bool:
        """True if it changes rows; repeated notifications of workers do not count."""
        return self.before != self.after or self.rule.creates_task


# Functions that decide whether a node needs a repair.


def _task_gone(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    if node.task_id is not None and node.task_status is None:
        return _NODE.FAILED, f"the row of its task {node.task_id} was deleted"
    if node.task_id is None and not node.is_subworkflow and node.status == _NODE.RUNNING:
        return _NODE.FAILED, "it runs without a task"
    return None


def _task_ended(flow: FamilyWorkflowRow, node: NodeRow, grace: timedelta) -> tuple[str, str] | None:
    after = _TASK_ENDS.get(node.task_status or "")
    if after is None or (node.task_ended_at is not None and node.task_ended_at + grace > flow.now):
        return None
    lost = after == _NODE.COMPLETED and not node.task_has_result
    why = f"its task is {node.task_status}" + (" without a result" if lost else "")
    return _NODE.FAILED if lost else after, why


def _task_started(flow: FamilyWorkflowRow, node: NodeRow, grace: timedelta) -> tuple[str, str] | None:
    late = node.task_started_at is None or node.task_started_at + grace <= flow.now
    if node.task_status == "RUNNING" and node.status != _NODE.RUNNING and late:
        return _NODE.RUNNING, "its task is RUNNING"
    return None


def _task_queued(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    if node.task_status in ("PENDING", "CLAIMED") and node.status in (_NODE.PENDING, _NODE.READY):
        return _NODE.ENQUEUED, f"its task is {node.task_status}"
    return None


def _no_task(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    if node.task_id is not None or node.is_subworkflow or node.status not in (_NODE.READY, _NODE.ENQUEUED):
        return None
    return _NODE.ENQUEUED, "it has no task" if node.status == _NODE.READY else "its task was never created"


def _child_ended(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    after = _CHILD_ENDS.get(node.child_status or "")
    return (after, f"its child workflow is {node.child_status}") if _is_child(node) and after is not None else None


def _child_started(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    lives = node.child_status is not None and node.child_status not in _CHILD_ENDS
    if _is_child(node) and lives and node.status != _NODE.RUNNING:
        return _NODE.RUNNING, f"its child workflow is {node.child_status}"
    return None


def _child_gone(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    if _is_child(node) and node.child_status is None and node.status == _NODE.RUNNING:
        return _NODE.FAILED, "the row of its child workflow was deleted"
    return None


def _child_not_started(_flow: FamilyWorkflowRow, node: NodeRow, _grace: timedelta) -> tuple[str, str] | None:
    if _is_child(node) and node.child_status is None and node.status in (_NODE.READY, _NODE.ENQUEUED):
        return _NODE.READY, "no worker has started its child workflow: they are notified again"
    return None


def _is_child(node: NodeRow) -> bool:
    return node.task_id is None and node.is_subworkflow


# The rules; at most one applies to a node.

_ROW_GONE: Final = Symptom(
    "task row gone", "Retention keeps what live workflows need: the row was deleted by something else.", "fail the node"
)
_INCONSISTENT: Final = Symptom(
    "inconsistent",
    "A worker stores the outcome of a task first and advances its workflow in a second transaction: a worker killed"
    " between the two leaves this state.",
)
_STALLED: Final = Symptom(
    "stalled workflow", "Everything that it waited for has ended, and nothing else would start it."
)
_WITHOUT_TASK: Final = Symptom(
    "node has no task", "It may run, but no worker can claim it, because it has no task in the queue."
)
_CHILD_FINISHED: Final = Symptom("child finished", "Its child workflow has ended, but the node does not show it yet.")
_CHILD_LATE: Final = Symptom(
    "child not begun",
    "A worker with the definition must build the child; none has done so yet.",
    "notify the workers again",
    changes=False,
    # A worker builds a child at once after a notification, and otherwise at its next poll.
    late_after=timedelta(seconds=30),
)
_OF_NODES: Final = (
    RepairRule("task gone", _ROW_GONE, _task_gone, ends_with=RetrievalCode.RESULT_NOT_AVAILABLE),
    RepairRule("child gone", _ROW_GONE, _child_gone, ends_with=OutcomeCode.SUBWORKFLOW_FAILED),
    RepairRule("task ended", _INCONSISTENT, _task_ended, linked_as="RUNNING", then="advance", waits_for_worker=True),
    RepairRule("task started", _INCONSISTENT, _task_started, linked_as="ENQUEUED", then="start", waits_for_worker=True),
    RepairRule("task queued", _INCONSISTENT, _task_queued, linked_as="ENQUEUED"),
    RepairRule("child started", _INCONSISTENT, _child_started, linked_as="RUNNING"),
    RepairRule("no task", _WITHOUT_TASK, _no_task, linked_as="READY", creates_task=True),
    RepairRule("child ended", _CHILD_FINISHED, _child_ended, linked_as="RUNNING", then="end of child"),
    RepairRule("child not started", _CHILD_LATE, _child_not_started, linked_as="READY"),
)
_JOIN: Final = RepairRule("join", _STALLED)
_ALL_ENDED: Final = RepairRule("all ended", _STALLED)
_ON_ERROR: Final = RepairRule("on error", None)

SYMPTOMS: Final = tuple(
    dict.fromkeys(rule.symptom for rule in (*_OF_NODES, _JOIN, _ALL_ENDED) if rule.symptom is not None)
)
"""All symptoms, in the order of the recovery report."""


def repairs_of(flow: FamilyWorkflowRow, nodes: Sequence[NodeRow], grace: timedelta) -> tuple[Repair, ...]:
    """Return the repairs in order. A task that ended within `grace` is left to the worker that is about to advance it.

    Raises DamagedWorkflowError for contradictory rows.
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
        return (*_held_back(repairs), _of_flow(flow, WorkflowStatus.PAUSED, why, _ON_ERROR, follows=True))
    joined = _joined(nodes, states)
    end = _end(flow, nodes, states, follows=bool(repairs or joined))
    return (*repairs, *joined, *end)


def _held_back(repairs: Sequence[Repair]) -> Iterator[Repair]:
    """Yield the repairs of a workflow that pauses, in which tasks are created only after the resume."""
    for repair in repairs:
        if not repair.rule.creates_task:
            yield repair
        elif repair.before != _NODE.READY:
            yield replace(repair, after=_NODE.READY.value)


def _of_node(flow: FamilyWorkflowRow, node: NodeRow, grace: timedelta) -> Repair | None:
    if node.has_ended:
        return None
    for rule in _OF_NODES:
        if rule.holds is not None and (found := rule.holds(flow, node, grace)) is not None:
            return _node(node, *found, rule)
    return None


def _joined(nodes: Sequence[NodeRow], states: dict[int, str]) -> list[Repair]:
    """The repairs of PENDING nodes that can be decided, then of those after them; `states` gets the new states."""
    ids = {node.node_id: node.index for node in nodes}
    as_stored = {node.index: node.status for node in nodes}
    waiting = [node for node in nodes if states[node.index] == _NODE.PENDING]
    repairs: list[Repair] = []
    while decided := [(node, after) for node in waiting if (after := node.joined(states, ids)) is not None]:
        for node, after in decided:
            states[node.index] = after
            how = "cannot be met" if after == _NODE.SKIPPED else "is met"
            follows = node.joined(as_stored, ids) is None
            repairs.append(_node(node, after, f"its join ({node.join}) {how}", _JOIN, follows=follows))
        waiting = [node for node in waiting if states[node.index] == _NODE.PENDING]
    return repairs


def _end(
    flow: FamilyWorkflowRow, nodes: Sequence[NodeRow], states: Mapping[int, str], *, follows: bool
) -> Iterator[Repair]:
    if any(state not in TERMINAL_NODES for state in states.values()):
        return
    verdict = judge(
        [EndedNode(node.index, node.node_id, states[node.index], node.dependencies) for node in nodes],
        definition_key=None,
        output_index=None,
        success_policy=flow.success_policy,
        stored_error="{}" if flow.has_error else None,
    )
    yield _of_flow(flow, verdict.status, "all of its nodes have ended", _ALL_ENDED, follows=follows)


def _check(flow: FamilyWorkflowRow, nodes: Sequence[NodeRow]) -> None:
    known = {node.index for node in nodes}
    statuses = {str(status) for status in _NODE}
    for node in nodes:
        if lost := [index for index in node.dependencies if not isinstance(index, int) or index not in known]:
            raise _damaged(flow, f"node {node.node_id} depends on {lost}, which do not exist")
        if not all(isinstance(one, str) for one in node.context_from):
            raise _damaged(flow, f"node {node.node_id} takes the results of {node.context_from}, which are not names")
        if node.status not in statuses:
            raise _damaged(flow, f"node {node.node_id} has the unknown status {node.status!r}")
        if node.needs is None:
            what = "a quorum without min_success" if node.join == "quorum" else f"the unknown join {node.join!r}"
            raise _damaged(flow, f"node {node.node_id} has {what}")
        if node.child_names_another_parent and not node.has_ended:
            raise _damaged(flow, f"node {node.node_id} waits for {node.sub_workflow_id}, which names another parent")


def _damaged(flow: FamilyWorkflowRow, what: str) -> DamagedWorkflowError:
    return DamagedWorkflowError(
        f"workflow {flow.name} ({flow.id}) is damaged: {what}",
        help_text=f"`horsies workflows cancel {flow.id}` ends it; rerun is refused until the row is corrected",
    )


def _node(node: NodeRow, after: str, why: str, rule: RepairRule, *, follows: bool = False) -> Repair:
    return Repair(node.workflow_id, node.node_id, node.index, node.status, str(after), why, rule, follows)


def _of_flow(flow: FamilyWorkflowRow, after: str, why: str, rule: RepairRule, *, follows: bool) -> Repair:
    return Repair(flow.id, None, None, flow.status, str(after), why, rule, follows)
