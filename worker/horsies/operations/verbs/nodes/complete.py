"""`horsies workflows complete`: a node ends as COMPLETED, with a value in place of what its code would return."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.target import OperationError
from horsies.operations.verb import Option, WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.operations.audit import OperatorAction
    from horsies.operations.facts import WorkflowFacts
    from horsies.operations.verb import Done, Options

_WAITS = frozenset({WorkflowTaskStatus.PENDING, WorkflowTaskStatus.READY})
_LONGEST_AUDITED = 65_536


def _check(options: Options) -> Options:
    from horsies.operations.edited import checked_value

    if "value" not in options:
        raise OperationError(
            "complete needs the value of the node", help_text="for example --value '{\"n\": 1}', or --value null"
        )
    return {**options, "value": checked_value(options["value"])}


def _requires(targets: Sequence[WorkflowFacts], options: Options) -> None:
    """The value must fit what the task returns, if the application is there to say so."""
    fits = options.get("fits")
    for node in (seen.node for seen in targets):
        if fits is None or node is None or node.is_subworkflow:
            continue
        if problem := fits(node.task_name, options["value"]):
            raise OperationError(
                f"the value does not fit what {node.task_name} returns: {problem}",
                help_text="the nodes that depend on it read it as that type",
            )


def _warns(options: Options) -> tuple[str, ...]:
    if "fits" in options:
        return ()
    return ("the type that its task returns is not known here; `horsies workflows complete --module APP` checks it",)


async def _with_reopening(conn: asyncpg.Connection, seen: WorkflowFacts) -> WorkflowFacts:
    from horsies.lifecycle.reopening import CannotReopenError, Reopening

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
        return "no node of it has this index"
    if seen.flow.status not in WORKFLOW_TERMINAL_STATES and not node.has_ended:
        return None
    return "it is COMPLETED already" if node.status == WorkflowTaskStatus.COMPLETED else seen.problem


def _effects(seen: WorkflowFacts) -> Iterator[str]:
    from horsies.operations.facts import names

    yield from seen.stopped()
    opened = {} if seen.reopening is None else seen.reopening.reopened
    after = [one for one in seen.nodes[seen.flow.id] if seen.index in one.dependencies]
    waiting = [one for one in after if one.status in _WAITS or (one.workflow_id, one.index) in opened]
    if waiting:
        yield f"{names(waiting)}: may go on with this value"
    yield from seen.kept(opened)
    if seen.flow.status in WORKFLOW_TERMINAL_STATES:
        yield f"{seen.flow.name} is {seen.flow.status} and RUNNING again, with what was skipped after this node"
    yield from seen.still_paused()


async def _change(conn: asyncpg.Connection, action: OperatorAction, seen: WorkflowFacts, options: Options) -> Done:
    from horsies.domain import tags
    from horsies.lifecycle.controlling import complete_node
    from horsies.operations.workflows import decided

    value, words = options["value"], action.words("completed")
    result = f'{{"{tags.TASK_RESULT}":true,"ok":{value},"err":null}}'
    return await decided(
        conn,
        seen,
        WorkflowTaskStatus.COMPLETED,
        lambda node: complete_node(conn, node.workflow_id, node.index, result, words),
        {} if len(value) > _LONGEST_AUDITED else {"value": value},
    )


VERB = WorkflowVerb(
    kind="node",
    name="complete",
    place=8,
    title="Complete by hand",
    will="will be completed",
    done="completed by hand",
    help="Complete a node by hand, with a value in place of what its code would return.\n\n"
    "With `--module` the application is imported, and the value must fit the type that the task returns; without it, "
    "the value must only be JSON that can be read.",
    example="""horsies workflows complete 57b650e8 import_eu --value '{"rows": 12}'""",
    key="O",
    hint="Give this node its result by hand.",
    options=(
        Option("value", 'What it returns instead of its code: `{"rows": 12}`.', "JSON", "null"),
        Option("fits", "Where the application is: `shop.tasks:app`.", "MODULE", flags=("--module", "-m")),
    ),
    check=_check,
    requires=_requires,
    warns=_warns,
    sources=frozenset(WorkflowStatus),
    reads=_with_reopening,
    refusal=_refusal,
    effects=_effects,
    change=_change,
    no_way_back=lambda _: "what follows may have its value already",
)
