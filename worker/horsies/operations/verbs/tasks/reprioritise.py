"""`horsies tasks reprioritise`: waiting tasks are claimed earlier or later among the tasks of their queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.target import OperationError
from horsies.operations.verb import NewValue, Option, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.facts import TaskFacts
    from horsies.operations.verb import Options

_FIRST: Final = 1
_LAST: Final = 100


def _check(options: Options) -> Options:
    text = str(options.get("priority", "")).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and _FIRST <= int(text) <= _LAST):
        raise OperationError(
            f"{text!r} is not a priority" if text else "--priority is missing",
            help_text=f"give a number from {_FIRST} (claimed first) to {_LAST}",
        )
    return {"priority": str(int(text))}


def _effects(facts: TaskFacts) -> Iterator[str]:
    yield f"priority {facts.options['priority']}: it orders the tasks of one queue, {_FIRST} is claimed first"
    yield from facts.overdue()


VERB = TaskVerb(
    name="reprioritise",
    place=8,
    title="Reprioritise",
    will="will be reprioritised",
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
    check=_check,
    sources=sources("reprioritise"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task has a place in its queue",
    refuses=(__name__, "reprioritise_refusal"),
    sets=(__name__, "reprioritise_sets"),
    past="reprioritised",
    in_workflows="a new task of the node, after a retry of its workflow, has the priority of the definition again",
    effects=_effects,
    guards_against_others=True,
)
