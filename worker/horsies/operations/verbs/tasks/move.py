"""`horsies tasks move`: waiting tasks go to another queue, with their priority and their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.target import OperationError
from horsies.operations.verb import NewValue, Option, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.facts import TaskFacts
    from horsies.operations.verb import Options

_MAX_NAME_BYTES: Final = 52
"""The channel of its notifications is `task_queue_<name>`, for which PostgreSQL allows 63 bytes."""


def _check(options: Options) -> Options:
    queue = str(options.get("queue", "")).strip()
    if not queue:
        raise OperationError("--queue is missing", help_text="give --queue NAME; `horsies status` lists the queues")
    if len(queue.encode()) > _MAX_NAME_BYTES or not queue.isprintable():
        raise OperationError(
            f"{queue[:_MAX_NAME_BYTES]!r} cannot be the name of a queue",
            help_text=f"a name has at most {_MAX_NAME_BYTES} bytes",
        )
    return {"queue": queue}


def _effects(facts: TaskFacts) -> Iterator[str]:
    yield f"they will wait in the queue {facts.options['queue']}, also for a retry, each with its priority and its time"
    yield from facts.overdue()


VERB = TaskVerb(
    name="move",
    place=9,
    title="Move",
    will="will be moved",
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
    check=_check,
    sources=sources("move"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task waits in a queue",
    refuses=(__name__, "move_refusal"),
    sets=(__name__, "move_sets"),
    past="moved",
    in_workflows="a new task of the node, after a retry of its workflow, has the queue of the definition again",
    effects=_effects,
    guards_against_others=True,
)
