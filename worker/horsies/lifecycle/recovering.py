"""Claims and runs without recent beats are requeued or counted as crashed; overdue PENDING tasks expire."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from horsies.domain.codec import dump_task_result, with_retries_spent
from horsies.domain.codes import EXPIRED_MESSAGE, OperationalErrorCode, OutcomeCode
from horsies.domain.retry import RETRIES_SPENT, GiveUp, RetryAt, RetryRule, decide_retry
from horsies.domain.states import TaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.advancing import follow
from horsies.store.isolate_bad_rows import RejectedItem, batches_of, isolate_bad_rows
from horsies.store.pulse import read_pulse, write_pulse
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from random import Random

    import asyncpg

    from horsies.config.recovery import RecoveryConfig

# Bounds the memory of a pass; further rows are left to the next pass.
_MAX_AT_ONCE = 20_000
# Rows of a batch stay locked until its commit: 200 crashed tasks take 14 ms (10 000 in 0.72 s, the scan included).
BATCH = 200
_MAX_REPORTED = 20
_SILENT_MS = 5_000  # as idle_in_transaction_session_timeout of our sessions
# The default of RecoveryConfig, for callers that pass only a threshold.
BEAT_MS = 30_000

_rng = random.Random()  # noqa: S311 - jitter


@dataclass(frozen=True, slots=True)
class StaleClaim:
    """A claim without recent beats, with the token of the row if it is complete."""

    task_id: str
    worker_id: str | None
    claimed_at: datetime | None


@dataclass(frozen=True, slots=True)
class StaleRun:
    """An execution without recent beats. Times are the database's.

    The fields are in the column order of `stale_runs` and of `order_holds`.
    """

    task_id: str
    worker_id: str | None
    claimed_at: datetime | None
    retry_count: int
    max_retries: int
    task_options: str | None
    good_until: datetime | None
    started_at: datetime
    worker_pid: int | None
    worker_hostname: str | None
    last_beat: datetime | None
    """The newest beat of this execution; beats of an earlier attempt do not count."""
    detected_at: datetime


@dataclass(frozen=True, slots=True)
class Crash:
    """The consequence of a crash: a new try after `delay_s`, or FAILED with `result_json`."""

    delay_s: float | None
    result_json: str
    message: str


@dataclass(frozen=True, slots=True)
class CrashedRun:
    """A run that a sweep has counted as crashed, in the column order of its statement; `retry_at`: it runs again."""

    task_id: str
    task_name: str
    queue_name: str
    attempt: int
    retry_at: datetime | None
    message: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """Counts of the transitions. `refused`: ids that the database would not change, and why."""

    requeued: int = 0
    retried: int = 0
    failed: int = 0
    expired: int = 0
    refused: tuple[RejectedItem[str], ...] = ()
    crashes: tuple[CrashedRun, ...] = field(default=(), compare=False)
    """The number of crashed tasks, retried or failed."""

    def __add__(self, other: Recovered) -> Recovered:
        return Recovered(
            self.requeued + other.requeued,
            self.retried + other.retried,
            self.failed + other.failed,
            self.expired + other.expired,
            self.refused + other.refused,
            self.crashes + other.crashes,
        )

    @property
    def changed(self) -> int:
        return self.requeued + self.retried + self.failed + self.expired

    def report(self) -> dict[str, Any]:
        """Return the report for horsies_sweep_state; it lists only the first of many refused rows."""
        return {
            "requeued": self.requeued,
            "retried": self.retried,
            "failed": self.failed,
            "expired": self.expired,
            "refused": len(self.refused),
            "refused_tasks": [{"id": one.item, "error": one.error} for one in self.refused[:_MAX_REPORTED]],
        }


async def recover(conn: asyncpg.Connection, config: RecoveryConfig) -> Recovered:
    """One pass over everything that `config` enables.

    Concurrent passes are safe and share the work: each statement checks its rows again and skips locked ones.
    """
    done = Recovered()
    if config.auto_requeue_stale_claimed:
        done += await requeue_stale_claims(
            conn, threshold_ms=config.claimed_stale_threshold_ms, beat_ms=config.claimer_heartbeat_interval_ms
        )
    if config.auto_fail_stale_running:
        done += await recover_stale_runs(
            conn,
            threshold_ms=config.running_stale_threshold_ms,
            finalizing_ms=config.finalizing_stale_threshold_ms,
            beat_ms=config.runner_heartbeat_interval_ms,
        )
    return done + await expire_pending(conn)


@dataclass(frozen=True, slots=True)
class SilentRows:
    """Rows without a heartbeat that a sweep has spared, `until` a time if no worker could store heartbeats."""

    status: str
    count: int
    threshold_ms: int
    until: datetime | None

    def words(self) -> str:
        silent = f"{self.count} {self.status} without a heartbeat for {self.threshold_ms / 1000:g} s"
        if self.until is None:
            return (
                f"left {silent}: their worker has its own longer threshold, or another session has locked them;"
                " spare=False goes by the given threshold alone"
            )
        return (
            f"spared {silent} until {self.until:%Y-%m-%d %H:%M:%SZ}: workers could not store heartbeats, or none was"
            " running, and live workers have until then to beat again; repeat the call then, or pass spare=False if"
            " their workers are dead"
        )


async def sweep_once(
    conn: asyncpg.Connection, config: RecoveryConfig, status: Literal["RUNNING", "CLAIMED"], *, spare: bool
) -> tuple[Recovered, SilentRows | None]:
    """Sweep runs or claims for a caller that may be the only one. Without `spare`, silence alone counts as a death."""
    if spare:
        await write_pulse(conn, config, 1.0, lives=False)
    left = 0
    if status == "RUNNING":
        threshold_ms, finalizing_ms = config.running_stale_threshold_ms, config.finalizing_stale_threshold_ms
        beat_ms = config.runner_heartbeat_interval_ms if spare else None
        done = await recover_stale_runs(conn, threshold_ms=threshold_ms, finalizing_ms=finalizing_ms, beat_ms=beat_ms)
        if spare:
            left = len((await stale_runs(conn, threshold_ms, finalizing_ms, None))[0])
    else:
        threshold_ms = config.claimed_stale_threshold_ms
        beat_ms = config.claimer_heartbeat_interval_ms if spare else None
        done = await requeue_stale_claims(conn, threshold_ms=threshold_ms, beat_ms=beat_ms)
        if spare:
            left = len(await conn.fetch(statement(__name__, "stale_claims"), threshold_ms, None, _MAX_AT_ONCE))
    if beat_ms is None or not left:
        return done, None
    pulse = await read_pulse(conn, threshold_ms, beat_ms)
    return done, SilentRows(status, left, threshold_ms, None if pulse is None else pulse.spared_until)


async def count_due(conn: asyncpg.Connection, config: RecoveryConfig) -> dict[str, int]:
    """Count the tasks that `recover` would change now, with the same scans. Reads only."""
    claims, runs = 0, 0
    if config.auto_requeue_stale_claimed:
        limits = config.claimed_stale_threshold_ms, config.claimer_heartbeat_interval_ms
        claims = len(await conn.fetch(statement(__name__, "stale_claims"), *limits, _MAX_AT_ONCE))
    if config.auto_fail_stale_running:
        thresholds = config.running_stale_threshold_ms, config.finalizing_stale_threshold_ms
        beat_ms = config.runner_heartbeat_interval_ms
        runs = len((await stale_runs(conn, *thresholds, beat_ms))[0])
    overdue = len(await conn.fetch(statement(__name__, "overdue_tasks"), _MAX_AT_ONCE))
    return {"stale_claims": claims, "stale_runs": runs, "overdue": overdue}


async def requeue_stale_claims(
    conn: asyncpg.Connection, *, threshold_ms: int, beat_ms: int | None = BEAT_MS
) -> Recovered:
    """Set claims without a recent beat back to PENDING: their user code was never called.

    Time in which no worker could beat does not count, unless there is no interval of beats; see horsies_silent_before
    in `pulse` of the schema.
    """
    rows = await conn.fetch(statement(__name__, "stale_claims"), threshold_ms, beat_ms, _MAX_AT_ONCE)

    async def requeue(claims: Sequence[StaleClaim]) -> int:
        return len(await conn.fetch(statement(__name__, "sweep_claims"), *_tokens(claims), threshold_ms, beat_ms))

    done = await isolate_bad_rows(batches_of([StaleClaim(*row) for row in rows], BATCH), requeue)
    refused = tuple(RejectedItem(one.item.task_id, one.error) for one in done.refused)
    return Recovered(requeued=sum(done.answers), refused=refused)


async def recover_stale_runs(
    conn: asyncpg.Connection,
    *,
    threshold_ms: int,
    finalizing_ms: int,
    beat_ms: int | None = BEAT_MS,
    rng: Random = _rng,
) -> Recovered:
    """Retry runs without a recent beat if the policy lists WORKER_CRASHED; otherwise set them to FAILED.

    A task whose user code has ended and whose outcome is about to be stored is left until that mark is old too. Time in
    which no worker could beat does not count; see horsies_silent_before in `pulse` of the schema.
    """
    found, unreadable = await stale_runs(conn, threshold_ms, finalizing_ms, beat_ms)

    async def take(runs: Sequence[StaleRun]) -> list[CrashedRun]:
        recovered = await _sweep_runs(conn, runs, threshold_ms, finalizing_ms, beat_ms, rng)
        return [CrashedRun(task_id, *columns) for task_id, _again, *columns in recovered]

    done = await isolate_bad_rows(batches_of(found, BATCH), take)
    taken = [one for answer in done.answers for one in answer]
    failed = [one.task_id for one in taken if one.retry_at is None]
    refused = (*unreadable, *(RejectedItem(one.item.task_id, one.error) for one in done.refused))
    refused += await follow(conn, failed)
    retried = len(taken) - len(failed)
    return Recovered(retried=retried, failed=len(failed), refused=refused, crashes=tuple(taken))


async def stale_runs(
    conn: asyncpg.Connection, threshold_ms: int, finalizing_ms: int, beat_ms: int | None
) -> tuple[list[StaleRun], tuple[RejectedItem[str], ...]]:
    """Read the runs that a sweep would count as crashed. If a worker's snapshot makes the scan fail, skip its runs."""
    workers = [worker for (worker,) in await conn.fetch(statement(__name__, "running_workers"))]

    async def scan(some: Sequence[str]) -> list[StaleRun]:
        limits = threshold_ms, finalizing_ms, beat_ms, _MAX_AT_ONCE
        return [StaleRun(*row) for row in await conn.fetch(statement(__name__, "stale_runs"), *limits, some)]

    done = await isolate_bad_rows([workers], scan)
    refused = tuple(RejectedItem(f"all runs of {one.item}", one.error) for one in done.refused)
    return [run for answer in done.answers for run in answer], refused


async def end_silent_sessions(conn: asyncpg.Connection, silent_ms: int = _SILENT_MS) -> list[str]:
    """End horsies sessions that hold locks while their process is stopped within a statement; returns their names."""
    return [name for (name,) in await conn.fetch(statement(__name__, "end_silent_sessions"), silent_ms)]


async def expire_pending(conn: asyncpg.Connection) -> Recovered:
    """Set PENDING tasks past their good_until to EXPIRED, without an attempt."""
    overdue = [task_id for (task_id,) in await conn.fetch(statement(__name__, "overdue_tasks"), _MAX_AT_ONCE)]

    async def expire(ids: Sequence[str]) -> list[str]:
        rows = await conn.fetch(statement(__name__, "expire_pending"), ids, [_expiry(task_id) for task_id in ids])
        return [task_id for (task_id,) in rows]

    done = await isolate_bad_rows(batches_of(overdue, BATCH), expire)
    expired = [task_id for answer in done.answers for task_id in answer]
    return Recovered(expired=len(expired), refused=(*done.refused, *await follow(conn, expired)))


class Tries(Protocol):
    """The facts that decide whether a crashed execution is retried."""

    @property
    def retry_count(self) -> int: ...
    @property
    def max_retries(self) -> int: ...
    @property
    def good_until(self) -> datetime | None: ...
    @property
    def task_options(self) -> str | None: ...


def after_crash(run: Tries, *, now: datetime, rng: Random) -> RetryAt | GiveUp:
    """Decide whether an execution whose worker is lost is retried; the recovery report uses the same rule."""
    return decide_retry(
        RetryRule.from_text(run.task_options),
        error_code=OperationalErrorCode.WORKER_CRASHED.value,
        retry_count=run.retry_count,
        max_retries=run.max_retries,
        now=now,
        good_until=run.good_until,
        rng=rng,
    )


def crash_of(run: StaleRun, *, threshold_ms: int, rng: Random) -> Crash:
    """Return the values that sweeps and operator actions store for an execution whose worker is lost."""
    decision = after_crash(run, now=run.detected_at, rng=rng)
    message = _words(run, threshold_ms)
    error = TaskError(
        error_code=OperationalErrorCode.WORKER_CRASHED,
        message=message,
        data={
            "stale_threshold_ms": threshold_ms,
            "worker_id": run.worker_id,
            "worker_hostname": run.worker_hostname,
            "worker_pid": run.worker_pid,
            "started_at": run.started_at.isoformat(),
            "last_heartbeat": None if run.last_beat is None else run.last_beat.isoformat(),
            "detected_at": run.detected_at.isoformat(),
        },
    )
    delay = decision.delay_s if isinstance(decision, RetryAt) else None
    stored = dump_task_result(TaskResult(err=error))
    if decision == RETRIES_SPENT:
        stored = with_retries_spent(stored, retry_count=run.retry_count, max_retries=run.max_retries)
    return Crash(delay, stored, message)


def _words(run: StaleRun, threshold_ms: int) -> str:
    silent = run.detected_at - (run.last_beat or run.started_at)
    since = "its last heartbeat" if run.last_beat else "its start, without a heartbeat"
    return (
        f"its worker crashed, was killed or lost the database: {silent.total_seconds():.0f} s since {since}"
        f" (threshold {threshold_ms / 1000:g} s)"
    )


def _expiry(task_id: str) -> str:
    error = TaskError(error_code=OutcomeCode.TASK_EXPIRED, message=EXPIRED_MESSAGE, data={"task_id": task_id})
    return dump_task_result(TaskResult(err=error))


@dataclass(frozen=True, slots=True)
class RecoveredTask:
    """One task before the recovery, and its status after it."""

    was: StaleRun
    status: TaskStatus
    now: TaskStatus


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The result for a worker's tasks. `left`: how many it still owns; `refused`: why some were not changed."""

    freed: tuple[RecoveredTask, ...]
    left: int
    refused: tuple[RejectedItem[str], ...]

    def count(self, status: TaskStatus, now: TaskStatus) -> int:
        return sum(one.status is status and one.now is now for one in self.freed)


async def recover_worker(
    conn: asyncpg.Connection, worker_id: str, *, silence_ms: int, finalizing_ms: int
) -> RecoveryResult:
    """Set claims back to PENDING; retry runs if the policy lists WORKER_CRASHED, otherwise set them to FAILED.

    Runs in the caller's transaction. Rows are kept if they have a beat within `silence_ms`, are locked by another
    session, or have an outcome about to be stored. Unlike a sweep it counts all silence: the caller checks, from all
    beats of the worker, whether it was able to beat.
    """
    rows = await conn.fetch(statement(__name__, "order_holds"), worker_id)
    claims = [StaleRun(*row[1:]) for row in rows if row["status"] == TaskStatus.CLAIMED.value]
    runs = [StaleRun(*row[1:]) for row in rows if row["status"] == TaskStatus.RUNNING.value]

    async def release(batch: Sequence[StaleRun]) -> list[RecoveredTask]:
        async with conn.transaction():  # a savepoint: one bad row must not roll back the others
            found = await conn.fetch(statement(__name__, "sweep_claims"), *_tokens(batch), silence_ms, None)
        freed = {task_id for (task_id,) in found}
        return [RecoveredTask(one, TaskStatus.CLAIMED, TaskStatus.PENDING) for one in batch if one.task_id in freed]

    async def crash(batch: Sequence[StaleRun]) -> list[RecoveredTask]:
        async with conn.transaction():
            found = await _sweep_runs(conn, batch, silence_ms, finalizing_ms, None, _rng)
        again = {row["id"]: row["again"] for row in found}
        ends = {True: TaskStatus.PENDING, False: TaskStatus.FAILED}
        return [
            RecoveredTask(one, TaskStatus.RUNNING, ends[again[one.task_id]]) for one in batch if one.task_id in again
        ]

    released = await isolate_bad_rows(batches_of(claims, BATCH), release)
    crashed = await isolate_bad_rows(batches_of(runs, BATCH), crash)
    freed = [one for answer in (*released.answers, *crashed.answers) for one in answer]
    refused = tuple(RejectedItem(one.item.task_id, one.error) for one in (*released.refused, *crashed.refused))
    return RecoveryResult(tuple(freed), len(rows) - len(freed), refused)


async def _sweep_runs(
    conn: asyncpg.Connection,
    runs: Sequence[StaleRun],
    threshold_ms: int,
    finalizing_ms: int,
    beat_ms: int | None,
    rng: Random,
) -> list[asyncpg.Record]:
    crashes = [crash_of(run, threshold_ms=threshold_ms, rng=rng) for run in runs]
    rows: list[asyncpg.Record] = await conn.fetch(
        statement(__name__, "sweep_runs"),
        *_tokens(runs),
        [crash.delay_s for crash in crashes],
        [crash.result_json for crash in crashes],
        [crash.message for crash in crashes],
        threshold_ms,
        finalizing_ms,
        beat_ms,
    )
    return rows


def _tokens(batch: Sequence[StaleClaim] | Sequence[StaleRun]) -> tuple[list[str], list[str | None], list[object]]:
    return [one.task_id for one in batch], [one.worker_id for one in batch], [one.claimed_at for one in batch]
