"""Which workflows and nodes an action may change, why not the others, and what the operator should know beforehand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from horsies.lifecycle.reopening import Reopening
    from horsies.lifecycle.repairs import Repair
    from horsies.lifecycle.workflow_rows import NodeRow, WorkflowRow

_MOST_LINES = 500
_NAMED = 5
_TERMINAL = frozenset(str(status) for status in WORKFLOW_TERMINAL_STATES)
_RAN = frozenset({WorkflowTaskStatus.COMPLETED, WorkflowTaskStatus.RUNNING, WorkflowTaskStatus.ENQUEUED})
"""These run, or are about to, with the arguments that they were given."""
_WAITS = frozenset({WorkflowTaskStatus.PENDING, WorkflowTaskStatus.READY})


class WorkflowVerb(StrEnum):
    RECONCILE = "reconcile"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY_FROM_FAILED = "retry"
    RERUN = "rerun"
    SKIP = "skip"
    COMPLETE = "complete"

    @property
    def on_nodes(self) -> bool:
        """Whether it takes a node instead of whole workflows."""
        return self in (WorkflowVerb.SKIP, WorkflowVerb.COMPLETE)


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """A workflow as the operator saw it, with its family."""

    flow: WorkflowRow
    flows: Mapping[str, WorkflowRow]
    nodes: Mapping[str, Sequence[NodeRow]]
    node: NodeRow | None = None
    """The target node of the action."""
    last_action: int | None = None
    """The newest audit row of an action on it; read only if the verb does not change the row."""
    repairs: tuple[Repair, ...] = ()
    reopening: Reopening | None = None
    problem: str | None = None
    """Why repairs cannot be listed, or nothing can be reopened."""

    def below(self) -> list[str]:
        """This workflow and all below it."""
        ids = [self.flow.id]
        for flow in self.flows.values():  # parents come first
            if flow.parent_workflow_id in ids:
                ids.append(flow.id)
        return ids

    def nodes_below(self) -> list[NodeRow]:
        """All open nodes of this workflow and those below it."""
        return [node for one in self.below() if self.flows[one].status not in _TERMINAL for node in self.nodes[one]]


def why_not(verb: WorkflowVerb, seen: WorkflowFacts) -> str | None:
    """None for a workflow, or a node, that the action may change."""
    status = seen.flow.status
    match verb:
        case WorkflowVerb.PAUSE:
            return None if status == WorkflowStatus.RUNNING else f"it is {status}, not RUNNING"
        case WorkflowVerb.RESUME:
            return None if status == WorkflowStatus.PAUSED else f"it is {status}, not PAUSED"
        case WorkflowVerb.CANCEL:
            return f"it is {status} already" if status in _TERMINAL else None
        case WorkflowVerb.RERUN:
            return None if status in _TERMINAL else f"it is {status}: only what has ended is run again as a new one"
        case WorkflowVerb.RETRY_FROM_FAILED:
            return seen.problem
        case WorkflowVerb.RECONCILE:
            return _not_reconcilable(seen)
        case WorkflowVerb.SKIP | WorkflowVerb.COMPLETE:
            return _not_decidable(verb, seen)


def _not_reconcilable(seen: WorkflowFacts) -> str | None:
    if seen.flow.status != WorkflowStatus.RUNNING:
        return f"it is {seen.flow.status}: only what is RUNNING can be out of step"
    return seen.problem or (None if seen.repairs else "nothing in it is out of step")


def _not_decidable(verb: WorkflowVerb, seen: WorkflowFacts) -> str | None:
    node, status = seen.node, seen.flow.status
    if node is None:
        return "no node of it has this index"
    if status not in _TERMINAL and not node.has_ended:
        return None
    if verb is WorkflowVerb.SKIP:
        way_out = "; retry runs it again, complete gives it a value" if node.status == WorkflowTaskStatus.FAILED else ""
        return f"it is {node.status} already{way_out}"
    if node.status == WorkflowTaskStatus.COMPLETED:
        return "it is COMPLETED already"
    return seen.problem


def consequences(verb: WorkflowVerb, eligible: Sequence[WorkflowFacts]) -> tuple[str, ...]:
    """Sentences; for reconciling, one for each repair."""
    lines = [line for seen in eligible for line in _TELL[verb](seen)]
    more = len(lines) - _MOST_LINES
    return tuple(lines[:_MOST_LINES]) + ((f"and {more} more",) if more > 0 else ())


def _reconcile(seen: WorkflowFacts) -> Iterator[str]:
    for repair in seen.repairs:
        what = "the workflow" if repair.node_id is None else repair.node_id
        then = "then " if repair.follows else ""
        yield f"{seen.flow.name}: {then}{what} {repair.before} → {repair.after}: {repair.why}"


def _pause(seen: WorkflowFacts) -> Iterator[str]:
    live = Counter(node.status for node in seen.nodes_below() if node.task_id is not None)
    yield (
        f"{seen.flow.name}: {counted(live['RUNNING'], 'running node')} may end,"
        f" {counted(live['ENQUEUED'], 'queued node')} keep their place and wait; nothing else starts"
    )
    yield from _family(seen, "paused")


def _resume(seen: WorkflowFacts) -> Iterator[str]:
    waiting = sum(not node.has_ended for node in seen.nodes_below())
    yield f"{seen.flow.name}: {counted(waiting, 'node')} {'goes' if waiting == 1 else 'go'} on"
    if seen.flow.has_error:
        yield f"{seen.flow.name}: a node of it has failed, so that it will end FAILED; retry runs that node again"
    yield from _family(seen, "resumed")


def _cancel(seen: WorkflowFacts) -> Iterator[str]:
    live = Counter(node.status for node in seen.nodes_below())
    waiting = live["PENDING"] + live["READY"] + live["ENQUEUED"]
    fail, skipped = "fails" if live["RUNNING"] == 1 else "fail", "is skipped" if waiting == 1 else "are skipped"
    yield (
        f"{seen.flow.name}: {counted(live['RUNNING'], 'running node')} {fail} with TASK_CANCELLED, their workers are"
        f" told to stop, and what user code has done stays done; {counted(waiting, 'waiting node')} {skipped}"
    )
    yield from _family(seen, "cancelled")
    parent = seen.flows.get(seen.flow.parent_workflow_id or "")
    if parent is not None and parent.status not in _TERMINAL:
        yield f"{seen.flow.name}: its parent {parent.name} goes on with this node as failed"


def _family(seen: WorkflowFacts, what: str) -> Iterator[str]:
    alive = [one for one in seen.below()[1:] if seen.flows[one].status not in _TERMINAL]
    if alive:
        yield f"{seen.flow.name}: {counted(len(alive), 'child workflow')} below are {what} as well"


def _retry(seen: WorkflowFacts) -> Iterator[str]:
    if seen.reopening is None:
        return
    opened = list(seen.reopening.reopened.values())
    again = [one for one in opened if one.node.status == WorkflowTaskStatus.FAILED and not one.keep]
    skipped = [one for one in opened if one.node.status == WorkflowTaskStatus.SKIPPED]
    names = _names([one.node for one in again])
    yield f"{seen.flow.name}: run again, with a fresh task, all retries and no deadline that has passed: {names}"
    if skipped:
        yield f"{seen.flow.name}: skipped before, wait for them now: {_names([one.node for one in skipped])}"
    yield from _kept(seen, seen.reopening.reopened)
    parents = [
        flow.name
        for flow in seen.flows.values()
        if flow.id in seen.reopening.workflows and flow.depth < seen.flow.depth
    ]
    if parents:
        yield f"{seen.flow.name}: goes on for its parents as well: {', '.join(parents)}"


def _kept(seen: WorkflowFacts, opened: Collection[tuple[str, int]]) -> Iterator[str]:
    """Completed nodes are kept, even if computed from a failure that may now be replaced by a value."""
    kept = [
        node
        for workflow_id in sorted({workflow_id for workflow_id, _ in opened})
        for node in seen.nodes[workflow_id]
        if node.status in _RAN and any((workflow_id, index) in opened for index in node.dependencies)
    ]
    if kept:
        yield (
            f"{seen.flow.name}: ran before with the failure as their input, or without it, and stay as they are:"
            f" {_names(kept)}; only rerun, as a new workflow, computes them anew"
        )


def _rerun(seen: WorkflowFacts) -> Iterator[str]:
    yield (
        f"{seen.flow.name}: starts from the beginning as a workflow of its own, with the arguments it had;"
        " this one stays as it is, and what waits for it does not get the new result"
    )


def _skip(seen: WorkflowFacts) -> Iterator[str]:
    if seen.node is None:
        return
    yield from _stopped(seen, seen.node)
    after = [one for one in seen.nodes[seen.flow.id] if seen.node.index in one.dependencies and not one.has_ended]
    if after:
        yield f"{_names(after)}: judged by their joins, as after a dependency that was skipped"
    yield from _still_paused(seen)


def _complete(seen: WorkflowFacts) -> Iterator[str]:
    if seen.node is None:
        return
    yield from _stopped(seen, seen.node)
    opened = {} if seen.reopening is None else seen.reopening.reopened
    after = [one for one in seen.nodes[seen.flow.id] if seen.node.index in one.dependencies]
    waiting = [one for one in after if one.status in _WAITS or (one.workflow_id, one.index) in opened]
    if waiting:
        yield f"{_names(waiting)}: may go on with this value"
    yield from _kept(seen, opened)
    if seen.flow.status in _TERMINAL:
        yield f"{seen.flow.name} is {seen.flow.status} and RUNNING again, with what was skipped after this node"
    yield from _still_paused(seen)


def _still_paused(seen: WorkflowFacts) -> Iterator[str]:
    if seen.flow.status == WorkflowStatus.PAUSED:
        yield f"{seen.flow.name} stays PAUSED: nothing goes on before it is resumed"


def _stopped(seen: WorkflowFacts, node: NodeRow) -> Iterator[str]:
    if node.has_ended:
        return
    if node.sub_workflow_id is not None:
        yield f"{node.node_id}: its child workflow is cancelled, with all that is below"
    elif node.task_status == "RUNNING":
        yield f"{node.node_id}: its task is taken from the worker, which is told to stop; what it has done stays done"
    elif node.task_status is not None:
        yield f"{node.node_id}: its task is cancelled before it starts"


def _names(nodes: Sequence[NodeRow]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(node.node_id for node in nodes[:_NAMED]) + more


_TELL = {
    WorkflowVerb.RECONCILE: _reconcile,
    WorkflowVerb.PAUSE: _pause,
    WorkflowVerb.RESUME: _resume,
    WorkflowVerb.CANCEL: _cancel,
    WorkflowVerb.RETRY_FROM_FAILED: _retry,
    WorkflowVerb.RERUN: _rerun,
    WorkflowVerb.SKIP: _skip,
    WorkflowVerb.COMPLETE: _complete,
}
