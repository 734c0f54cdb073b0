"""The verbs for workflows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.target import RefusedError, names
from horsies.operations.verb import AppliedVerb, WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts

_MAX_AUDITED: Final = 1000
"""Maximum number of repairs, or of former tasks, in the audit row of one workflow."""
# No grace period, because the operator waits; a repair that a worker makes first is not repeated.
_GRACE_MS: Final = 0


async def _with_reopening(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reopening import CannotReopenError, Reopening

    reopening = Reopening(seen.flows, seen.nodes)
    try:
        reopening.retry(seen.flow.id)
    except CannotReopenError as problem:
        return replace(seen, problem=str(problem))
    return replace(seen, reopening=reopening)


def _effects_of_retry(seen: WorkflowFacts) -> Iterator[str]:
    if seen.reopening is None:
        return
    opened = list(seen.reopening.reopened.values())
    again = [one.node for one in opened if one.node.status == WorkflowTaskStatus.FAILED and not one.keep]
    skipped = [one.node for one in opened if one.node.status == WorkflowTaskStatus.SKIPPED]
    yield f"{seen.flow.name}: run again, with a new task, all retries and without a past deadline: {names(again)}"
    if skipped:
        yield f"{seen.flow.name}: skipped before, now wait for them: {names(skipped)}"
    yield from seen.kept(seen.reopening.reopened)
    parents = [
        flow.name
        for flow in seen.flows.values()
        if flow.id in seen.reopening.workflows and flow.depth < seen.flow.depth
    ]
    if parents:
        yield f"{seen.flow.name}: continues for its parents as well: {', '.join(parents)}"


async def _retry(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts) -> AppliedVerb:
    from horsies.lifecycle.controlling import retry_from_failed

    reopening = await retry_from_failed(conn, seen.flow.id)
    again = [one for one in reopening.reopened.values() if one.node.status == "FAILED" and not one.keep]
    # Their former tasks do not change, and no longer belong to a node.
    tasks = {one.node.node_id: one.node.task_id for one in again[:_MAX_AUDITED]}
    return AppliedVerb(f"RUNNING, {counted(len(again), 'node')} again", {"former_tasks": tasks})


_RETRY = WorkflowVerb(
    name="retry",
    title="Retry failed nodes of",
    will="will continue",
    done="retried from the failed nodes",
    help="Run failed nodes of workflows again, with the nodes skipped because of them; completed nodes are kept.",
    example="horsies workflows retry --filter 'status:failed name:order_* since:1h'",
    key="R",
    hint="Run failed nodes again, and those skipped for them.",
    footer=True,
    sources=frozenset({WorkflowStatus.RUNNING, WorkflowStatus.PAUSED, WorkflowStatus.FAILED}),
    reads=_with_reopening,
    refusal=lambda seen: seen.problem,
    effects=_effects_of_retry,
    change=_retry,
    no_way_back=lambda _: "the previous failures cannot be restored: cancel it instead",
)


def _effects_of_pause(seen: WorkflowFacts) -> Iterator[str]:
    live = Counter(node.status for node in seen.nodes_below() if node.task_id is not None)
    queued = counted(live["ENQUEUED"], "queued node keeps its place", "queued nodes keep their place")
    yield f"{seen.flow.name}: {counted(live['RUNNING'], 'running node')} may end, {queued}; nothing else starts"
    yield from seen.family("paused")


_PAUSE: WorkflowVerb = WorkflowVerb(
    name="pause",
    done="paused",
    help="Pause workflows: running nodes finish, and no new ones start, also in child workflows.",
    example="horsies workflows pause 57b650e8 --reason 'waiting for the bank file'",
    key="P",
    hint="Finish running nodes, start no new ones.",
    footer=True,
    sources=frozenset({WorkflowStatus.RUNNING}),
    refusal=lambda seen: None if _PAUSE.fits(seen.flow.status) else f"it is {seen.flow.status}, not RUNNING",
    effects=_effects_of_pause,
    inverse="resume",
)


def _effects_of_resume(seen: WorkflowFacts) -> Iterator[str]:
    waiting = sum(not node.has_ended for node in seen.nodes_below())
    yield f"{seen.flow.name}: {counted(waiting, 'node continues', 'nodes continue')}"
    if seen.flow.has_error:
        yield f"{seen.flow.name}: a node has failed, so the workflow will end FAILED; retry runs that node again"
    yield from seen.family("resumed")


_RESUME: WorkflowVerb = WorkflowVerb(
    name="resume",
    will="will continue",
    done="resumed",
    help="Resume paused workflows and their child workflows. Failed nodes stay failed.",
    example="horsies workflows resume 57b650e8",
    key="U",
    hint="Resume the workflow.",
    footer=True,
    sources=frozenset({WorkflowStatus.PAUSED}),
    refusal=lambda seen: None if _RESUME.fits(seen.flow.status) else f"it is {seen.flow.status}, not PAUSED",
    effects=_effects_of_resume,
    inverse="pause",
)


def _effects_of_cancel(seen: WorkflowFacts) -> Iterator[str]:
    live = Counter(node.status for node in seen.nodes_below())
    waiting = live["PENDING"] + live["READY"] + live["ENQUEUED"]
    running = counted(live["RUNNING"], "running node fails", "running nodes fail")
    skipped = counted(waiting, "waiting node is skipped", "waiting nodes are skipped")
    yield (
        f"{seen.flow.name}: {running} with TASK_CANCELLED, their workers are"
        f" notified to stop them, and side effects of user code remain; {skipped}"
    )
    yield from seen.family("cancelled")
    parent = seen.flows.get(seen.flow.parent_workflow_id or "")
    if parent is not None and parent.status not in WORKFLOW_TERMINAL_STATES:
        yield f"{seen.flow.name}: its parent {parent.name} continues with this node as failed"


_CANCEL: WorkflowVerb = WorkflowVerb(
    name="cancel",
    done="cancelled",
    help="Cancel workflows, with their child workflows and all their tasks.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies workflows cancel --filter 'name:month_end status:paused' --dry-run",
    key="C",
    hint="Cancel the workflow and its child workflows.",
    footer=True,
    sources=frozenset(WorkflowStatus) - WORKFLOW_TERMINAL_STATES,
    refusal=lambda seen: None if _CANCEL.fits(seen.flow.status) else f"it is already {seen.flow.status}",
    effects=_effects_of_cancel,
    no_way_back=lambda _: "its nodes have ended: rerun starts it again",
)


async def _with_repairs(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reconciling import plan_repairs
    from horsies.lifecycle.repairs import DamagedWorkflowError

    try:
        return replace(seen, repairs=await plan_repairs(conn, seen.flow.id, _GRACE_MS))
    except DamagedWorkflowError as error:
        return replace(seen, problem=error.message)


def _cannot_reconcile(seen: WorkflowFacts) -> str | None:
    if not _RECONCILE.fits(seen.flow.status):
        return f"it is {seen.flow.status}: only a RUNNING workflow can be repaired"
    return seen.problem or (None if seen.repairs else "it is consistent")


def _effects_of_reconcile(seen: WorkflowFacts) -> Iterator[str]:
    for repair in seen.repairs:
        what = "the workflow" if repair.node_id is None else repair.node_id
        then = "then " if repair.follows else ""
        yield f"{seen.flow.name}: {then}{what} {repair.before} → {repair.after}: {repair.why}"


async def _reconcile(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts) -> AppliedVerb:
    from horsies.lifecycle.reconciling import reconcile

    repairs = await reconcile(conn, seen.flow.id, _GRACE_MS)
    if not repairs:
        raise RefusedError("it is consistent now")
    made = [
        {"node": one.node_id, "from": one.before, "to": one.after, "why": one.why} for one in repairs[:_MAX_AUDITED]
    ]
    return AppliedVerb(counted(len(repairs), "repair"), {"repairs": made})


_RECONCILE = WorkflowVerb(
    name="reconcile",
    done="reconciled",
    help="Repair workflows whose nodes are inconsistent with their tasks or with each other.\n\n"
    "Lists all repairs before it makes them. Workers make the same repairs at every sweep.",
    example="horsies workflows reconcile 57b650e8 --dry-run",
    key="X",
    hint="Repair inconsistent nodes; lists each repair.",
    on_recovery=True,
    footer=True,
    sources=frozenset({WorkflowStatus.RUNNING}),
    reads=_with_repairs,
    refusal=_cannot_reconcile,
    effects=_effects_of_reconcile,
    change=_reconcile,
    no_way_back=lambda _: "a repair cannot restore the inconsistent state",
)


async def _newest_action(conn: asyncpg.Connection, workflow_id: str) -> int | None:
    newest: int | None = await conn.fetchval(statement(__name__, "workflow_last_actions"), workflow_id)
    return newest


async def _with_last_action(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    """Read the newest action: a rerun does not change the row, so only the audit shows another operator's rerun."""
    return replace(seen, last_action=await _newest_action(conn, seen.flow.id))


def _cannot_rerun(seen: WorkflowFacts) -> str | None:
    status = seen.flow.status
    return None if _RERUN.fits(status) else f"it is {status}: only an ended workflow can be started again"


def _effects_of_rerun(seen: WorkflowFacts) -> Iterator[str]:
    yield (
        f"{seen.flow.name}: starts from the beginning as a separate workflow, with the arguments it had;"
        " this one does not change, and callers that wait for it do not get the new result"
    )


async def _rerun(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts) -> AppliedVerb:
    from horsies.lifecycle.create_workflow import copy_workflow

    if await _newest_action(conn, seen.flow.id) != seen.last_action:
        raise RefusedError("an operator has acted on it since the preview")
    copy = await copy_workflow(conn, seen.flow.id)
    return AppliedVerb(f"runs again as {copy}", {"new_workflow_id": copy}, copy)


_RERUN = WorkflowVerb(
    name="rerun",
    will="will be started again",
    done="started again as new workflows",
    help="Start ended workflows again from the beginning, as new ones.",
    example="horsies workflows rerun 57b650e8",
    key="E",
    hint="Start a copy of the whole workflow.",
    sources=frozenset(WORKFLOW_TERMINAL_STATES),
    reads=_with_last_action,
    refusal=_cannot_rerun,
    effects=_effects_of_rerun,
    change=_rerun,
    no_way_back=lambda _: "the copy is a separate workflow: cancel it instead",
)

VERBS = (_RETRY, _PAUSE, _RESUME, _CANCEL, _RECONCILE, _RERUN)
