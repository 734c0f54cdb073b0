"""`horsies workers resume`: a draining worker claims again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.verb import WorkerVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.facts import WorkerFacts


async def _effects(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    return ["claims again immediately"]


VERB = WorkerVerb(
    name="resume",
    place=2,
    title="Resume",
    will="will continue",
    done="resumed",
    help="Let draining workers claim again.",
    example="horsies workers resume web-1:4121",
    key="U",
    hint="Let it claim again.",
    fits=lambda worker: worker.drains,
    wrong_state=lambda worker: f"it has no order to drain; {worker.words}",
    effects=_effects,
    order=(__name__, "resume_worker"),
    guarded=True,
    inverse="drain",
)
