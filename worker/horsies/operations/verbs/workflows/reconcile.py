"""`horsies workflows reconcile`: repairs nodes that are inconsistent with their tasks or with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.domain.states import WorkflowStatus
from horsies.operations.verb import AppliedVerb, WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import Options

# No grace period, because the operator waits; a repair that a worker makes first is not repeated.
_GRACE_MS = 0


async def _with_repairs(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reconciling import DamagedWorkflowError, plan_repairs

    try:
        return replace(seen, repairs=await plan_repairs(conn, seen.flow.id, _GRACE_MS))
    except DamagedWorkflowError as error:
        return replace(seen, problem=error.message)


def _refusal(seen: WorkflowFacts) -> str | None:
    if not VERB.fits(seen.flow.status):
        return f"it is {seen.flow.status}: only a RUNNING workflow can be repaired"
    return seen.problem or (None if seen.repairs else "it is consistent")


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    """Return one line per repair."""
    for repair in seen.repairs:
        what = "the workflow" if repair.node_id is None else repair.node_id
        then = "then " if repair.follows else ""
        yield f"{seen.flow.name}: {then}{what} {repair.before} → {repair.after}: {repair.why}"


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.reconciling import reconcile
    from horsies.operations.workflow_targets import MOST_AUDITED, RefusedError

    repairs = await reconcile(conn, seen.flow.id, _GRACE_MS)
    if not repairs:
        raise RefusedError("it is consistent now")
    made = [
        {"node": one.node_id, "from": one.before, "to": one.after, "why": one.why} for one in repairs[:MOST_AUDITED]
    ]
    return AppliedVerb(counted(len(repairs), "repair"), {"repairs": made})


VERB = WorkflowVerb(
    name="reconcile",
    place=5,
    title="Reconcile",
    will="will be reconciled",
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
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "a repair cannot restore the inconsistent state",
)
