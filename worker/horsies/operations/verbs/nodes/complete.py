"""`horsies workflows complete`: a node ends as COMPLETED, with a value in place of what its code would return."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.target import OperationError
from horsies.operations.verb import TYPES, Option, WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.edited import TypedValues
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import AppliedVerb, Options

_WAITS = frozenset({WorkflowTaskStatus.PENDING, WorkflowTaskStatus.READY})
_MAX_AUDITED = 65_536


def _check(options: Options) -> Options:
    from horsies.operations.edited import checked_value

    if "value" not in options:
        raise OperationError(
            "complete needs a value for the node", help_text="for example --value '{\"n\": 1}', or --value null"
        )
    return {**options, "value": checked_value(options["value"])}


def _requires(targets: Sequence[WorkflowFacts], options: Options) -> Options:
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


def _warns(options: Options) -> tuple[str, ...]:
    if TYPES in options:
        return ()
    return (
        "the return type of its task is not known here, so the value is stored as written; "
        "`horsies workflows complete --module APP` checks and converts it",
    )


async def _reads(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reopening import CannotReopenError, Reopening
    from horsies.store.statements import statement

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


def _refusal(seen: WorkflowFacts) -> str | None:
    node = seen.node
    if node is None:
        return "it has no node with this index"
    if seen.flow.status not in WORKFLOW_TERMINAL_STATES and not node.has_ended:
        return None
    return "it is already COMPLETED" if node.status == WorkflowTaskStatus.COMPLETED else seen.problem


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    from horsies.operations.facts import names

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


async def _change(
    conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options
) -> AppliedVerb:
    from horsies.domain import tags
    from horsies.lifecycle.controlling import complete_node
    from horsies.operations.workflow_targets import decided

    value, words = options["value"], action.words("completed")
    result = f'{{"{tags.TASK_RESULT}":true,"ok":{value},"err":null}}'
    return await decided(
        conn,
        seen,
        WorkflowTaskStatus.COMPLETED,
        lambda node: complete_node(conn, node.workflow_id, node.index, result, words),
        {} if len(value) > _MAX_AUDITED else {"value": value},
    )


VERB = WorkflowVerb(
    kind="node",
    name="complete",
    place=8,
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
    check=_check,
    requires=_requires,
    warns=_warns,
    sources=frozenset(WorkflowStatus),
    reads=_reads,
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "later nodes may have used its value already",
)
