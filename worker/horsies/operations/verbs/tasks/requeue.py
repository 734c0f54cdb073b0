"""`horsies tasks requeue`: run the task again, in its own row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.verb import TERMINAL, Option, TaskVerb, sources
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.operations.facts import TaskFacts
    from horsies.operations.target import AuditedAction
    from horsies.operations.verb import Options
    from horsies.views.tasks import ExpectedState


async def _budgets(
    conn: asyncpg.Connection, seen: Sequence[ExpectedState], options: Options
) -> tuple[list[int] | None]:
    """Return the retries of each task's policy, if they are granted again."""
    from horsies.operations.reruns import policy_retries

    if not options.get("fresh_budget"):
        return (None,)
    rows = await conn.fetch(statement(__name__, "requeue_options"), [one.task_id for one in seen])
    stored = {row[0]: row[1] for row in rows}
    return ([policy_retries(stored.get(one.task_id)) for one in seen],)


def _effects(facts: TaskFacts) -> Iterator[str]:
    if facts.options.get("fresh_budget"):
        yield "they get all retries of their policy again"
    elif facts.count("RUNNING", *TERMINAL):
        yield "runs once more; tasks that never started keep their retries"
    if completed := facts.count("COMPLETED"):
        yield f"{completed} COMPLETED: they run again although they succeeded, and their results are deleted"
    overdue = sum(
        one.good_until is not None and one.good_until <= facts.now and one.status != "CLAIMED" for one in facts.tasks
    )
    if overdue:
        yield f"{overdue} past the deadline, which is removed so that workers start them"


def _no_way_back(action: AuditedAction) -> str | None:
    if action.status == "RUNNING":
        return "its run was taken from its worker, and that attempt has ended"
    return "a claim cannot be returned to a worker" if action.status == "CLAIMED" else None


VERB = TaskVerb(
    name="requeue",
    place=1,
    title="Requeue",
    will="will be requeued",
    done="requeued",
    help="Run tasks again: ended, claimed or running ones.\n\n"
    "A RUNNING task is taken from its worker, which stops it; until then, user code may run twice at the same time.",
    example="horsies tasks requeue --filter 'error:RATE_LIMITED since:1h' --reason 'the limit was raised'",
    key="R",
    hint="Run it again.",
    footer=True,
    options=(Option("fresh_budget", "Grant all retries of its policy again, not only one run."),),
    sources=sources("requeue"),
    wrong_state=lambda status: f"it is already {status}; retry-now makes it due",
    refuses=(__name__, "requeue_refusal"),
    sets=(__name__, "requeue_sets"),
    values=_budgets,
    attempt_code="OPERATOR_REQUEUED",
    past="requeued",
    takes="user code starts again from the beginning, and until the first run has stopped, both run",
    in_workflows="a node that failed or was skipped waits for it again, and so do those that were skipped because of "
    "it; one that has completed keeps its outcome",
    effects=_effects,
    reopens_nodes=True,
    no_way_back=_no_way_back,
)
