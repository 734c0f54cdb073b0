"""`horsies tasks move`: what waits goes to another queue, with its priority and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.target import OperationError
from horsies.operations.verb import NewValue, Option, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.facts import TaskFacts
    from horsies.operations.verb import Options

_LONGEST: Final = 52
"""In bytes: the channel of its notifications is `task_queue_<name>`, and PostgreSQL takes 63."""


def _check(options: Options) -> Options:
    queue = str(options.get("queue", "")).strip()
    if not queue:
        raise OperationError("no queue is given", help_text="give --queue NAME; `horsies status` lists the queues")
    if len(queue.encode()) > _LONGEST or not queue.isprintable():
        raise OperationError(
            f"{queue[:_LONGEST]!r} cannot be the name of a queue", help_text=f"a name has at most {_LONGEST} bytes"
        )
    return {"queue": queue}


def _effects(facts: TaskFacts) -> Iterator[str]:
    yield f"they wait in the queue {facts.options['queue']} then, also for a retry, each with its priority and its time"
    yield from facts.overdue()


VERB = TaskVerb(
    name="move",
    place=9,
    title="Move",
    will="will be moved",
    done="moved",
    help="Move tasks that wait to another queue.",
    example="horsies tasks move --filter 'status:pending queue:mail name:shop.newsletter' --queue bulk",
    key="M",
    hint="To another queue, what waits.",
    options=(Option("queue", "The queue where they wait from then on.", "NAME"),),
    gives=NewValue(
        "Move to which queue",
        "bulk",
        lambda text: {"queue": text},
        lambda options, _now: options["queue"],
        lambda queue: f"PENDING in {queue}",
        "queue_name",
    ),
    check=_check,
    sources=sources("move"),
    wrong_state=lambda status: f"it is {status}; only what is PENDING waits in a queue",
    refuses=(__name__, "move_refusal"),
    sets=(__name__, "move_sets"),
    past="moved",
    in_workflows="a new task of the node, after a retry of its workflow, has the queue of the definition again",
    effects=_effects,
    guards_against_others=True,
)
