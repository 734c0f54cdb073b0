"""Operator actions on workers: drain, resume, recover the tasks of a dead one, and acknowledge its death."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from horsies.config.recovery import RecoveryConfig
from horsies.domain.states import TaskStatus
from horsies.lifecycle.following import follow
from horsies.lifecycle.worker_recovery import recover_worker
from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.findings.crashed import over_crashed, unacknowledged
from horsies.operations.formatting import clock, counted, span
from horsies.operations.orders import Act, begin, by_whom, command, give, looked_at, trace_refused
from horsies.operations.preview import Outcome, Preview, Refusal, RowOutcome, Target
from horsies.store.statements import statement
from horsies.views.tables import tables
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.lifecycle.worker_recovery import RecoveryResult
    from horsies.operations.actor import Actor

_SILENCE_MS = round(ALIVE_WITHIN_S * 1000)
_SNAPSHOT_MS = 5_000
_FINALIZING_MS = RecoveryConfig().finalizing_stale_threshold_ms


class WorkerVerb(StrEnum):
    RECOVER = "recover"
    DRAIN = "drain"
    RESUME = "resume"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker by its last sign of life, its tasks and its orders; in the column order of the statement."""

    worker_id: str
    snapshot_at: datetime | None
    claimed: int
    running: int
    last_sign: datetime | None
    silent_s: float | None
    draining_since: datetime | None
    ordered_by: str | None
    finalizing_ms: int
    now: datetime
    excused: bool
    """The database took no heartbeats for some of the time in which the worker was silent."""
    unacknowledged: str | None = None
    """The unacknowledged part of its death; read only for that verb."""

    @property
    def lives(self) -> bool:
        return self.silent_s is not None and (self.silent_s <= ALIVE_WITHIN_S or self.excused)

    @property
    def words(self) -> str:
        if self.silent_s is None:
            return "unknown: it has told nothing of itself and holds nothing"
        if not self.lives:
            return f"lost: no sign of life for {span(self.silent_s)}"
        if self.draining_since is not None:
            return f"draining since {clock(self.draining_since)}{by_whom(self.ordered_by)}"
        return f"alive: last sign of life {span(self.silent_s)} ago{self._excuse}"

    @property
    def _excuse(self) -> str:
        late = self.silent_s is not None and self.silent_s > ALIVE_WITHIN_S
        return ", and the database took no heartbeats meanwhile: try again in a minute" if late and self.excused else ""

    def why_not(self, verb: WorkerVerb) -> str | None:
        """None if the action may be tried."""
        drains = self.draining_since is not None
        match verb:
            case WorkerVerb.RESUME:
                return None if drains else f"it has no order to drain; {self.words}"
            case WorkerVerb.DRAIN:
                return None if self.lives and not drains else f"it is {self.words}"
            case WorkerVerb.ACKNOWLEDGE:
                return None if self.unacknowledged else f"nothing of it waits to be acknowledged; it is {self.words}"
            case WorkerVerb.RECOVER if self.lives:
                since = f"{span(self.silent_s or 0)} ago{self._excuse}"
                return f"it lives: last sign of life {since}; a dead one is silent for {_LONG}"
            case WorkerVerb.RECOVER:
                return None if self.claimed or self.running else f"it holds no task; {self.words}"


_LONG = span(ALIVE_WITHIN_S)
_MOST_TOLD = 5


async def preview(conn: asyncpg.Connection, verb: WorkerVerb, workers: Iterable[str]) -> Preview:
    """What the action would do to these workers: whole ids, or beginnings or ends of ids that fit one worker only."""
    taken_at = await looked_at(conn)
    ids, unknown = await _resolve(conn, dict.fromkeys(workers))
    standings = await _standings(conn, ids)
    if verb is WorkerVerb.ACKNOWLEDGE:
        open_ones = await unacknowledged(conn, ids) if (await tables(conn)).worker_losses else {}
        standings = [replace(one, unacknowledged=open_ones.get(one.worker_id)) for one in standings]
    eligible = [standing for standing in standings if standing.why_not(verb) is None]
    refused = [Refusal(_target(one), reason) for one in standings if (reason := one.why_not(verb)) is not None]
    return Preview(
        verb=verb,
        options={},
        eligible=tuple(_target(standing) for standing in eligible),
        refused=(*refused, *unknown),
        consequences=tuple(await _consequences(conn, verb, eligible)) if eligible else (),
        filter=None,
        command=command("worker", verb, [*ids, *(refusal.target.id for refusal in unknown)]),
        taken_at=taken_at,
    )


async def apply(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    undoes: Mapping[str, int] | None = None,
) -> Outcome:
    """Drain and resume are one statement for all; a recovery is one transaction for each worker.

    `undoes`: for each worker, the audit row that is undone.
    """
    act = await begin(conn, preview, actor, reason, undoes, table="horsies_worker_orders")
    targets = preview.eligible
    match WorkerVerb(preview.verb):
        case WorkerVerb.DRAIN:
            return await give(conn, act, statement(__name__, "order_drain"), targets, states=partial(states, conn))
        case WorkerVerb.RESUME:
            since = [target.seen.draining_since for target in targets]
            return await give(
                conn, act, statement(__name__, "order_resume"), targets, since, states=partial(states, conn)
            )
        case WorkerVerb.ACKNOWLEDGE:
            return await give(
                conn, act, over_crashed(statement(__name__, "order_acknowledge")), targets, states=partial(states, conn)
            )
        case WorkerVerb.RECOVER:
            return await _recover_all(conn, act, targets, on_progress)


async def _recover_all(
    conn: asyncpg.Connection, act: Act, targets: Sequence[Target], on_progress: Callable[[int, int], None] | None
) -> Outcome:
    rows: list[RowOutcome] = []
    for target in targets:
        row, failed = await _recover(conn, act, target)
        rows.append(row)
        await follow(conn, failed)
        if on_progress is not None:
            on_progress(len(rows), len(targets))
    return Outcome(act.operation_id, act.verb, tuple(rows))


async def _recover(conn: asyncpg.Connection, act: Act, target: Target) -> tuple[RowOutcome, list[str]]:
    """The result of the recovery of a worker, and which of its tasks have failed."""
    async with conn.transaction():
        (standing,) = await _standings(conn, [target.id])
        why_not = standing.why_not(WorkerVerb.RECOVER)
        if why_not is None:
            estate = await recover_worker(conn, target.id, silence_ms=_SILENCE_MS, finalizing_ms=standing.finalizing_ms)
            detail = _became(estate)
            if estate.freed:
                await _trace(conn, act, target, estate, detail)
                failed = [one.was.task_id for one in estate.freed if one.now is TaskStatus.FAILED]
                return RowOutcome(target, applied=True, detail=detail), failed
            why_not = detail
        await trace_refused(conn, act, [(target, why_not)])
        return RowOutcome(target, applied=False, detail=why_not), []


async def _trace(conn: asyncpg.Connection, act: Act, target: Target, estate: RecoveryResult, detail: str) -> None:
    await conn.execute(
        statement(__name__, "order_recovered"),
        act.operation_id,
        target.id,
        [one.was.task_id for one in estate.freed],
        [one.status.value for one in estate.freed],
        [one.was.claimed_at for one in estate.freed],
        [one.was.retry_count for one in estate.freed],
        detail,
        act.actor.os_user,
        act.actor.os_host,
        act.reason,
    )


def _became(estate: RecoveryResult) -> str:
    counts = {
        "back in the queue": estate.count(TaskStatus.CLAIMED, TaskStatus.PENDING),
        "to be tried again": estate.count(TaskStatus.RUNNING, TaskStatus.PENDING),
        "failed as WORKER_CRASHED": estate.count(TaskStatus.RUNNING, TaskStatus.FAILED),
        "left to the sweep (outcome about to be stored, or locked)": estate.left - len(estate.refused),
        f"not changed ({estate.refused[0].error})" if estate.refused else "": len(estate.refused),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "it holds nothing any more"


async def _standings(conn: asyncpg.Connection, ids: Sequence[str]) -> list[WorkerFacts]:
    given = ids, _FINALIZING_MS, _SILENCE_MS, _SNAPSHOT_MS
    return [WorkerFacts(*row) for row in await conn.fetch(statement(__name__, "order_standing"), *given)]


async def states(conn: asyncpg.Connection, ids: Sequence[str]) -> dict[str, str]:
    return {standing.worker_id: f"it is {standing.words}" for standing in await _standings(conn, ids)}


async def _resolve(conn: asyncpg.Connection, given: Iterable[str]) -> tuple[list[str], list[Refusal]]:
    """The matching ids, each once, and the texts that fit none or several."""
    known = [worker_id for (worker_id,) in await conn.fetch(statement(__name__, "order_known"))]
    ids: dict[str, None] = {}
    refused = []
    for text in given:
        fitting = [text] if text in known else [one for one in known if _names(one, text)]
        if len(fitting) == 1:
            ids[fitting[0]] = None
        else:
            names = ", ".join(fitting[:5]) + (", …" if len(fitting) > 5 else "")
            why = f"{len(fitting)} workers fit: {names}" if fitting else "no worker has told of itself under that id"
            refused.append(Refusal(Target("worker", text, text, "unknown"), why))
    return list(ids), refused


def _names(worker_id: str, text: str) -> bool:
    """By `host:pid`, as in lists, or by the beginning or end of its id."""
    return name_of(worker_id) == text or worker_id.startswith(text) or worker_id.endswith(text)


def _target(standing: WorkerFacts) -> Target:
    return Target("worker", standing.worker_id, name_of(standing.worker_id), standing.words, standing)


async def _consequences(conn: asyncpg.Connection, verb: WorkerVerb, workers: Sequence[WorkerFacts]) -> list[str]:
    claims, runs = sum(worker.claimed for worker in workers), sum(worker.running for worker in workers)
    claimed, running = counted(claims, "claimed task"), counted(runs, "running task")
    match verb:
        case WorkerVerb.RESUME:
            return ["claims again at once"]
        case WorkerVerb.DRAIN:
            ids = [worker.worker_id for worker in workers]
            unserved = await conn.fetch(statement(__name__, "order_unserved"), ids, ALIVE_WITHIN_S)
            return [
                f"claims nothing more; {running} may end, {claimed} go back to the queue unless they start now",
                *(f"no other worker claims from queue {queue}: what waits there stays" for (queue,) in unserved),
            ]
        case WorkerVerb.ACKNOWLEDGE:
            return [
                *(f"{worker.worker_id} {worker.unacknowledged}" for worker in workers[:_MOST_TOLD]),
                "no task changes; the worker and its crashed tasks leave the desk, and this stays in the audit trail",
            ]
        case WorkerVerb.RECOVER:
            again = "tried again where the retry policy lists WORKER_CRASHED, else failed with that code"
            return [
                *([f"{claimed}: back in the queue, user code never started"] if claims else []),
                *([f"{running}: {again}"] if runs else []),
                "a worker that was only cut off may still run their code; its outcomes are then refused",
            ]
