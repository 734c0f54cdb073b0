"""`horsies workers recover`: recover the tasks of a dead worker now, before a sweep finds them stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import counted, span
from horsies.domain.states import TaskStatus
from horsies.operations.target import RowOutcome
from horsies.operations.verb import WorkerVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.lifecycle.worker_recovery import RecoveryResult
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import WorkerFacts
    from horsies.operations.target import Target


async def _change(conn: asyncpg.Connection, action: OperatorAction, target: Target, ended: list[str]) -> RowOutcome:
    """Recover what the worker holds now, if it is still dead."""
    from horsies.lifecycle.worker_recovery import recover_worker
    from horsies.operations.audit_rows import write_refusal
    from horsies.operations.worker_targets import SILENCE_MS, read_workers

    (worker,) = await read_workers(conn, [target.id])
    if not VERB.fits(worker.state):
        return await write_refusal(conn, action, target, _wrong_state(worker))
    recovered = await recover_worker(conn, target.id, silence_ms=SILENCE_MS, finalizing_ms=worker.finalizing_ms)
    detail = _detail(recovered)
    if not recovered.freed:
        return await write_refusal(conn, action, target, detail)
    await conn.execute(
        statement(__name__, "recovered"),
        *action.values,
        target.id,
        detail,
        [one.was.task_id for one in recovered.freed],
        [one.status.value for one in recovered.freed],
        [one.was.claimed_at for one in recovered.freed],
        [one.was.retry_count for one in recovered.freed],
    )
    ended += [one.was.task_id for one in recovered.freed if one.now is TaskStatus.FAILED]
    return RowOutcome(target, applied=True, detail=detail)


def _detail(recovered: RecoveryResult) -> str:
    refusals = recovered.refused
    counts = {
        "back in the queue": recovered.count(TaskStatus.CLAIMED, TaskStatus.PENDING),
        "to be tried again": recovered.count(TaskStatus.RUNNING, TaskStatus.PENDING),
        "failed as WORKER_CRASHED": recovered.count(TaskStatus.RUNNING, TaskStatus.FAILED),
        "left to the sweep (outcome about to be stored, or locked)": recovered.left - len(refusals),
        f"not changed ({refusals[0].error})" if refusals else "": len(refusals),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "it has no tasks any more"


def _wrong_state(worker: WorkerFacts) -> str:
    from horsies.findings.cluster import ALIVE_WITHIN_S

    if worker.lives:
        return f"it is alive: last sign of life {worker.late}; a dead worker is silent for {span(ALIVE_WITHIN_S)}"
    return f"it has no task; {worker.words}"


async def _effects(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    claims, runs = sum(worker.claimed for worker in workers), sum(worker.running for worker in workers)
    again = "retried if the retry policy lists WORKER_CRASHED, otherwise failed with that code"
    return [
        *([f"{counted(claims, 'claimed task')}: back in the queue, user code never started"] if claims else []),
        *([f"{counted(runs, 'running task')}: {again}"] if runs else []),
        "a disconnected worker may still run their code; its outcomes are then refused",
    ]


VERB = WorkerVerb(
    name="recover",
    place=3,
    title="Recover",
    will="will be recovered",
    done="recovered",
    help="Recover the tasks of dead workers now, before the sweep finds them stale.\n\n"
    "Claimed tasks go back to their queue; running tasks are retried if their policy lists WORKER_CRASHED, "
    "and fail otherwise. A live worker is refused.",
    example="horsies workers recover web-1:4121",
    key="W",
    hint="Recover its tasks, if it is lost.",
    on_recovery=True,
    footer=True,
    fits=lambda worker: not worker.lives and worker.holds_tasks,
    wrong_state=_wrong_state,
    effects=_effects,
    change=_change,
)
