"""`horsies queues resume`: continue a paused queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.operations.verb import QueueVerb

if TYPE_CHECKING:
    from horsies.operations.facts import QueueFacts


def _effect(queue: QueueFacts) -> str:
    workers = counted(queue.workers, "living worker")
    return f"{queue.name}: {queue.waiting}, {queue.due:,} of them due; served by {workers}"


VERB = QueueVerb(
    name="resume",
    place=2,
    title="Resume",
    will="will continue",
    done="resumed",
    help="Resume paused queues and notify their workers.",
    example="horsies queues resume mail",
    key="U",
    hint="Resume a paused queue or workflow.",
    footer=True,
    on_recovery=True,
    for_paused=True,
    effect=_effect,
    order=(__name__, "resume_queue"),
    inverse="pause",
)
