"""`horsies workflows cancel`: the workflow ends as CANCELLED, with all below it and all their tasks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus
from horsies.operations.verb import WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import AppliedVerb, Options


def _refusal(seen: WorkflowFacts) -> str | None:
    return None if VERB.fits(seen.flow.status) else f"it is already {seen.flow.status}"


def _effects(seen: WorkflowFacts) -> Iterator[str]:
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


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.controlling import cancel
    from horsies.operations.workflow_targets import controlled

    return await controlled(conn, seen, cancel)


VERB = WorkflowVerb(
    name="cancel",
    place=4,
    title="Cancel",
    will="will be cancelled",
    done="cancelled",
    help="Cancel workflows, with their child workflows and all their tasks.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies workflows cancel --filter 'name:month_end status:paused' --dry-run",
    key="C",
    hint="Cancel the workflow and its child workflows.",
    footer=True,
    sources=frozenset(WorkflowStatus) - WORKFLOW_TERMINAL_STATES,
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "its nodes have ended: rerun starts it again",
)
