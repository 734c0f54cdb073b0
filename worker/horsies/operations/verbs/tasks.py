"""The verbs for tasks, with their parts of the statement that changes tasks; `rerun` makes copies by one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.codes import EXPIRED_MESSAGE, OutcomeCode
from horsies.domain.quantities import clock, span
from horsies.domain.states import TaskStatus
from horsies.operations.target import OperationError
from horsies.operations.verb import RUN_WAS_TAKEN, TERMINAL, VALUE, Ending, NewValue, Option, TaskVerb, sources
from horsies.operations.verbs.rerun import RERUN
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.facts import TaskFacts
    from horsies.operations.target import AuditedAction
    from horsies.operations.verb import Options
    from horsies.views.tasks import ExpectedState

_FIRST_PRIORITY: Final = 1
_LAST_PRIORITY: Final = 100
_MAX_QUEUE_BYTES: Final = 52
"""The channel of its notifications is `task_queue_<name>`, for which PostgreSQL allows 63 bytes."""


# Run again.


async def _budgets(
    conn: asyncpg.Connection, seen: Sequence[ExpectedState], options: Options
) -> tuple[list[int] | None]:
    """Return the retries of each task's policy, if they are granted again."""
    from horsies.operations.edited import policy_retries

    if not options.get("fresh_budget"):
        return (None,)
    rows = await conn.fetch(statement(__name__, "requeue_options"), [one.task_id for one in seen])
    stored = {row[0]: row[1] for row in rows}
    return ([policy_retries(stored.get(one.task_id)) for one in seen],)


def _effects_of_requeue(facts: TaskFacts) -> Iterator[str]:
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


def _requeue_has_no_way_back(action: AuditedAction) -> str | None:
    return {"RUNNING": RUN_WAS_TAKEN, "CLAIMED": "a claim cannot be returned to a worker"}.get(action.status or "")


_REQUEUE = TaskVerb(
    name="requeue",
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
    takes="user code starts again from the beginning, and until the first run has stopped, both run",
    in_workflows="a node that failed or was skipped waits for it again, and so do those that were skipped because of "
    "it; one that has completed keeps its outcome",
    effects=_effects_of_requeue,
    reopens_nodes=True,
    no_way_back=_requeue_has_no_way_back,
)


def _not_only_claimed(status: str) -> str:
    if status == "RUNNING":
        return "it is RUNNING, not only claimed; requeue takes it from its worker"
    return f"it is {status}; no worker has claimed it"


_RELEASE = TaskVerb(
    name="release",
    done="released",
    help="Return claimed tasks that have not started to their queue.",
    example="horsies tasks release --filter 'status:claimed worker:web-1:4121'",
    key="L",
    hint="Return a claimed task to its queue.",
    sources=sources("release") & {"CLAIMED"},
    wrong_state=_not_only_claimed,
    sets=(__name__, "release_sets"),
    no_way_back=lambda _: "a claim cannot be returned to a worker",
)

# End without a run.


def _effects_of_fail(facts: TaskFacts) -> Iterator[str]:
    if interrupted := facts.count("FAILED"):
        yield f"{interrupted} interrupted: accepted as failed, they do not run again"
    yield "callers that wait for a result get OPERATOR_FAILED"


_FAIL = TaskVerb(
    name="fail",
    done="failed",
    help="Mark waiting, claimed or running tasks as FAILED, with OPERATOR_FAILED.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies tasks fail 1cd6ba9a --reason 'the customer is gone'",
    key="F",
    hint="Mark as FAILED.",
    footer=True,
    sources=sources("fail"),
    wrong_state=lambda status: f"it is already {status}",
    ends=Ending(TaskStatus.FAILED, "OPERATOR_FAILED"),
    attempt_code="OPERATOR_FAILED",
    in_workflows="the node fails with OPERATOR_FAILED, and its workflow continues from there",
    effects=_effects_of_fail,
)
_CANCEL = TaskVerb(
    name="cancel",
    done="cancelled",
    help="Cancel waiting, claimed or running tasks.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies tasks cancel --filter 'queue:mail status:pending' --dry-run",
    key="C",
    hint="Cancel the task.",
    footer=True,
    sources=sources("cancel"),
    wrong_state=lambda status: f"it is already {status}",
    ends=Ending(TaskStatus.CANCELLED, OutcomeCode.TASK_CANCELLED),
    attempt_code="OPERATOR_CANCELLED",
    in_workflows="the node fails with TASK_CANCELLED, and its workflow continues from there",
    effects=lambda _: ("callers that wait for a result get TASK_CANCELLED",),
)
_EXPIRE = TaskVerb(
    name="expire",
    done="expired",
    help="End waiting tasks whose `good_until` has passed, as the next sweep would.",
    example="horsies tasks expire --filter 'status:pending queue:mail'",
    key="K",
    hint="Expire tasks past their good_until.",
    on_recovery=True,
    sources=sources("expire"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task can expire",
    refuses=(__name__, "expire_refusal"),
    ends=Ending(TaskStatus.EXPIRED, OutcomeCode.TASK_EXPIRED, EXPIRED_MESSAGE),
    in_workflows="the node fails with TASK_EXPIRED, and its workflow continues from there",
    no_way_back=lambda _: "its good_until has passed: requeue it to run it anyway",
)

# Wait otherwise: at another time, in another place.

_RETRY_NOW = TaskVerb(
    name="retry-now",
    will="will be due now",
    done="made due now",
    help="Make tasks due now that wait for a retry or for their time.",
    example="horsies tasks retry-now --filter 'status:retry error:GATEWAY_DOWN'",
    key="T",
    hint="Skip the wait before the next attempt.",
    sources=sources("retry-now"),
    wrong_state=lambda status: f"it is {status}; it does not wait for a time",
    refuses=(__name__, "retry_now_refusal"),
    sets=(__name__, "retry_now_sets"),
    became="PENDING, due now",
)


def _check_priority(options: Options) -> Options:
    text = str(options.get("priority", "")).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and _FIRST_PRIORITY <= int(text) <= _LAST_PRIORITY):
        raise OperationError(
            f"{text!r} is not a priority" if text else "--priority is missing",
            help_text=f"give a number from {_FIRST_PRIORITY} (claimed first) to {_LAST_PRIORITY}",
        )
    return {"priority": str(int(text))}


_REPRIORITISE = TaskVerb(
    name="reprioritise",
    done="reprioritised",
    help="Change the priority of waiting tasks: 1 is claimed first, 100 last.",
    example="horsies tasks reprioritise --filter 'status:pending name:shop.invoice' --priority 5",
    key="I",
    hint="Change the priority of waiting tasks.",
    label="priority",
    options=(Option("priority", "The new priority, from 1 (first) to 100 (last).", "N"),),
    gives=NewValue(
        "New priority (1 first, 100 last)",
        "5",
        lambda text: {"priority": text},
        lambda options, _now: int(options["priority"]),
        lambda priority: f"PENDING, priority {priority}",
        "priority",
    ),
    check=_check_priority,
    sources=sources("reprioritise"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task has a place in its queue",
    refuses=(__name__, "reprioritise_refusal"),
    sets=(__name__, "reprioritise_sets"),
    in_workflows="a new task of the node, after a retry of its workflow, has the priority of the definition again",
    effects=lambda facts: (
        f"priority {facts.options['priority']}: it orders the tasks of one queue, {_FIRST_PRIORITY} is claimed first",
        *facts.overdue(),
    ),
    guards_against_others=True,
)


def _check_queue(options: Options) -> Options:
    queue = str(options.get("queue", "")).strip()
    if not queue:
        raise OperationError("--queue is missing", help_text="give --queue NAME; `horsies status` lists the queues")
    if len(queue.encode()) > _MAX_QUEUE_BYTES or not queue.isprintable():
        raise OperationError(
            f"{queue[:_MAX_QUEUE_BYTES]!r} cannot be the name of a queue",
            help_text=f"a name has at most {_MAX_QUEUE_BYTES} bytes",
        )
    return {"queue": queue}


_MOVE = TaskVerb(
    name="move",
    done="moved",
    help="Move waiting tasks to another queue.",
    example="horsies tasks move --filter 'status:pending queue:mail name:shop.newsletter' --queue bulk",
    key="M",
    hint="Move waiting tasks to another queue.",
    options=(Option("queue", "The queue to move them to.", "NAME"),),
    gives=NewValue(
        "Queue to move to",
        "bulk",
        lambda text: {"queue": text},
        lambda options, _now: options["queue"],
        lambda queue: f"PENDING in {queue}",
        "queue_name",
    ),
    check=_check_queue,
    sources=sources("move"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task waits in a queue",
    refuses=(__name__, "move_refusal"),
    sets=(__name__, "move_sets"),
    in_workflows="a new task of the node, after a retry of its workflow, has the queue of the definition again",
    effects=lambda facts: (
        f"they will wait in the queue {facts.options['queue']}, also for a retry, each with its priority and its time",
        *facts.overdue(),
    ),
    guards_against_others=True,
)


def _check_time(options: Options) -> Options:
    if len(options) != 1:
        raise OperationError(
            "no time is given" if not options else "more than one time is given",
            help_text="give one of --at 2026-11-20T03:00 (UTC), --in 10m and --now",
        )
    return options


def _read_time(text: str) -> Options:
    text = text.strip()
    if text.lower() == "now":
        return {"now": True}
    # A duration has no colon and no hyphen; `in` may stand before it.
    return {"at": text} if ":" in text or "-" in text else {"delay": text.removeprefix("in ").strip()}


def _due(options: Options, now: datetime) -> datetime | None:
    """Return when the tasks are due; None for now."""
    from horsies.query.values import read_ahead, read_delay

    try:
        if "delay" in options:
            return read_delay(options["delay"], now)
        return read_ahead(options["at"], now) if "at" in options else None
    except ValueError as error:
        raise OperationError(str(error), help_text="--at 2026-11-20T03:00 (UTC), --in 10m, or --now") from error


def _became_due(due: datetime | None) -> str:
    return "PENDING, due now" if due is None else f"PENDING, due {clock(due)}"


def _effects_of_reschedule(facts: TaskFacts) -> Iterator[str]:
    due: datetime | None = facts.options[VALUE]
    if due is None:
        yield "due now: workers with room claim them in the order of their queue"
    else:
        yield f"due {clock(due)}, in {span((due - facts.now).total_seconds())}; none starts earlier"


_RESCHEDULE = TaskVerb(
    name="reschedule",
    done="rescheduled",
    help="Change when waiting tasks are due, including those that wait for a retry.",
    example="horsies tasks reschedule --filter 'status:pending name:shop.report' --at 2026-11-20T03:00",
    key="B",
    hint="Change when waiting tasks start.",
    label="due time",
    options=(
        Option(
            "at", "The time, in UTC unless it names a zone; `03:00` is today or tomorrow, whichever is next.", "TIME"
        ),
        Option("delay", "Delay from the preview: `10m`, `1h30m`.", "DURATION", flags=("--in",)),
        Option("now", "At once."),
    ),
    gives=NewValue("Due when", "now, in 10m, 03:00 or 2026-11-20T03:00 (UTC)", _read_time, _due, _became_due, "due"),
    check=_check_time,
    sources=sources("reschedule"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task waits for a time",
    refuses=(__name__, "reschedule_refusal"),
    sets=(__name__, "reschedule_sets"),
    in_workflows="a paused workflow keeps its tasks waiting whatever their time is",
    effects=_effects_of_reschedule,
    guards_against_others=True,
)

VERBS = (_REQUEUE, _FAIL, _CANCEL, _RETRY_NOW, _RELEASE, RERUN, _EXPIRE, _REPRIORITISE, _MOVE, _RESCHEDULE)
"""In the order of lists and keys."""
