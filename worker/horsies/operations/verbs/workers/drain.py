"""`horsies workers drain`: the worker claims no more tasks and finishes its running ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted
from horsies.operations.verb import WorkerVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.facts import WorkerFacts


async def _effects(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    from horsies.findings.cluster import ALIVE_WITHIN_S

    running = counted(sum(worker.running for worker in workers), "running task")
    claimed = counted(sum(worker.claimed for worker in workers), "claimed task goes", "claimed tasks go")
    ids = [worker.worker_id for worker in workers]
    unserved = await conn.fetch(statement(__name__, "drain_unserved"), ids, ALIVE_WITHIN_S)
    return [
        f"claims nothing more; {running} may end, {claimed} back to the queue unless started first",
        *(f"no other worker serves queue {queue}: its tasks stay there" for (queue,) in unserved),
    ]


VERB = WorkerVerb(
    name="drain",
    place=1,
    title="Drain",
    will="will drain",
    done="told to drain",
    help="Stop workers from claiming and let their running tasks finish, for example before a deploy.",
    example="horsies workers drain web-1:4121 --reason 'kernel update'",
    key="D",
    hint="Finish running tasks, claim no more.",
    footer=True,
    fits=lambda worker: worker.lives and not worker.drains,
    wrong_state=lambda worker: f"it is {worker.words}",
    effects=_effects,
    order=(__name__, "drain"),
    inverse="resume",
)
