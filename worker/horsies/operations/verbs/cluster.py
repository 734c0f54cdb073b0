"""The verbs for workers, for queues, and for sessions of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted, span
from horsies.domain.states import TaskStatus
from horsies.operations.target import RowOutcome
from horsies.operations.verb import Option, QueueVerb, SessionVerb, WorkerVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.lifecycle.recovering import RecoveryResult
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import QueueFacts, WorkerFacts
    from horsies.operations.target import Target
    from horsies.operations.verb import Options

_MAX_NAMED: Final = 5


async def _effects_of_drain(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    from horsies.findings.cluster import ALIVE_WITHIN_S

    running = counted(sum(worker.running for worker in workers), "running task")
    claimed = counted(sum(worker.claimed for worker in workers), "claimed task goes", "claimed tasks go")
    ids = [worker.worker_id for worker in workers]
    unserved = await conn.fetch(statement(__name__, "drain_unserved"), ids, ALIVE_WITHIN_S)
    return [
        f"claims nothing more; {running} may end, {claimed} back to the queue unless started first",
        *(f"no other worker serves queue {queue}: its tasks stay there" for (queue,) in unserved),
    ]


_DRAIN = WorkerVerb(
    name="drain",
    will="will drain",
    done="asked to drain",
    help="Stop workers from claiming and let their running tasks finish, for example before a deploy.",
    example="horsies workers drain web-1:4121 --reason 'kernel update'",
    key="D",
    hint="Finish running tasks, claim no more.",
    footer=True,
    fits=lambda worker: worker.lives and not worker.drains,
    wrong_state=lambda worker: f"it is {worker.words}",
    effects=_effects_of_drain,
    order=(__name__, "drain"),
    inverse="resume",
)


async def _effects_of_resume(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    return ["claims again immediately"]


_RESUME = WorkerVerb(
    name="resume",
    will="will continue",
    done="resumed",
    help="Let draining workers claim again.",
    example="horsies workers resume web-1:4121",
    key="U",
    hint="Let it claim again.",
    fits=lambda worker: worker.drains,
    wrong_state=lambda worker: f"it has no order to drain; {worker.words}",
    effects=_effects_of_resume,
    order=(__name__, "resume_worker"),
    guarded=True,
    inverse="drain",
)


async def _recover(conn: asyncpg.Connection, action: OperatorAction, target: Target) -> RowOutcome:
    """Recover what the worker holds now, if it is still dead."""
    from horsies.lifecycle.recovering import recover_worker
    from horsies.operations.audit_rows import write_refusal
    from horsies.operations.worker_targets import SILENCE_MS, read_workers

    (worker,) = await read_workers(conn, [target.id])
    if not _RECOVER.fits(worker.state):
        return await write_refusal(conn, action, target, _not_recoverable(worker))
    recovered = await recover_worker(conn, target.id, silence_ms=SILENCE_MS, finalizing_ms=worker.finalizing_ms)
    detail = _counts(recovered)
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
    action.ended.extend(one.was.task_id for one in recovered.freed if one.now is TaskStatus.FAILED)
    return RowOutcome(target, applied=True, detail=detail)


def _counts(recovered: RecoveryResult) -> str:
    refusals = recovered.refused
    counts = {
        "back in the queue": recovered.count(TaskStatus.CLAIMED, TaskStatus.PENDING),
        "to be tried again": recovered.count(TaskStatus.RUNNING, TaskStatus.PENDING),
        "failed as WORKER_CRASHED": recovered.count(TaskStatus.RUNNING, TaskStatus.FAILED),
        "left to the sweep (outcome about to be stored, or locked)": recovered.left - len(refusals),
        f"not changed ({refusals[0].error})" if refusals else "": len(refusals),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "it has no tasks any more"


def _not_recoverable(worker: WorkerFacts) -> str:
    from horsies.findings.cluster import ALIVE_WITHIN_S

    if worker.lives:
        return f"it is alive: last sign of life {worker.late}; a dead worker is silent for {span(ALIVE_WITHIN_S)}"
    return f"it has no task; {worker.words}"


async def _effects_of_recover(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    claims, runs = sum(worker.claimed for worker in workers), sum(worker.running for worker in workers)
    again = "retried if the retry policy lists WORKER_CRASHED, otherwise failed with that code"
    return [
        *([f"{counted(claims, 'claimed task')}: back in the queue, user code never started"] if claims else []),
        *([f"{counted(runs, 'running task')}: {again}"] if runs else []),
        "a disconnected worker may still run their code; its outcomes are then refused",
    ]


_RECOVER = WorkerVerb(
    name="recover",
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
    wrong_state=_not_recoverable,
    effects=_effects_of_recover,
    change=_recover,
    batch=1,
)


def _check_task_name(options: Options) -> Options:
    from horsies.domain.codec.json_text import clean_text

    return {name: clean_text(value, len(value)) for name, value in options.items()}


async def _effects_of_acknowledge(conn: asyncpg.Connection, workers: Sequence[WorkerFacts]) -> list[str]:
    seen = [(worker.worker_id, worker.unacknowledged) for worker in workers if worker.unacknowledged is not None]
    others = [one for _, one in seen[_MAX_NAMED:]]
    tasks, deaths = sum(len(one.task_ids) for one in others), sum(one.loss is not None for one in others)
    counts = [counted(deaths, "death")] if deaths else []
    counts += [f"{counted(tasks, 'task')} failed as they died"] if tasks else []
    return [
        *(f"{worker_id} {one.words}" for worker_id, one in seen[:_MAX_NAMED]),
        *([f"{counted(len(others), 'more worker')}: {', '.join(counts)}"] if others else []),
        "no task changes; only this leaves the recovery report; the audit log keeps it",
    ]


_ACKNOWLEDGE = WorkerVerb(
    name="acknowledge",
    done="acknowledged",
    help="Record that you have seen the death of workers and what failed with them; no task changes.\n\n"
    "Until then `horsies recovery ls` and the console show the tasks that each of them held and how they ended.",
    example="horsies workers acknowledge web-1:4121 --reason 'out of memory, has more now'",
    key="A",
    hint="Acknowledge its death; no task changes.",
    on_recovery=True,
    options=(Option("task", "Only the crashed tasks of this name; the death itself stays in the report.", "NAME"),),
    check=_check_task_name,
    no_way_back=lambda _: None,
    fits=lambda worker: worker.is_unacknowledged,
    wrong_state=lambda worker: f"it has no losses to acknowledge; it is {worker.words}",
    effects=_effects_of_acknowledge,
    reads_losses=True,
    order=(__name__, "acknowledge"),
    taken_back=(__name__, "take_acknowledgements_back"),
)


def _effect_of_pause(queue: QueueFacts) -> str:
    continues = queue.claimed + queue.running
    return (
        f"{queue.name}: {queue.waiting} until it is resumed or their good_until passes;"
        f" {counted(continues, 'claimed or running continues', 'claimed or running continue')}"
    )


_PAUSE_QUEUE = QueueVerb(
    name="pause",
    done="paused",
    help="Stop claims from queues until they are resumed; running tasks continue.",
    example="horsies queues pause mail --reason 'the provider is migrating'",
    key="P",
    hint="Stop claims from the queue; running tasks continue.",
    footer=True,
    for_paused=False,
    effect=_effect_of_pause,
    order=(__name__, "pause_queue"),
    inverse="resume",
)
_RESUME_QUEUE = QueueVerb(
    name="resume",
    will="will continue",
    done="resumed",
    help="Resume paused queues and notify their workers.",
    example="horsies queues resume mail",
    key="U",
    hint="Resume a paused queue or workflow.",
    footer=True,
    on_recovery=True,
    for_paused=True,
    effect=lambda queue: (
        f"{queue.name}: {queue.waiting}, {queue.due:,} of them due; served by {counted(queue.workers, 'living worker')}"
    ),
    order=(__name__, "resume_queue"),
    inverse="pause",
)

_CANCEL = SessionVerb(
    name="cancel",
    title="Cancel the statement of",
    will="will have its statement cancelled",
    done="cancelled",
    help="Stop the statement that a session runs, as pg_cancel_backend does; its transaction is rolled back.",
    example="horsies sessions cancel 4711 --reason 'the report blocks the workers'",
    only_active=True,
    effect="its statement ends with an error; the session stays connected and may repeat it",
)
_TERMINATE = SessionVerb(
    name="terminate",
    will="will be disconnected",
    done="terminated",
    help="Disconnect a session, as pg_terminate_backend does; its transaction is rolled back and its locks released.",
    example="horsies sessions terminate 4711 --reason 'forgotten psql with a lock'",
    only_active=False,
    effect="its transaction is rolled back, its locks are released, and its program loses the connection",
)

VERBS = (_DRAIN, _RESUME, _RECOVER, _ACKNOWLEDGE, _PAUSE_QUEUE, _RESUME_QUEUE, _CANCEL, _TERMINATE)
