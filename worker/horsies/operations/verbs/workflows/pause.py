"""`horsies workflows pause`: running nodes finish, and no new ones start."""

from __future__ import annotations

from collections import Counter
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
    return None if VERB.fits(seen.flow.status) else f"it is {seen.flow.status}, not RUNNING"


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    live = Counter(node.status for node in seen.nodes_below() if node.task_id is not None)
    queued = counted(live["ENQUEUED"], "queued node keeps its place", "queued nodes keep their place")
    yield (f"{seen.flow.name}: {counted(live['RUNNING'], 'running node')} may end, {queued}; nothing else starts")
    yield from seen.family("paused")


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.controlling import pause
    from horsies.operations.workflow_targets import controlled

    return await controlled(conn, seen, pause)


VERB = WorkflowVerb(
    name="pause",
    place=2,
    title="Pause",
    will="will be paused",
    done="paused",
    help="Pause workflows: running nodes finish, and no new ones start, also in child workflows.",
    example="horsies workflows pause 57b650e8 --reason 'waiting for the bank file'",
    key="P",
    hint="Finish running nodes, start no new ones.",
    footer=True,
    sources=frozenset({WorkflowStatus.RUNNING}),
    refusal=_refusal,
    effects=_effects,
    change=_change,
    inverse="resume",
)
