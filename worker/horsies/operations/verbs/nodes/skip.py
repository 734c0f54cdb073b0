"""`horsies workflows skip`: a node ends as SKIPPED, and the nodes that wait for it follow their joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.verb import WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import AppliedVerb, Options


def _refusal(seen: WorkflowFacts) -> str | None:
    node = seen.node
    if node is None:
        return "it has no node with this index"
    if seen.flow.status not in WORKFLOW_TERMINAL_STATES and not node.has_ended:
        return None
    way_out = "; retry runs it again, complete gives it a value" if node.status == WorkflowTaskStatus.FAILED else ""
    return f"it is already {node.status}{way_out}"


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    from horsies.operations.facts import names

    yield from seen.stopped()
    after = [one for one in seen.nodes[seen.flow.id] if seen.index in one.dependencies and not one.has_ended]
    if after:
        yield f"{names(after)}: follow their joins, as after a skipped dependency"
    yield from seen.still_paused()


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.controlling import skip_node
    from horsies.operations.workflow_targets import decided

    words = action.words("skipped")
    return await decided(
        conn,
        seen,
        WorkflowTaskStatus.SKIPPED,
        lambda node: skip_node(conn, node.workflow_id, node.index, words),
        {},
    )


VERB = WorkflowVerb(
    kind="node",
    name="skip",
    place=7,
    title="Skip",
    will="will be skipped",
    done="left out",
    help="Skip a node; nodes that wait for it follow their joins.",
    example="horsies workflows skip 57b650e8 invoice",
    key="S",
    hint="Skip this node; nodes that wait for it continue.",
    sources=frozenset(WorkflowStatus),
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "later nodes have continued without it; complete gives it a value",
)
