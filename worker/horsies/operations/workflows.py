"""Operator actions on workflows and their nodes: preview and apply."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle.reconciling import DamagedWorkflowError, plan_repairs
from horsies.lifecycle.reopening import CannotReopenError, Reopening
from horsies.lifecycle.workflow_rows import WorkflowRow, family_of, read_flows, read_nodes
from horsies.operations.audit import grants, require_writable, standing
from horsies.operations.batches import in_batches
from horsies.operations.edited import checked_value
from horsies.operations.orders import Act
from horsies.operations.preview import OperationError, Preview, Refusal, Target
from horsies.operations.workflow_acts import perform
from horsies.operations.workflow_eligibility import WorkflowFacts, WorkflowVerb, consequences, why_not
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import asyncpg

    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome, RowOutcome

__all__ = ["WorkflowSelection", "WorkflowVerb", "apply", "preview"]

# No grace, because the operator waits: nothing is repaired twice if a worker is about to do the same.
_GRACE_MS = 0


@dataclass(frozen=True, slots=True)
class WorkflowSelection:
    """Whole ids of workflows in the order given, or one node as (workflow id, index)."""

    ids: tuple[str, ...] = ()
    node: tuple[str, int] | None = None

    @classmethod
    def of_ids(cls, ids: Iterable[str]) -> WorkflowSelection:
        return cls(ids=tuple(dict.fromkeys(ids)))

    @classmethod
    def of_node(cls, workflow_id: str, index: int) -> WorkflowSelection:
        return cls(node=(workflow_id, index))


_UNJUDGED = (
    "nothing here knows the type that its task returns; from a shell, --module APP holds the value against it",
)


async def preview(
    conn: asyncpg.Connection,
    verb: WorkflowVerb,
    selection: WorkflowSelection,
    *,
    value: str | None = None,
    fits: Callable[[str, str], str | None] | None = None,
) -> Preview:
    """What the action would do. Reads only. OperationError for an action that cannot be tried with this selection.

    `value`, for `complete` only: the node's result as JSON. `fits(task name, JSON)` returns why it does not fit the
    type that the task returns, None if it does or if that is unknown; without it, the value must only be readable.
    Targets are of kind "workflow" (id: the workflow's, label: its name) or "node" (id: `<workflow id>:<index>`, label:
    its node_id). For reconciling, `consequences` has one line for each repair.
    """
    options = _options(verb, selection, value)
    now = (await standing(conn)).now
    ids = selection.ids if selection.node is None else (selection.node[0],)
    flows = await read_flows(conn, ids)
    seen = [await _look(conn, verb, flows[one], selection.node) for one in ids if one in flows]
    if fits is not None and "value" in options:
        _require_fitting(seen, options["value"], fits)
    reasons = [(one, why_not(verb, one)) for one in seen]
    eligible = [one for one, reason in reasons if reason is None]
    refused = [Refusal(_target(verb, one, selection), reason) for one, reason in reasons if reason is not None]
    refused += [_missing(one) for one in ids if one not in flows]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(_target(verb, one, selection) for one in eligible),
        refused=tuple(refused),
        consequences=consequences(verb, eligible) + (_UNJUDGED if "value" in options and fits is None else ()),
        filter=None,
        command=_command(verb, selection, seen, options),
        taken_at=now,
    )


async def apply(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Each workflow in a transaction of its own, with its audit row; one that is no longer as it was seen is refused.

    `new_id` of a row is the workflow that a rerun made. If cancelled, it ends the current one and returns what was
    done.
    """
    await require_workflows_writable(conn)
    verb = WorkflowVerb(preview.verb)
    act = Act(UUID(new_task_id()), verb, actor, reason, {}, preview.filter)

    async def step(part: Sequence[Target]) -> list[RowOutcome]:
        return [await perform(conn, act, verb, target, preview.options.get("value")) for target in part]

    return await in_batches(conn, act.operation_id, verb, preview.eligible, step, on_progress=on_progress, batch=1)


async def require_workflows_writable(conn: asyncpg.Connection) -> None:
    """OperationError if this session may not write, or not to the tables of workflows."""
    await require_writable(conn)
    if lacking := [right for (right,) in await conn.fetch(statement(__name__, "workflow_rights"))]:
        rights = ", ".join(lacking)
        raise OperationError(f"this role lacks {rights}", help_text=grants(lacking, "<this role>"))


def _options(verb: WorkflowVerb, selection: WorkflowSelection, value: str | None) -> dict[str, Any]:
    if verb.on_nodes is not (selection.node is not None):
        what = "a node" if verb.on_nodes else "whole workflows"
        raise OperationError(f"{verb} takes {what}", help_text="name a workflow, and for skip and complete its node")
    if (value is not None) is not (verb is WorkflowVerb.COMPLETE):
        needs = (
            "complete needs the value of the node" if value is None else f"a value belongs to complete, not to {verb}"
        )
        raise OperationError(needs, help_text="for example --value '{\"n\": 1}', or --value null")
    return {} if value is None else {"value": checked_value(value)}


async def _look(
    conn: asyncpg.Connection, verb: WorkflowVerb, flow: WorkflowRow, node_key: tuple[str, int] | None
) -> WorkflowFacts:
    ids = await family_of(conn, flow.root)
    flows, nodes = await read_flows(conn, {*ids, flow.id}), await read_nodes(conn, {*ids, flow.id})
    seen = WorkflowFacts(flow, flows, nodes)
    if node_key is not None:
        seen = replace(seen, node=next((node for node in nodes[flow.id] if node.index == node_key[1]), None))
    if verb is WorkflowVerb.RERUN:
        rows = await conn.fetch(statement(__name__, "workflow_last_actions"), [flow.id])
        return replace(seen, last_action=rows[0][1] if rows else None)
    if verb is WorkflowVerb.RECONCILE:
        return await _with_repairs(conn, seen)
    if verb in (WorkflowVerb.RETRY_FROM_FAILED, WorkflowVerb.COMPLETE):
        return _with_reopening(seen)
    return seen


async def _with_repairs(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    try:
        return replace(seen, repairs=await plan_repairs(conn, seen.flow.id, _GRACE_MS))
    except DamagedWorkflowError as error:
        return replace(seen, problem=error.message)


def _with_reopening(seen: WorkflowFacts) -> WorkflowFacts:
    reopening = Reopening(seen.flows, seen.nodes)
    try:
        if seen.node is None:
            reopening.retry(seen.flow.id)
        elif seen.node.has_ended:
            reopening.reopen(seen.node, "PENDING", keep=True)
    except CannotReopenError as problem:
        return replace(seen, problem=str(problem))
    return replace(seen, reopening=reopening)


def _require_fitting(seen: Iterable[WorkflowFacts], value: str, fits: Callable[[str, str], str | None]) -> None:
    for one in seen:
        if one.node is None or one.node.is_subworkflow:
            continue
        if problem := fits(one.node.task_name, value):
            raise OperationError(
                f"the value does not fit what {one.node.task_name} returns: {problem}",
                help_text="the nodes that depend on it read it as that type",
            )


def _target(verb: WorkflowVerb, seen: WorkflowFacts, selection: WorkflowSelection) -> Target:
    if selection.node is None:
        return Target("workflow", seen.flow.id, seen.flow.name, seen.flow.status, seen)
    key = f"{selection.node[0]}:{selection.node[1]}"
    if seen.node is None:
        return Target("node", key, "?", "missing", seen)
    return Target("node", key, seen.node.node_id, seen.node.status, seen)


def _missing(workflow_id: str) -> Refusal:
    return Refusal(Target("workflow", workflow_id, "?", "missing"), "no workflow has this id")


def _command(
    verb: WorkflowVerb, selection: WorkflowSelection, seen: Sequence[WorkflowFacts], options: dict[str, Any]
) -> str:
    words = ["horsies", "workflows", str(verb), *selection.ids]
    if selection.node is not None:
        workflow_id, index = selection.node
        node = seen[0].node if seen else None
        words += [workflow_id, str(index) if node is None else node.node_id]
    if "value" in options:
        words += ["--value", options["value"]]
    return shlex.join(words)
