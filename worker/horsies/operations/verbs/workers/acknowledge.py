"""`horsies workers acknowledge`: an operator has seen the death of a worker; no task changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.verb import WorkerVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.facts import WorkerFacts

_MOST_NAMED = 5


async def _effects(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    return [
        *(f"{worker.worker_id} {worker.unacknowledged}" for worker in workers[:_MOST_NAMED]),
        "no task changes; the worker and its crashed tasks leave the recovery report; the audit trail keeps this",
    ]


VERB = WorkerVerb(
    name="acknowledge",
    place=4,
    title="Acknowledge",
    will="will be acknowledged",
    done="acknowledged",
    help="Record that the death of workers was seen, and what failed with them; no task changes.\n\n"
    "Until then `horsies recovery ls` and the console show the tasks that each of them held and how they ended.",
    example="horsies workers acknowledge web-1:4121 --reason 'out of memory, has more now'",
    key="A",
    hint="Acknowledge its death; no task changes.",
    on_recovery=True,
    fits=lambda worker: worker.is_unacknowledged,
    wrong_state=lambda worker: f"nothing of it waits to be acknowledged; it is {worker.words}",
    effects=_effects,
    reads_losses=True,
    order=(__name__, "acknowledge"),
)
