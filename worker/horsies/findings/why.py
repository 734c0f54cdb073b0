"""The reasons why a task does not run that is PENDING, or claimed and waiting in its worker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from horsies.domain.quantities import counted, span
from horsies.domain.states import TaskStatus
from horsies.findings.cluster import read_cluster
from horsies.store.statements import statement
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import asyncpg

    from horsies.findings.cluster import Cluster

_MAX_COUNTED = 10_000
_CLAIM_WAITS_S = 5.0
"""Seconds after which a claim counts as waiting; it usually starts within milliseconds."""


class ReasonKind(StrEnum):
    DEADLINE_PASSED = "deadline passed"
    RETRY_WAIT = "retry wait"
    NOT_DUE = "not due"
    WORKFLOW_PAUSED = "workflow paused"
    QUEUE_PAUSED = "queue paused"
    NO_WORKER = "no worker"
    ALL_DRAINING = "all workers draining"
    UNKNOWN_NAME = "unknown name"
    CAP_REACHED = "cap reached"
    BEHIND = "behind others"
    OCCUPIED = "worker occupied"
    NEXT = "next"  # no other reason: it waits until a worker has room


@dataclass(frozen=True, slots=True)
class Reason:
    kind: ReasonKind
    text: str
    until: datetime | None = None  # if the time is known
    used: int | None = None  # for CAP_REACHED the used capacity; for BEHIND the number of tasks ahead of it
    limit: int | None = None
    at_least: bool = False  # `used` is a lower bound


@dataclass(frozen=True, slots=True)
class Why:
    """All reasons, the strongest first. A task that neither is PENDING nor waits in its worker has no reasons."""

    task_id: str
    status: str
    now: datetime
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row of `diagnose_task`, in its column order."""

    task_id: str
    status: str
    task_name: str
    queue_name: str
    priority: int
    enqueued_at: datetime
    next_retry_at: datetime | None
    good_until: datetime | None
    retry_count: int
    max_retries: int
    workflow_id: str | None
    """The workflow, only if it is PAUSED so that the task waits."""
    workflow_name: str | None
    workflow_failed: bool | None

    @property
    def due(self) -> datetime:
        return max(self.enqueued_at, self.next_retry_at or self.enqueued_at)


async def why_pending(conn: asyncpg.Connection, task_id: str) -> Why | None:
    """Return the reasons; None if there is no such task. Reads only."""
    async with conn.transaction(readonly=True):
        cluster = await read_cluster(conn)
        row = await conn.fetchrow(statement(__name__, "diagnose_task"), task_id)
        if row is None:
            return None
        task = _Waiting(*row)
        if task.status != TaskStatus.PENDING.value:
            return Why(task.task_id, task.status, cluster.now, tuple(await _claim(conn, task, cluster.now)))
        reasons = [*_time(task, cluster), *_workflow(task), *_queue(task, cluster), *_name(task, cluster)]
        if not reasons:
            reasons = [*await _caps(conn, task, cluster), *await _ahead(conn, task)]
    return Why(task.task_id, task.status, cluster.now, tuple(reasons) or (_next(task, cluster),))


async def _claim(conn: asyncpg.Connection, task: _Waiting, now: datetime) -> list[Reason]:
    """Return the run that it waits for in the worker that has claimed it, after some seconds."""
    rows = await conn.fetch(statement(__name__, "diagnose_claim"), task.task_id, _CLAIM_WAITS_S)
    return [
        Reason(
            ReasonKind.OCCUPIED,
            f"it was claimed {span((now - row['claimed_at']).total_seconds())} ago by {name_of(row['worker_id'])},"
            f" where {row['task_name']} {row['id']} has run for {span((now - row['started_at']).total_seconds())}",
        )
        for row in rows
    ]


def _time(task: _Waiting, cluster: Cluster) -> Iterable[Reason]:
    now = cluster.now
    if task.good_until is not None and task.good_until <= now:
        late = span((now - task.good_until).total_seconds())
        yield Reason(ReasonKind.DEADLINE_PASSED, f"its deadline passed {late} ago: the next sweep expires it")
    elif task.next_retry_at is not None and task.next_retry_at > now:
        left = span((task.due - now).total_seconds())
        text = f"retry {task.retry_count} of {task.max_retries} is due in {left}"
        yield Reason(ReasonKind.RETRY_WAIT, text, until=task.due)
    elif task.enqueued_at > now:
        left = span((task.due - now).total_seconds())
        yield Reason(ReasonKind.NOT_DUE, f"it is due in {left}", until=task.due)


def _workflow(task: _Waiting) -> Iterable[Reason]:
    """No worker claims a task of a PAUSED workflow, even if it has room."""
    if task.workflow_id is not None:
        failed = ", because one of its nodes has failed" if task.workflow_failed else ""
        way_out = f"`horsies workflows resume {task.workflow_id}` continues it"
        text = f"its workflow {task.workflow_name} is PAUSED{failed}: {way_out}"
        yield Reason(ReasonKind.WORKFLOW_PAUSED, text)


def _queue(task: _Waiting, cluster: Cluster) -> Iterable[Reason]:
    queue = task.queue_name
    if (pause := cluster.paused.get(queue)) is not None:
        by = f" by {pause.by}" if pause.by else ""
        reason = f": {pause.reason}" if pause.reason else ""
        ago = span((cluster.now - pause.since).total_seconds())
        yield Reason(ReasonKind.QUEUE_PAUSED, f"queue {queue} was paused {ago} ago{by}{reason}")
    serving = cluster.serving(queue)
    if not serving:
        alive = f"{counted(cluster.alive, 'worker')} alive"
        yield Reason(ReasonKind.NO_WORKER, f"no living worker serves queue {queue} ({alive})")
    elif not any(group.claiming for group in serving):
        draining = counted(sum(group.draining for group in serving), "worker")
        yield Reason(ReasonKind.ALL_DRAINING, f"all workers of queue {queue} are draining: {draining}")


def _name(task: _Waiting, cluster: Cluster) -> Iterable[Reason]:
    names = cluster.known().get(task.queue_name)
    if names is not None and task.task_name not in names:
        text = f"no running worker of queue {task.queue_name} registers {task.task_name}"
        yield Reason(ReasonKind.UNKNOWN_NAME, text)


async def _caps(conn: asyncpg.Connection, task: _Waiting, cluster: Cluster) -> list[Reason]:
    """Return the reached caps. If workers have different limits, the highest one decides."""
    claiming = [group for group in cluster.serving(task.queue_name) if group.claiming]
    of_queue = _loosest(group.caps.get(task.queue_name) for group in claiming)
    of_cluster = _loosest(group.cluster_cap for group in claiming)
    if of_queue is None and of_cluster is None:
        return []
    used = await conn.fetchrow(statement(__name__, "diagnose_used"), task.queue_name)
    reached: list[Reason] = []
    for name, count, limit in (
        (f"max_concurrency of queue {task.queue_name}", used["of_queue"], of_queue),
        ("cluster_wide_cap", used["of_cluster"], of_cluster),
    ):
        if limit is not None and count >= limit:
            text = f"{name} is reached: {count} of {limit} in flight"
            reached.append(Reason(ReasonKind.CAP_REACHED, text, used=count, limit=limit))
    return reached


def _loosest(limits: Iterable[int | None]) -> int | None:
    known = list(limits)
    return max((limit for limit in known if limit is not None), default=None) if None not in known else None


async def _ahead(conn: asyncpg.Connection, task: _Waiting) -> list[Reason]:
    count = await conn.fetchval(
        statement(__name__, "diagnose_ahead"),
        task.queue_name,
        task.priority,
        task.enqueued_at,
        task.task_id,
        _MAX_COUNTED,
    )
    if not count:
        return []
    more = count >= _MAX_COUNTED
    some = f"at least {counted(count, 'task')}" if more else counted(count, "task")
    text = f"{some} ahead of it in queue {task.queue_name}"
    return [Reason(ReasonKind.BEHIND, text, used=count, at_least=more)]


def _next(task: _Waiting, cluster: Cluster) -> Reason:
    workers = sum(group.claiming for group in cluster.serving(task.queue_name))
    return Reason(
        ReasonKind.NEXT, f"it is the next of its queue, for the first of {counted(workers, 'worker')} with room"
    )
