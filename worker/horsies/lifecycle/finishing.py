"""Stores the outcomes of RUNNING tasks, each with the row of its attempt; in the same statement it can claim others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from horsies.domain.codec.json_text import replace_surrogates
from horsies.domain.states import TaskStatus
from horsies.domain.trace import following
from horsies.lifecycle import claiming
from horsies.lifecycle.claim_token import Token, Verdict, claim_times, ids, in_order
from horsies.lifecycle.claiming import claim_rows, claimed_tasks, request_parameters
from horsies.store.statements import renumbered, statement

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import asyncpg

    from horsies.lifecycle.claiming import ClaimedTask, ClaimRequest


class OutcomeKind(Enum):
    """The first three are also the outcome stored for the attempt; the next two store an attempt that will be retried.

    NOT_BEGUN stores no attempt and uses no number: the row was RUNNING, but user code was never called.
    """

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WORKER_FAILURE = "WORKER_FAILURE"
    RETRY = "RETRY"
    INTERRUPT_REQUEUE = "INTERRUPT_REQUEUE"
    NOT_BEGUN = "NOT_BEGUN"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an execution. A RETRY carries its error too: it is the result if no further try is allowed."""

    token: Token
    kind: OutcomeKind
    result_json: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    failed_reason: str | None = None
    """The worker's reason, stored for the attempt; the task itself stores only the error's message."""
    retry_delay_s: float | None = None
    output: str | None = None
    """The last lines of output of a failed run."""
    span: str | None = None
    """The traceparent of the run, if it was traced."""
    task_options: str | None = None
    """New task options for a retry, which link it to the previous run; None to keep them."""

    def traced(self, span: str | None, task_options: str | None) -> Outcome:
        """Return the outcome with the span of the run; `task_options` are those of the row."""
        if span is None:
            return self
        linked = following(task_options, span) if self.kind is OutcomeKind.RETRY else None
        return replace(self, span=span, task_options=linked)


@dataclass(frozen=True, slots=True)
class Finished:
    """The new state of the task, None if the token is stale; `due` is when a task that is PENDING again may run."""

    verdict: Verdict
    status: TaskStatus | None = None
    due: datetime | None = None


_ATTEMPTS = {OutcomeKind.RETRY: "FAILED", OutcomeKind.INTERRUPT_REQUEUE: "WORKER_FAILURE"}
_ENDS = frozenset({OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.WORKER_FAILURE})
_NO_END = frozenset({OutcomeKind.INTERRUPT_REQUEUE, OutcomeKind.NOT_BEGUN})
_STALE = Finished(Verdict.STALE)
_COMPLETED = Finished(Verdict.ACCEPTED, TaskStatus.COMPLETED)
_FAILED = Finished(Verdict.ACCEPTED, TaskStatus.FAILED)


async def finish(conn: asyncpg.Connection, worker_id: str, outcomes: Collection[Outcome]) -> dict[Token, Finished]:
    """Store the outcomes; return one answer for each. A RETRY with no retries left, or due after good_until, fails."""
    ordered = sorted(outcomes, key=attrgetter("token.task_id"))
    finished = {outcome.token: _STALE for outcome in ordered}
    finished |= await _retry(conn, worker_id, [outcome for outcome in ordered if _runs_again(outcome)])
    if not_begun := [outcome.token for outcome in ordered if outcome.kind is OutcomeKind.NOT_BEGUN]:
        rows = await conn.fetch(statement(__name__, "unstart"), worker_id, ids(not_begun), claim_times(not_begun))
        finished |= {not_begun[number - 1]: Finished(Verdict.ACCEPTED, TaskStatus.PENDING, due) for number, due in rows}
    ending = [outcome for outcome in ordered if outcome.kind not in _NO_END and finished[outcome.token] is _STALE]
    if ending:
        rows = await conn.fetch(statement(__name__, "finish"), worker_id, *end_columns(ending))
        finished |= {ending[number - 1].token: end_of(ending[number - 1]) for (number,) in rows}
    return finished


async def stored_earlier(
    conn: asyncpg.Connection, worker_id: str, outcomes: Collection[Outcome]
) -> dict[Token, Finished]:
    """Return the outcomes that a finish stored whose reply was lost. Ask for the STALE ones of a resend.

    Tasks that were changed since are not returned, nor is NOT_BEGUN, which leaves no trace in the row.
    """
    asked = [outcome for outcome in outcomes if outcome.kind is not OutcomeKind.NOT_BEGUN]
    if not asked:
        return {}
    tokens = [outcome.token for outcome in asked]
    rows = await conn.fetch(
        statement(__name__, "stored_earlier"),
        worker_id,
        ids(tokens),
        claim_times(tokens),
        [_ATTEMPTS.get(outcome.kind, outcome.kind.value) for outcome in asked],
        [_runs_again(outcome) for outcome in asked],
        [_stored_code(outcome) for outcome in asked],
        [_storable(outcome.error_message) for outcome in asked],
    )
    return {
        tokens[number - 1]: Finished(Verdict.ACCEPTED, TaskStatus.PENDING, due)
        if will_retry
        else end_of(asked[number - 1])
        for number, will_retry, due in rows
    }


async def mark_finalizing(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> set[Token]:
    """Mark tasks that have ended but cannot be stored yet, so that sweeps leave them. Returns those not marked.

    A task is not marked if its token is stale or another session has locked the row.
    """
    marked = in_order(tokens)
    if not marked:
        return set()
    rows = await conn.fetch(statement(__name__, "mark_finalizing"), worker_id, ids(marked), claim_times(marked))
    return set(marked).difference(marked[number - 1] for (number,) in rows)


def _runs_again(outcome: Outcome) -> bool:
    return outcome.kind in (OutcomeKind.RETRY, OutcomeKind.INTERRUPT_REQUEUE)


async def _retry(conn: asyncpg.Connection, worker_id: str, outcomes: list[Outcome]) -> dict[Token, Finished]:
    if not outcomes:
        return {}
    tokens = [outcome.token for outcome in outcomes]
    rows = await conn.fetch(
        statement(__name__, "retry"),
        worker_id,
        ids(tokens),
        claim_times(tokens),
        # NULL is an interrupt, a number a retry.
        [(outcome.retry_delay_s or 0.0) if outcome.kind is OutcomeKind.RETRY else None for outcome in outcomes],
        [_storable(outcome.error_code) for outcome in outcomes],
        [_storable(outcome.error_message) for outcome in outcomes],
        [_storable(outcome.failed_reason) for outcome in outcomes],
        [_storable(outcome.output) for outcome in outcomes],
        [outcome.task_options for outcome in outcomes],
    )
    return {tokens[number - 1]: Finished(Verdict.ACCEPTED, TaskStatus.PENDING, due) for number, due in rows}


def end_columns(outcomes: list[Outcome]) -> tuple[list[Any], ...]:
    """Return the parameters of `finish` after the worker id, in the order of the task ids."""
    tokens = [outcome.token for outcome in outcomes]
    return (
        ids(tokens),
        claim_times(tokens),
        [_ATTEMPTS.get(outcome.kind, outcome.kind.value) for outcome in outcomes],
        [_storable(outcome.result_json) for outcome in outcomes],
        [_storable(outcome.error_code) for outcome in outcomes],
        [_storable(outcome.error_message) for outcome in outcomes],
        [_storable(outcome.failed_reason) for outcome in outcomes],
        [_storable(outcome.output) for outcome in outcomes],
    )


def _stored_code(outcome: Outcome) -> str | None:
    if outcome.error_code is None and outcome.kind is OutcomeKind.INTERRUPT_REQUEUE:
        return "TASK_INTERRUPTED"
    return _storable(outcome.error_code)


def end_of(outcome: Outcome) -> Finished:
    return _COMPLETED if outcome.kind is OutcomeKind.COMPLETED else _FAILED


def _storable(text: str | None) -> str | None:
    """Remove characters that PostgreSQL rejects: they would make the whole batch fail, at each attempt."""
    return None if text is None else replace_surrogates(text.replace("\0", ""))


def is_end(outcome: Outcome) -> bool:
    """Return whether the outcome ends its task: only such outcomes are stored together with a claim."""
    return outcome.kind in _ENDS


async def finish_and_claim(
    conn: asyncpg.Connection, worker_id: str, outcomes: Collection[Outcome], request: ClaimRequest
) -> tuple[dict[Token, Finished], list[ClaimedTask]]:
    """Run finish() for outcomes that end their tasks, and claim(). The claim never delays the outcomes."""
    ordered = sorted(outcomes, key=attrgetter("token.task_id"))
    rows = await conn.fetch(
        finish_and_claim_statement(follows=bool(request.following), searches=request.following == []),
        worker_id,
        *request_parameters(request),
        *end_columns(ordered),
    )
    ended = [ordered[number - 1] for number, *_ in rows if number is not None]
    finished = {outcome.token: end_of(outcome) for outcome in ended}
    if len(ended) < len(ordered):
        finished |= await finish(conn, worker_id, [outcome for outcome in ordered if outcome.token not in finished])
    return finished, claimed_tasks(worker_id, [task for number, *task in rows if number is None])


@cache
def finish_and_claim_statement(*, follows: bool, searches: bool) -> str:
    """Return the statement, made of `finish` and `claim`, whose parameters come before those of `finish`."""
    return statement(
        __name__,
        "finish_and_claim",
        ended_here=renumbered(statement(__name__, "ended"), by=7),
        rows=claim_rows(follows=follows),
        placed=statement(claiming.__name__, "placed"),
        take=statement(claiming.__name__, "take"),
        search=statement(__name__, "search_at_once") if searches else "",
    )
