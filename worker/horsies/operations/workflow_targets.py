"""Workflows and nodes as targets of verbs: how they are selected and read, and the change under the family's lock."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from horsies.lifecycle.advancing import FamilyLockedError, lock_families
from horsies.lifecycle.controlling import cancel, pause, resume
from horsies.lifecycle.reopening import CannotReopenError
from horsies.lifecycle.repairs import DamagedWorkflowError
from horsies.lifecycle.workflow_rows import family_of, read_flows, read_nodes
from horsies.operations.audit_rows import session_rights, write_audit, write_refusal
from horsies.operations.facts import WorkflowFacts
from horsies.operations.target import OperationError, RefusedError, RowOutcome, Target
from horsies.operations.verb import AppliedVerb, Preview, Refusal
from horsies.query import parse_workflows, workflow_conditions
from horsies.views import workflow_matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.verb import Options, WorkflowVerb

_MAX_ROWS: Final = 10_000
"""Maximum number of workflows of one operation; each is read with its whole family, in 5 ms."""
_MAX_LINES: Final = 500
_CONTROLS: Final = {"pause": pause, "resume": resume, "cancel": cancel}
WRITES: tuple[str, ...] = ("horsies_workflows", "horsies_workflow_tasks")


async def preview_of(conn: asyncpg.Connection, verb: WorkflowVerb, selection: Selection, options: Options) -> Preview:
    """Return targets of kind "workflow" (id: the workflow's, label: its name) or "node" (label: its node_id)."""
    now = (await session_rights(conn)).now
    keys, filter_text = await _selected(conn, verb, selection)
    flows = await read_flows(conn, [workflow_id for workflow_id, _ in keys])
    seen = [await _facts(conn, verb, flows[one], index) for one, index in keys if one in flows]
    if verb.requires is not None:
        options = verb.requires(seen, options)
    reasons = [(one, verb.refusal(one)) for one in seen]
    eligible = [one for one, reason in reasons if reason is None]
    gone = [one for one, _ in keys if one not in flows]
    chosen = ["--filter", filter_text] if filter_text is not None else _named(verb, selection.ids, seen)
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(_target(verb, one) for one in eligible),
        refused=(
            *(Refusal(_target(verb, one), reason) for one, reason in reasons if reason is not None),
            *(Refusal(Target("workflow", one, "?", "missing"), "no workflow has this id") for one in gone),
        ),
        consequences=(*_effects(verb, eligible), *(() if verb.warns is None else verb.warns(options))),
        filter=filter_text,
        command=verb.command(chosen, options),
        taken_at=now,
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: WorkflowVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    """Change one workflow or node. A target that is not as it was seen is refused, with an audit row."""
    (target,) = part
    seen: WorkflowFacts = target.seen
    try:
        await lock_families(conn, [seen.flow.id])
    except FamilyLockedError as error:
        return [await write_refusal(conn, action, target, str(error))]
    flow = (await read_flows(conn, [seen.flow.id])).get(seen.flow.id)
    before = None if flow is None else await _state(conn, flow)
    try:
        if flow is None:
            raise RefusedError("its row was deleted")
        if flow.status != seen.flow.status:
            raise RefusedError(f"it is {flow.status} now")
        async with conn.transaction():  # a savepoint: the audit row of a refusal stays
            done = await (_controlled(conn, verb, seen) if verb.change is None else verb.change(conn, action, seen))
    except (RefusedError, CannotReopenError) as refusal:
        return [await write_refusal(conn, action, target, str(refusal), before)]
    except DamagedWorkflowError as error:
        return [await write_refusal(conn, action, target, error.message, before)]
    now = (await read_flows(conn, [seen.flow.id]))[seen.flow.id]
    row = RowOutcome(target, applied=True, detail=done.detail, new_id=done.new_id)
    await write_audit(conn, action, [row], {target.id: (before, {**await _state(conn, now), **done.audited})})
    return [row]


async def _controlled(conn: asyncpg.Connection, verb: WorkflowVerb, seen: WorkflowFacts) -> AppliedVerb:
    if not await _CONTROLS[verb.name](conn, seen.flow.id):
        raise RefusedError(f"it is {seen.flow.status} now")
    return AppliedVerb((await read_flows(conn, [seen.flow.id]))[seen.flow.id].status)


async def _selected(
    conn: asyncpg.Connection, verb: WorkflowVerb, selection: Selection
) -> tuple[list[tuple[str, int | None]], str | None]:
    """Return the workflows, or the node by its workflow and index, and the filter in its normal form."""
    if selection.filter is not None:
        wanted = parse_workflows(selection.filter)
        ids = await workflow_matching(conn, workflow_conditions(wanted), _MAX_ROWS + 1)
        if len(ids) > _MAX_ROWS:
            raise OperationError(
                f"the filter matches more than {_MAX_ROWS:,} workflows, the maximum for one operation",
                help_text="narrow the filter, for example with since: and until:, and repeat",
            )
        return [(one, None) for one in ids], wanted.text
    if verb.kind == "workflow":
        return [(one, None) for one in selection.ids], None
    parts = [one.rpartition(":") for one in selection.ids]
    if not all(workflow_id and index.isdecimal() for workflow_id, _, index in parts):
        raise OperationError(f"{verb} takes a node", help_text="name a workflow and its node")
    return [(workflow_id, int(index)) for workflow_id, _, index in parts], None


async def _facts(
    conn: asyncpg.Connection, verb: WorkflowVerb, flow: FamilyWorkflowRow, index: int | None
) -> WorkflowFacts:
    ids = await family_of(conn, flow.root)
    flows, nodes = await read_flows(conn, {*ids, flow.id}), await read_nodes(conn, {*ids, flow.id})
    node = next((node for node in nodes[flow.id] if node.index == index), None)
    seen = WorkflowFacts(flow, flows, nodes, index, node)
    return seen if verb.reads is None else await verb.reads(conn, seen)


def _target(verb: WorkflowVerb, seen: WorkflowFacts) -> Target:
    if verb.kind == "workflow":
        return Target("workflow", seen.flow.id, seen.flow.name, seen.flow.status, seen)
    label, state = ("?", "missing") if seen.node is None else (seen.node.node_id, seen.node.status)
    return Target("node", f"{seen.flow.id}:{seen.index}", label, state, seen)


def _named(verb: WorkflowVerb, ids: Sequence[str], seen: Sequence[WorkflowFacts]) -> list[str]:
    if verb.kind == "workflow":
        return list(ids)
    named = {one.flow.id: one.node.node_id for one in seen if one.node is not None}
    parts = [one.rpartition(":") for one in ids]
    return [word for workflow_id, _, index in parts for word in (workflow_id, named.get(workflow_id, index))]


def _effects(verb: WorkflowVerb, eligible: Sequence[WorkflowFacts]) -> list[str]:
    lines = [line for seen in eligible for line in verb.effects(seen)]
    more = len(lines) - _MAX_LINES
    return lines[:_MAX_LINES] + ([f"and {more} more"] if more > 0 else [])


async def _state(conn: asyncpg.Connection, flow: FamilyWorkflowRow) -> dict[str, Any]:
    nodes = (await read_nodes(conn, [flow.id]))[flow.id]
    return {"status": flow.status, "nodes": dict(Counter(node.status for node in nodes))}
