"""Recover all tasks of a lost worker at once, by the rules of the sweep but without its thresholds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.domain.states import TaskStatus
from horsies.lifecycle.recovering import BATCH, StaleRun, crash_of
from horsies.store.isolate_bad_rows import RejectedItem, batches_of, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

_rng = random.Random()  # noqa: S311 - jitter


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
            found = await conn.fetch(
                statement("horsies.lifecycle.recovering", "sweep_claims"), *_tokens(batch), silence_ms, None
            )
        freed = {task_id for (task_id,) in found}
        return [RecoveredTask(one, TaskStatus.CLAIMED, TaskStatus.PENDING) for one in batch if one.task_id in freed]

    async def crash(batch: Sequence[StaleRun]) -> list[RecoveredTask]:
        crashes = [crash_of(run, threshold_ms=silence_ms, rng=_rng) for run in batch]
        async with conn.transaction():
            found = await conn.fetch(
                statement("horsies.lifecycle.recovering", "sweep_runs"),
                *_tokens(batch),
                [crash.delay_s for crash in crashes],
                [crash.result_json for crash in crashes],
                [crash.message for crash in crashes],
                silence_ms,
                finalizing_ms,
                None,
            )
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


def _tokens(batch: Sequence[StaleRun]) -> tuple[list[str], list[str | None], list[object]]:
    return [one.task_id for one in batch], [one.worker_id for one in batch], [one.claimed_at for one in batch]
