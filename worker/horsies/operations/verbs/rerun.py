"""`horsies tasks rerun`: a copy is sent as a new task; the original keeps its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.operations.verb import TERMINAL, TYPES, Option, TaskVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.operations.edited import TypedValues
    from horsies.operations.facts import TaskFacts
    from horsies.operations.target import ArgumentChange, AuditedAction
    from horsies.operations.verb import Options
    from horsies.views.tasks import ExpectedState


def _check(options: Options) -> Options:
    from horsies.operations.edited import Arguments, checked

    edited = checked(Arguments(options.get("args"), options.get("kwargs")))
    return {**options, **{name: getattr(edited, name) for name in options.keys() - {TYPES}}}


async def _requires(conn: asyncpg.Connection, seen: Sequence[ExpectedState], options: Options) -> Options:
    """Return edited arguments as the application would store them; without it, plain JSON for objects is refused."""
    from horsies.operations.edited import Arguments, refuse_untyped

    types: TypedValues | None = options.get(TYPES)
    rest = {name: value for name, value in options.items() if name != TYPES}
    if not rest or not seen:
        return rest
    row = await conn.fetchrow(statement(__name__, "rerun_arguments"), seen[0].task_id)
    edited = Arguments(rest.get("args"), rest.get("kwargs"))
    original = Arguments() if row is None else Arguments(row["args"], row["kwargs"])
    typed = None if types is None else types.arguments(seen[0].task_name, edited, original)
    if typed is None:
        refuse_untyped(edited, original)
        return rest
    return {name: getattr(typed, name) for name in rest}


async def _copies(conn: asyncpg.Connection, seen: Sequence[ExpectedState], options: Options) -> tuple[Any, ...]:
    """Return for each original the values of its copy. The originals stay locked until the copies are stored."""
    from horsies.operations.edited import Arguments, copy_of

    rows = await conn.fetch(statement(__name__, "rerun_sources"), [one.task_id for one in seen])
    sources = {row["id"]: row for row in rows}
    edited = Arguments(options.get("args"), options.get("kwargs"))
    return tuple(map(list, zip(*(copy_of(sources.get(one.task_id), edited) for one in seen), strict=True)))


async def _changes(conn: asyncpg.Connection, seen: ExpectedState, options: Options) -> tuple[ArgumentChange, ...]:
    from horsies.operations.edited import Arguments, changes

    row = await conn.fetchrow(statement(__name__, "rerun_arguments"), seen.task_id)
    return () if row is None else tuple(changes(Arguments(*row), Arguments(options.get("args"), options.get("kwargs"))))


def _effects(facts: TaskFacts) -> Iterator[str]:
    if keeps := sum(one.is_workflow_task for one in facts.tasks):
        yield f"{keeps} from workflows: the copies belong to no workflow, and none waits for them"


def _no_way_back(action: AuditedAction) -> str:
    return f"the copy is a separate task: cancel {action.new_id or 'it'} instead"


RERUN = TaskVerb(
    name="rerun",
    will="will be sent again",
    done="sent again as new tasks",
    help="Send ended tasks again as new tasks; the old ones keep their outcome.\n\n"
    "`--args` and `--kwargs` replace the arguments of one task; an omitted one keeps its value. With `--module`, or "
    "HORSIES_MODULE, plain JSON becomes values of the types that the task takes, or is refused.",
    example="""horsies tasks rerun 1cd6ba9a --kwargs '{"dry_run": true}'""",
    key="E",
    hint="Send a copy; its arguments are edited first.",
    label="edit & rerun",
    options=(
        Option("args", 'New arguments: `[7, "eu"]`.', "JSON"),
        Option("kwargs", 'New named arguments: `{"dry_run": true}`.', "JSON"),
    ),
    typed=True,
    check=_check,
    requires=_requires,
    single=frozenset({"args", "kwargs"}),
    changes=_changes,
    sources=TERMINAL,
    wrong_state=lambda status: f"it is {status}: only an ended task can be sent again",
    refuses=(__name__, "rerun_refusal"),
    statement=(__name__, "rerun_change"),
    values=_copies,
    effects=_effects,
    guards_against_others=True,
    # The arguments pass through this process, so a batch must fit into its memory, even at 1 MB each.
    batch=100,
    no_way_back=_no_way_back,
)
