"""Workflows and nodes as targets of verbs: how they are selected and read, and the change under the family's lock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.lifecycle.advancing import FamilyLockedError, lock_families
from horsies.lifecycle.reconciling import DamagedWorkflowError
from horsies.lifecycle.reopening import CannotReopenError
from horsies.lifecycle.workflow_rows import family_of, read_flows, read_nodes
from horsies.operations.audit import refused, require_writable, standing, trace
from horsies.operations.formatting import counted
from horsies.operations.preview import OperationError, Preview, Refusal, RowOutcome, Target
from horsies.query import parse_workflows, workflow_parameters
from horsies.store.statements import statement
from horsies.views import workflow_matching

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    import asyncpg

    from horsies.lifecycle.reopening import Reopening
    from horsies.lifecycle.repairs import Repair
    from horsies.lifecycle.workflow_rows import NodeRow, WorkflowRow
    from horsies.operations.audit import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.verb import Options, WorkflowVerb

MOST_TOLD: Final = 1000
"""Repairs, or former tasks, that the audit row of one workflow lists."""
_MOST: Final = 10_000
"""Each is read with its whole family: 5 ms."""
_MOST_LINES = 500
_NAMED = 5
TERMINAL: Final = frozenset(str(status) for status in WORKFLOW_TERMINAL_STATES)
_RAN = frozenset({WorkflowTaskStatus.COMPLETED, WorkflowTaskStatus.RUNNING, WorkflowTaskStatus.ENQUEUED})
"""These run, or are about to, with the arguments that they were given."""


class RefusedError(Exception):
    """The rows are not as they were seen."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a verb for one workflow. `told` goes into the audit's state after."""

    detail: str
    told: Mapping[str, Any] = field(default_factory=dict)
    new_id: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """A workflow as the operator saw it, with its family."""

    flow: WorkflowRow
    flows: Mapping[str, WorkflowRow] = field(default_factory=dict)
    nodes: Mapping[str, Sequence[NodeRow]] = field(default_factory=dict)
    index: int | None = None
    node: NodeRow | None = None
    """The target node of a verb for nodes; None if the workflow has none of this index."""
    last_action: int | None = None
    """The newest audit row of an action on it; read only if the verb does not change the row."""
    repairs: tuple[Repair, ...] = ()
    reopening: Reopening | None = None
    problem: str | None = None
    """Why repairs cannot be listed, or nothing can be reopened."""

    def below(self) -> list[str]:
        """This workflow and all below it."""
        ids = [self.flow.id]
        for flow in self.flows.values():  # parents come first
            if flow.parent_workflow_id in ids:
                ids.append(flow.id)
        return ids

    def nodes_below(self) -> list[NodeRow]:
        """All open nodes of this workflow and those below it."""
        return [node for one in self.below() if self.flows[one].status not in TERMINAL for node in self.nodes[one]]

    def stopped(self) -> Iterator[str]:
        """What becomes of the running code of the node."""
        node = self.node
        if node is None or node.has_ended:
            return
        if node.sub_workflow_id is not None:
            yield f"{node.node_id}: its child workflow is cancelled, with all that is below"
        elif node.task_status == "RUNNING":
            taken = "its task is taken from the worker, which is told to stop"
            yield f"{node.node_id}: {taken}; what it has done stays done"
        elif node.task_status is not None:
            yield f"{node.node_id}: its task is cancelled before it starts"

    def still_paused(self) -> Iterator[str]:
        if self.flow.status == WorkflowStatus.PAUSED:
            yield f"{self.flow.name} stays PAUSED: nothing goes on before it is resumed"

    def family(self, what: str) -> Iterator[str]:
        """That its living children are changed as well."""
        alive = [one for one in self.below()[1:] if self.flows[one].status not in TERMINAL]
        if alive:
            yield f"{self.flow.name}: {counted(len(alive), 'child workflow')} below are {what} as well"

    def kept(self, opened: Collection[tuple[str, int]]) -> Iterator[str]:
        """Completed nodes are kept, even if computed from a failure that may now be replaced by a value."""
        kept = [
            node
            for workflow_id in sorted({workflow_id for workflow_id, _ in opened})
            for node in self.nodes[workflow_id]
            if node.status in _RAN and any((workflow_id, index) in opened for index in node.dependencies)
        ]
        if kept:
            yield (
                f"{self.flow.name}: ran before with the failure as their input, or without it, and stay as they are:"
                f" {names(kept)}; only rerun, as a new workflow, computes them anew"
            )


async def require(conn: asyncpg.Connection) -> None:
    await require_writable(conn, "horsies_workflows", "horsies_workflow_tasks")


def batch_of(verb: WorkflowVerb, targets: Sequence[Target]) -> int:
    """Each in a transaction of its own: the locks of a family are held for one workflow only."""
    return 1


async def look(conn: asyncpg.Connection, verb: WorkflowVerb, selection: Selection, options: Options) -> Preview:
    """Targets are of kind "workflow" (id: the workflow's, label: its name) or "node" (label: its node_id)."""
    now = (await standing(conn)).now
    keys, filter_text = await _selected(conn, verb, selection)
    flows = await read_flows(conn, [workflow_id for workflow_id, _ in keys])
    seen = [await _facts(conn, verb, flows[one], index) for one, index in keys if one in flows]
    if verb.requires is not None:
        verb.requires(seen, options)
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
    conn: asyncpg.Connection,
    action: OperatorAction,
    verb: WorkflowVerb,
    part: Sequence[Target],
    options: Options,
    ended: list[str],
) -> list[RowOutcome]:
    return [await _change(conn, action, verb, target, options) for target in part]


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, verb: WorkflowVerb, target: Target, options: Options
) -> RowOutcome:
    """In the caller's transaction. A target that is not as it was seen is refused, and the audit records that."""
    seen: WorkflowFacts = target.seen
    try:
        await lock_families(conn, [seen.flow.id])
    except FamilyLockedError as error:
        return await refused(conn, action, target, str(error))
    flow = (await read_flows(conn, [seen.flow.id])).get(seen.flow.id)
    before = None if flow is None else await _state(conn, flow)
    try:
        if flow is None:
            raise RefusedError("it is gone: its row was deleted")
        if flow.status != seen.flow.status:
            raise RefusedError(f"it is {flow.status} now")
        async with conn.transaction():  # a savepoint: the audit row of a refusal stays
            done = await verb.change(conn, action, seen, options)
    except (RefusedError, CannotReopenError) as refusal:
        return await refused(conn, action, target, str(refusal), before)
    except DamagedWorkflowError as error:
        return await refused(conn, action, target, error.message, before)
    now = (await read_flows(conn, [seen.flow.id]))[seen.flow.id]
    row = RowOutcome(target, applied=True, detail=done.detail, new_id=done.new_id)
    await trace(conn, action, [row], {target.id: (before, {**await _state(conn, now), **done.told})})
    return row


async def controlled(
    conn: asyncpg.Connection, seen: WorkflowFacts, control: Callable[[asyncpg.Connection, str], Any]
) -> Done:
    """The result of a function of `lifecycle.controlling`."""
    if not await control(conn, seen.flow.id):
        raise RefusedError(f"it is {seen.flow.status} now")
    return Done((await read_flows(conn, [seen.flow.id]))[seen.flow.id].status)


async def decided(
    conn: asyncpg.Connection,
    seen: WorkflowFacts,
    status: WorkflowTaskStatus,
    decide: Callable[[NodeRow], Awaitable[bool]],
    told: Mapping[str, Any],
) -> Done:
    """The result of a function that gives the node this status, if the node is still as it was seen."""
    was = seen.node
    now = next(
        (node for node in (await read_nodes(conn, [seen.flow.id]))[seen.flow.id] if node.index == seen.index), None
    )
    if now is None or was is None:
        raise RefusedError("it is gone: its row was deleted")
    if (now.status, now.task_id, now.sub_workflow_id) != (was.status, was.task_id, was.sub_workflow_id):
        raise RefusedError(f"it is {now.status} now")
    if not await decide(now):
        raise RefusedError("its task has just ended")
    paused = "; its workflow stays PAUSED until it is resumed" if seen.flow.status == WorkflowStatus.PAUSED else ""
    after = {"node": now.node_id, "node_before": now.status, "node_after": status.value, "task": now.task_id, **told}
    return Done(f"{status.value}{paused}", after)


async def newest_action(conn: asyncpg.Connection, workflow_id: str) -> int | None:
    newest: int | None = await conn.fetchval(statement(__name__, "workflow_last_actions"), workflow_id)
    return newest


async def _selected(
    conn: asyncpg.Connection, verb: WorkflowVerb, selection: Selection
) -> tuple[list[tuple[str, int | None]], str | None]:
    """The workflows, or the one node by its workflow and index; and the filter in its normal form."""
    if selection.filter is not None:
        wanted = parse_workflows(selection.filter)
        ids = await workflow_matching(conn, workflow_parameters(wanted), _MOST + 1)
        if len(ids) > _MOST:
            raise OperationError(
                f"the filter matches more than {_MOST:,} workflows, which is the most for one operation",
                help_text="narrow it, for example with since: and until:, and repeat",
            )
        return [(one, None) for one in ids], wanted.text
    if verb.kind == "workflow":
        return [(one, None) for one in selection.ids], None
    parts = [one.rpartition(":") for one in selection.ids]
    if not all(workflow_id and index.isdecimal() for workflow_id, _, index in parts):
        raise OperationError(f"{verb} takes a node", help_text="name a workflow and its node")
    return [(workflow_id, int(index)) for workflow_id, _, index in parts], None


async def _facts(conn: asyncpg.Connection, verb: WorkflowVerb, flow: WorkflowRow, index: int | None) -> WorkflowFacts:
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
    more = len(lines) - _MOST_LINES
    return lines[:_MOST_LINES] + ([f"and {more} more"] if more > 0 else [])


async def _state(conn: asyncpg.Connection, flow: WorkflowRow) -> dict[str, Any]:
    nodes = (await read_nodes(conn, [flow.id]))[flow.id]
    return {"status": flow.status, "nodes": dict(Counter(node.status for node in nodes))}


def names(nodes: Sequence[NodeRow]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(node.node_id for node in nodes[:_NAMED]) + more
