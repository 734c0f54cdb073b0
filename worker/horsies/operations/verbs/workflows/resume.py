"""`horsies workflows resume`: continue a paused workflow. Failed nodes stay failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.domain.states import WorkflowStatus
from horsies.operations.verb import WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import AppliedVerb, Options


def _refusal(seen: WorkflowFacts) -> str | None:
    return None if VERB.fits(seen.flow.status) else f"it is {seen.flow.status}, not PAUSED"


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    waiting = sum(not node.has_ended for node in seen.nodes_below())
    yield f"{seen.flow.name}: {counted(waiting, 'node continues', 'nodes continue')}"
    if seen.flow.has_error:
        yield f"{seen.flow.name}: a node has failed, so the workflow will end FAILED; retry runs that node again"
    yield from seen.family("resumed")


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.controlling import resume
    from horsies.operations.workflow_targets import controlled

    return await controlled(conn, seen, resume)


VERB = WorkflowVerb(
    name="resume",
    place=3,
    title="Resume",
    will="will continue",
    done="resumed",
    help="Resume paused workflows and their child workflows. Failed nodes stay failed.",
    example="horsies workflows resume 57b650e8",
    key="U",
    hint="Resume the workflow.",
    footer=True,
    sources=frozenset({WorkflowStatus.PAUSED}),
    refusal=_refusal,
    effects=_effects,
    change=_change,
    inverse="pause",
)
