"""The verbs for single nodes of workflows: each ends its node in place of the node's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from horsies.domain import tags
from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.target import OperationError, RefusedError, names
from horsies.operations.verb import TYPES, AppliedVerb, Option, WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    import asyncpg

    from horsies.lifecycle.workflow_rows import NodeRow
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.edited import TypedValues
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import Options

_WAITS: Final = frozenset({WorkflowTaskStatus.PENDING, WorkflowTaskStatus.READY})
_MAX_AUDITED: Final = 65_536


async def _decided(
    conn: asyncpg.Connection,
    seen: WorkflowFacts,
    status: WorkflowTaskStatus,
    decide: Callable[[NodeRow], Awaitable[bool]],
    audited: Mapping[str, Any],
) -> AppliedVerb:
    """Return the result of a function that gives the node this status, unless it has changed since the preview."""
    from horsies.lifecycle.workflow_rows import read_nodes

    was = seen.node
    now = next(
        (node for node in (await read_nodes(conn, [seen.flow.id]))[seen.flow.id] if node.index == seen.index), None
    )
    if now is None or was is None:
        raise RefusedError("its row was deleted")
    if (now.status, now.task_id, now.sub_workflow_id) != (was.status, was.task_id, was.sub_workflow_id):
        raise RefusedError(f"it is {now.status} now")
    if not await decide(now):
        raise RefusedError("its task has just ended")
    paused = "; its workflow stays PAUSED until it is resumed" if seen.flow.status == WorkflowStatus.PAUSED else ""
    after = {"node": now.node_id, "node_before": now.status, "node_after": status.value, "task": now.task_id, **audited}
    return AppliedVerb(f"{status.value}{paused}", after)


def _is_open(seen: WorkflowFacts) -> bool:
    return seen.flow.status not in WORKFLOW_TERMINAL_STATES and seen.node is not None and not seen.node.has_ended


def _cannot_skip(seen: WorkflowFacts) -> str | None:
    if seen.node is None:
        return "it has no node with this index"
    if _is_open(seen):
        return None
    failed = seen.node.status == WorkflowTaskStatus.FAILED
    return f"it is already {seen.node.status}{'; retry runs it again, complete gives it a value' if failed else ''}"


def _effects_of_skip(seen: WorkflowFacts) -> Iterator[str]:
    yield from seen.stopped()
    after = [one for one in seen.nodes[seen.flow.id] if seen.index in one.dependencies and not one.has_ended]
    if after:
        yield f"{names(after)}: follow their joins, as after a skipped dependency"
    yield from seen.still_paused()


async def _skip(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts) -> AppliedVerb:
    from horsies.lifecycle.controlling import skip_node

    words = action.words("skipped")
    return await _decided(
        conn,
        seen,
        WorkflowTaskStatus.SKIPPED,
        lambda node: skip_node(conn, node.workflow_id, node.index, words),
        {},
    )


_SKIP = WorkflowVerb(
    kind="node",
    name="skip",
    will="will be skipped",
    done="left out",
    help="Skip a node; nodes that wait for it follow their joins.",
    example="horsies workflows skip 57b650e8 invoice",
    key="S",
    hint="Skip this node; nodes that wait for it continue.",
    sources=frozenset(WorkflowStatus),
    refusal=_cannot_skip,
    effects=_effects_of_skip,
    change=_skip,
    no_way_back=lambda _: "later nodes have continued without it; complete gives it a value",
)


def _check_value(options: Options) -> Options:
    from horsies.operations.edited import checked_value

    if "value" not in options:
        raise OperationError(
            "complete needs a value for the node", help_text="for example --value '{\"n\": 1}', or --value null"
        )
    return {**options, "value": checked_value(options["value"])}


def _with_typed_value(targets: Sequence[WorkflowFacts], options: Options) -> Options:
    """Return the value as its task would store it, if the application is known."""
    types: TypedValues | None = options.get(TYPES)
    rest = {name: value for name, value in options.items() if name != TYPES}
    for seen in targets:
        if types is None or seen.node is None:
            continue
        if (value := types.result(seen.node.task_name, seen.definition_key, options["value"])) is None:
            return rest
        return {**options, "value": value}
    return rest


def _warns_of_untyped_value(options: Options) -> tuple[str, ...]:
    if TYPES in options:
        return ()
    return (
        "the return type of its task is not known here, so the value is stored as written; "
        "`horsies workflows complete --module APP` checks and converts it",
    )


async def _with_nodes_to_reopen(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reopening import CannotReopenError, Reopening

    if seen.node is not None and seen.node.is_subworkflow:
        key = await conn.fetchval(statement(__name__, "definition_of_node"), seen.flow.id, seen.index)
        seen = replace(seen, definition_key=key)
    reopening = Reopening(seen.flows, seen.nodes)
    try:
        if seen.node is not None and seen.node.has_ended:
            reopening.reopen(seen.node, "PENDING", keep=True)
    except CannotReopenError as problem:
        return replace(seen, problem=str(problem))
    return replace(seen, reopening=reopening)


def _cannot_complete(seen: WorkflowFacts) -> str | None:
    if seen.node is None:
        return "it has no node with this index"
    if _is_open(seen):
        return None
    return "it is already COMPLETED" if seen.node.status == WorkflowTaskStatus.COMPLETED else seen.problem


def _effects_of_complete(seen: WorkflowFacts) -> Iterator[str]:
    yield from seen.stopped()
    opened = {} if seen.reopening is None else seen.reopening.reopened
    after = [one for one in seen.nodes[seen.flow.id] if seen.index in one.dependencies]
    waiting = [one for one in after if one.status in _WAITS or (one.workflow_id, one.index) in opened]
    if waiting:
        yield f"{names(waiting)}: may continue with this value"
    yield from seen.kept(opened)
    if seen.flow.status in WORKFLOW_TERMINAL_STATES:
        yield f"{seen.flow.name} is {seen.flow.status} and will be RUNNING again, with the nodes skipped after this one"
    yield from seen.still_paused()


async def _complete(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts) -> AppliedVerb:
    from horsies.lifecycle.controlling import complete_node

    value, words = action.options["value"], action.words("completed")
    result = f'{{"{tags.TASK_RESULT}":true,"ok":{value},"err":null}}'
    return await _decided(
        conn,
        seen,
        WorkflowTaskStatus.COMPLETED,
        lambda node: complete_node(conn, node.workflow_id, node.index, result, words),
        {} if len(value) > _MAX_AUDITED else {"value": value},
    )


_COMPLETE = WorkflowVerb(
    kind="node",
    name="complete",
    title="Complete by hand",
    will="will be completed",
    done="completed by hand",
    help="Complete a node by hand, with a value in place of what its code would return.\n\n"
    "With `--module`, or HORSIES_MODULE, the application is imported: plain JSON becomes a value of the type that the "
    "task returns, or is refused. Without it, the value is stored as written.",
    example="""horsies workflows complete 57b650e8 import_eu --value '{"rows": 12}'""",
    key="O",
    hint="Complete this node with a value.",
    options=(Option("value", 'The value to store as its result: `{"rows": 12}`.', "JSON", "null"),),
    typed=True,
    check=_check_value,
    requires=_with_typed_value,
    warns=_warns_of_untyped_value,
    sources=frozenset(WorkflowStatus),
    reads=_with_nodes_to_reopen,
    refusal=_cannot_complete,
    effects=_effects_of_complete,
    change=_complete,
    no_way_back=lambda _: "later nodes may have used its value already",
)

VERBS = (_SKIP, _COMPLETE)
