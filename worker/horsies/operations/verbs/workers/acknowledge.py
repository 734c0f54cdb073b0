"""`horsies workers acknowledge`: record that an operator has seen the death of a worker; no task changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.operations.verb import Option, WorkerVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.facts import WorkerFacts
    from horsies.operations.verb import Options

_MAX_NAMED = 5


def _check(options: Options) -> Options:
    from horsies.domain.codec.json_text import clean_text

    return {name: clean_text(value, len(value)) for name, value in options.items()}


async def _effects(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    seen = [(worker.worker_id, worker.unacknowledged) for worker in workers if worker.unacknowledged is not None]
    others = [one for _, one in seen[_MAX_NAMED:]]
    tasks, deaths = sum(len(one.task_ids) for one in others), sum(one.loss is not None for one in others)
    counts = [counted(deaths, "death")] if deaths else []
    counts += [f"{counted(tasks, 'task')} failed as they died"] if tasks else []
    return [
        *(f"{worker_id} {one.words}" for worker_id, one in seen[:_MAX_NAMED]),
        *([f"{counted(len(others), 'more worker')}: {', '.join(counts)}"] if others else []),
        "no task changes; exactly this leaves the recovery report; the audit trail keeps it",
    ]


VERB = WorkerVerb(
    name="acknowledge",
    place=4,
    title="Acknowledge",
    will="will be acknowledged",
    done="acknowledged",
    help="Record that you have seen the death of workers and what failed with them; no task changes.\n\n"
    "Until then `horsies recovery ls` and the console show the tasks that each of them held and how they ended.",
    example="horsies workers acknowledge web-1:4121 --reason 'out of memory, has more now'",
    key="A",
    hint="Acknowledge its death; no task changes.",
    on_recovery=True,
    options=(Option("task", "Only the crashed tasks of this name; the death itself stays in the report.", "NAME"),),
    check=_check,
    no_way_back=lambda _: None,
    fits=lambda worker: worker.is_unacknowledged,
    wrong_state=lambda worker: f"it has no losses to acknowledge; it is {worker.words}",
    effects=_effects,
    reads_losses=True,
    order=(__name__, "acknowledge"),
    taken_back=(__name__, "take_acknowledgements_back"),
)
