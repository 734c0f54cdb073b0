"""One task ends and the next one starts in its place: one statement, one commit."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

from horsies.lifecycle import claiming, finishing
from horsies.lifecycle.claiming import claim_rows, claimed_tasks, request_parameters
from horsies.lifecycle.finishing import OutcomeKind, end_of, ending, finish
from horsies.store.statements import renumbered, statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.lifecycle.claim_token import Token
    from horsies.lifecycle.claiming import ClaimedTask, ClaimRequest
    from horsies.lifecycle.finishing import Finished, Outcome

_ENDS = frozenset({OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.WORKER_FAILURE})


def is_end(outcome: Outcome) -> bool:
    """Return whether the outcome ends its task: only such outcomes are stored together with a claim."""
    return outcome.kind in _ENDS


async def finish_and_claim(
    conn: asyncpg.Connection, worker_id: str, outcomes: Collection[Outcome], request: ClaimRequest
) -> tuple[dict[Token, Finished], list[ClaimedTask]]:
    """Run finish() for outcomes that end their tasks, and claim(). The claim never delays the outcomes."""
    ordered = sorted(outcomes, key=attrgetter("token.task_id"))
    rows = await conn.fetch(
        both(follows=bool(request.following), searches=request.following == []),
        worker_id,
        *request_parameters(request),
        *ending(ordered),
    )
    ended = [ordered[number - 1] for number, *_ in rows if number is not None]
    finished = {outcome.token: end_of(outcome) for outcome in ended}
    if len(ended) < len(ordered):
        finished |= await finish(conn, worker_id, [outcome for outcome in ordered if outcome.token not in finished])
    return finished, claimed_tasks(worker_id, [task for number, *task in rows if number is None])


@cache
def both(*, follows: bool, searches: bool) -> str:
    """Return the statement, made of `finish` and `claim`, whose parameters come before those of `finish`."""
    return statement(
        __name__,
        "finish_and_claim",
        ended=renumbered(statement(finishing.__name__, "ended"), by=7),
        rows=claim_rows(follows=follows),
        placed=statement(claiming.__name__, "placed"),
        take=statement(claiming.__name__, "take"),
        search=statement(__name__, "search_at_once") if searches else "",
    )
