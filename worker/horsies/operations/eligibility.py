"""Which rows an action may change, why not the others, and what the operator should know before confirming."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from horsies.domain.states import TASK_TERMINAL_STATES, TASK_TRANSITIONS, TaskStatus, WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from horsies.lifecycle.operator_actions import ExpectedState


class TaskVerb(StrEnum):
    REQUEUE = "requeue"
    FAIL = "fail"
    CANCEL = "cancel"
    RETRY_NOW = "retry-now"
    RELEASE = "release"
    RERUN = "rerun"
    EXPIRE = "expire"


@dataclass(frozen=True, slots=True)
class Node:
    """The node of a task, and its workflow."""

    workflow_id: str
    workflow_name: str
    workflow_status: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are not in the rows. `twins` are tasks whose unique key goes to another task of the selection."""

    now: datetime
    key_holders: Mapping[str, str]
    twins: Mapping[str, str]
    nodes: Mapping[str, Node]
    fresh_budget: bool = False


_SOURCES = {
    verb: {arrow.source for arrow in TASK_TRANSITIONS if arrow.verb == verb.value and "operator" in arrow.who}
    for verb in TaskVerb
}
_TERMINAL = frozenset(status.value for status in TASK_TERMINAL_STATES)
_STATUSES = frozenset(status.value for status in TaskStatus)
_INTERRUPTED = "TASK_INTERRUPTED"
_LIVES_AGAIN = frozenset({TaskVerb.REQUEUE, TaskVerb.RERUN})


def is_terminal(seen: ExpectedState) -> bool:
    return seen.status in _TERMINAL


def fits_state(verb: TaskVerb, status: str, error_code: str | None) -> bool:
    """Whether the action may change a task in this state, by the state alone; a preview checks the rest."""
    if verb is TaskVerb.RERUN:
        return status in _TERMINAL
    if status not in _STATUSES or TaskStatus(status) not in _SOURCES[verb]:
        return False
    return not (verb is TaskVerb.FAIL and status in _TERMINAL and not _is_interrupted(status, error_code))


def why_not(verb: TaskVerb, seen: ExpectedState, facts: Facts) -> str | None:
    """None for a row that the action may change."""
    if seen.status not in _STATUSES:
        return f"its status {seen.status!r} is none that horsies writes"
    return _wrong_state(verb, seen, facts) or _wrong_company(verb, seen, facts)


def _wrong_state(verb: TaskVerb, seen: ExpectedState, facts: Facts) -> str | None:
    if not fits_state(verb, seen.status, seen.error_code):
        return _WRONG_STATE[verb](seen)
    if verb is TaskVerb.RETRY_NOW and seen.due <= facts.now:
        return "it is due already and waits for a worker"
    if verb is TaskVerb.EXPIRE and (seen.good_until is None or seen.good_until > facts.now):
        return "its good_until has not passed" if seen.good_until else "it has no good_until"
    return None


def _is_interrupted(status: str, error_code: str | None) -> bool:
    """Stopped at a shutdown: it needs an operator's decision, to run again or to fail for good."""
    return status == "FAILED" and error_code == _INTERRUPTED


def _not_releasable(seen: ExpectedState) -> str:
    if seen.status == "RUNNING":
        return "it is RUNNING, no claim to release; requeue takes it away from its worker"
    return f"it is {seen.status}, no worker has claimed it"


_WRONG_STATE: Mapping[TaskVerb, Callable[[ExpectedState], str]] = {
    TaskVerb.REQUEUE: lambda seen: f"it is {seen.status} already; retry-now makes it due",
    TaskVerb.FAIL: lambda seen: f"it is {seen.status} already",
    TaskVerb.CANCEL: lambda seen: f"it is {seen.status} already",
    TaskVerb.RETRY_NOW: lambda seen: f"it is {seen.status}, not waiting to be due",
    TaskVerb.RELEASE: _not_releasable,
    TaskVerb.RERUN: lambda seen: f"it is {seen.status}: only what has ended is run again as a new task",
    TaskVerb.EXPIRE: lambda seen: f"it is {seen.status}; only what is PENDING can expire",
}


def _wrong_company(verb: TaskVerb, seen: ExpectedState, facts: Facts) -> str | None:
    node = facts.nodes.get(seen.task_id)
    if verb is TaskVerb.REQUEUE and node is not None and node.workflow_status == WorkflowStatus.CANCELLED:
        return f"its workflow {node.workflow_name} is CANCELLED"
    if verb not in _LIVES_AGAIN or seen.unique_key is None or seen.status not in _TERMINAL:
        return None
    if holder := facts.key_holders.get(seen.unique_key):
        return f"its unique key is held by the live task {holder}"
    if twin := facts.twins.get(seen.task_id):
        return f"its unique key goes to the selected task {twin}"
    return None


def consequences(verb: TaskVerb, eligible: Sequence[ExpectedState], facts: Facts) -> tuple[str, ...]:
    """Sentences, each with the number of rows concerned."""
    return (*_about_states(verb, eligible, facts), *_about_workflows(verb, eligible, facts))


def _about_states(verb: TaskVerb, eligible: Sequence[ExpectedState], facts: Facts) -> Iterator[str]:
    states = Counter(seen.status for seen in eligible)
    running, claimed = states["RUNNING"], states["CLAIMED"]
    finalizing = sum(seen.status == "RUNNING" and seen.finalizing_at is not None for seen in eligible)
    if running and verb is TaskVerb.REQUEUE:
        yield (
            f"{running} RUNNING: taken from the worker, which is told to stop; user code starts again from the "
            "beginning, and until the first run has stopped, both go on"
        )
    elif running:
        yield f"{running} RUNNING: taken from the worker, which is told to stop; what user code has done stays done"
    if finalizing:
        yield f"{finalizing} of them ended and wait for the outcome to be stored, which will be thrown away"
    if claimed:
        yield f"{claimed} CLAIMED: taken back from the worker before user code began"
    if verb is TaskVerb.FAIL and (accepted := sum(_is_interrupted(seen.status, seen.error_code) for seen in eligible)):
        yield f"{accepted} interrupted: accepted as failed, nothing of them runs again"
    if verb is TaskVerb.REQUEUE:
        yield from _about_requeues(eligible, states, facts)
    if verb is TaskVerb.RERUN and (keeps := sum(seen.is_workflow_task for seen in eligible)):
        yield f"{keeps} from workflows: the copies stand alone, no workflow waits for them"
    if verb in (TaskVerb.FAIL, TaskVerb.CANCEL):
        code = "OPERATOR_FAILED" if verb is TaskVerb.FAIL else "TASK_CANCELLED"
        yield f"callers that wait for a result get {code}"


def _about_requeues(eligible: Sequence[ExpectedState], states: Counter[str], facts: Facts) -> Iterator[str]:
    ended = sum(states[status] for status in _TERMINAL)
    overdue = sum(
        seen.good_until is not None and seen.good_until <= facts.now and seen.status != "CLAIMED" for seen in eligible
    )
    if facts.fresh_budget:
        yield "the retries of their policy are granted anew"
    elif ended or states["RUNNING"]:
        yield "one more run each; what had not begun to run keeps its retries"
    if states["COMPLETED"]:
        yield f"{states['COMPLETED']} COMPLETED: what went well is done again, and its result is given up"
    if overdue:
        yield f"{overdue} past good_until: the deadline is dropped, or no worker would start them"


_SEEN_BY_WORKFLOW: Mapping[TaskVerb, str] = {
    TaskVerb.REQUEUE: (
        "a node that failed or was skipped waits for it again, and so do those that were skipped because of it; one"
        " that has completed keeps its outcome"
    ),
    TaskVerb.FAIL: "the node fails with OPERATOR_FAILED, and its workflow goes on from there",
    TaskVerb.CANCEL: "the node fails with TASK_CANCELLED, and its workflow goes on from there",
    TaskVerb.EXPIRE: "the node fails with TASK_EXPIRED, and its workflow goes on from there",
}


def _about_workflows(verb: TaskVerb, eligible: Sequence[ExpectedState], facts: Facts) -> Iterator[str]:
    inside = [facts.nodes[seen.task_id] for seen in eligible if seen.task_id in facts.nodes]
    left = sum(seen.is_workflow_task and seen.task_id not in facts.nodes for seen in eligible)
    if left and verb is TaskVerb.REQUEUE:
        yield f"{left} of workflows that have gone on without: no node waits for what comes of it"
    if not inside or verb not in _SEEN_BY_WORKFLOW:
        return
    names = Counter(node.workflow_name for node in {node.workflow_id: node for node in inside}.values())
    shown = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names.most_common(3))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    yield f"{len(inside)} in workflows ({shown}{more}): {_SEEN_BY_WORKFLOW[verb]}"
