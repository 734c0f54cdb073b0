"""`horsies workflows retry`: failed nodes run again, and nodes skipped because of them wait for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.operations.verb import AppliedVerb, WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import Options


async def _with_reopening(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reopening import CannotReopenError, Reopening

    reopening = Reopening(seen.flows, seen.nodes)
    try:
        reopening.retry(seen.flow.id)
    except CannotReopenError as problem:
        return replace(seen, problem=str(problem))
    return replace(seen, reopening=reopening)


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    from horsies.operations.facts import names

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


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.controlling import retry_from_failed
    from horsies.operations.workflow_targets import MOST_AUDITED

    reopening = await retry_from_failed(conn, seen.flow.id)
    again = [one for one in reopening.reopened.values() if one.node.status == "FAILED" and not one.keep]
    # Their former tasks do not change, and no longer belong to a node.
    tasks = {one.node.node_id: one.node.task_id for one in again[:MOST_AUDITED]}
    return AppliedVerb(f"RUNNING, {counted(len(again), 'node')} again", {"former_tasks": tasks})


VERB = WorkflowVerb(
    name="retry",
    place=1,
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
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "the previous failures cannot be restored: cancel it instead",
)
