"""`horsies workflows rerun`: a copy of the whole workflow starts from the beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.domain.states import WORKFLOW_TERMINAL_STATES
from horsies.operations.verb import AppliedVerb, WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import Options


async def _with_last_action(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    """Read the newest action: a rerun does not change the row, so only the audit shows another operator's rerun."""
    from horsies.operations.workflow_targets import newest_action

    return replace(seen, last_action=await newest_action(conn, seen.flow.id))


def _refusal(seen: WorkflowFacts) -> str | None:
    status = seen.flow.status
    return None if VERB.fits(status) else f"it is {status}: only an ended workflow can be started again"


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    yield (
        f"{seen.flow.name}: starts from the beginning as a separate workflow, with the arguments it had;"
        " this one does not change, and callers that wait for it do not get the new result"
    )


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.lifecycle.create_workflow import copy_workflow
    from horsies.operations.workflow_targets import RefusedError, newest_action

    if await newest_action(conn, seen.flow.id) != seen.last_action:
        raise RefusedError("an operator has acted on it since the preview")
    copy = await copy_workflow(conn, seen.flow.id)
    return AppliedVerb(f"runs again as {copy}", {"new_workflow_id": copy}, copy)


VERB = WorkflowVerb(
    name="rerun",
    place=6,
    title="Rerun",
    will="will be started again",
    done="started again as new workflows",
    help="Start ended workflows again from the beginning, as new ones.",
    example="horsies workflows rerun 57b650e8",
    key="E",
    hint="Start a copy of the whole workflow.",
    sources=frozenset(WORKFLOW_TERMINAL_STATES),
    reads=_with_last_action,
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "the copy is a separate workflow: cancel it instead",
)
