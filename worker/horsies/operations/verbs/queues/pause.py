"""`horsies queues pause`: no worker claims from the queue until it is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.operations.verb import QueueVerb

if TYPE_CHECKING:
    from horsies.operations.facts import QueueFacts


def _effect(queue: QueueFacts) -> str:
    goes_on = queue.claimed + queue.running
    return (
        f"{queue.name}: {queue.waiting} until it is resumed or their good_until passes;"
        f" {counted(goes_on, 'claimed or running continues', 'claimed or running continue')}"
    )


VERB = QueueVerb(
    name="pause",
    place=1,
    title="Pause",
    will="will be paused",
    done="paused",
    help="Stop claims from queues until they are resumed; running tasks continue.",
    example="horsies queues pause mail --reason 'the provider is migrating'",
    key="P",
    hint="Stop claims from the queue; running tasks continue.",
    footer=True,
    for_paused=False,
    effect=_effect,
    order=(__name__, "pause_queue"),
    inverse="resume",
)
