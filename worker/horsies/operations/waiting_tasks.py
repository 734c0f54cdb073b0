"""Notes of the previews of verbs for waiting tasks about queues: paused, not served, name not known, full."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from horsies.domain.quantities import by_whom, clock, counted
from horsies.findings.cluster import read_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.findings.cluster import Cluster
    from horsies.operations.facts import TaskFacts


async def about_queues(conn: asyncpg.Connection, facts: TaskFacts) -> Sequence[str]:
    """The queue that the tasks are moved to, or those of their queues that are paused."""
    async with conn.transaction():
        cluster = await read_cluster(conn)
    if (queue := facts.options.get("queue")) is not None:
        return tuple(_new_queue(cluster, facts, queue))
    queues = sorted({task.queue_name for task in facts.tasks} & cluster.paused.keys())
    return [_paused(cluster, paused) for paused in queues]


def _new_queue(cluster: Cluster, facts: TaskFacts, queue: str) -> Iterator[str]:
    served = cluster.served()
    if queue in cluster.paused:
        yield _paused(cluster, queue)
    if queue not in served:
        near = get_close_matches(queue, served, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"no living worker serves the queue {queue}: they wait until one does{hint}"
        return
    known = cluster.known().get(queue)
    unknown = sorted({task.task_name for task in facts.tasks} - known) if known is not None else []
    for name in unknown[:3]:
        count = sum(task.task_name == name for task in facts.tasks)
        yield f"{counted(count, 'task')} {name}: no living worker of the queue {queue} knows that name, none starts"
    if len(unknown) > 3:
        yield f"{counted(len(unknown) - 3, 'further name')}: not known there either"
    caps = [one.caps[queue] for one in cluster.consumers if queue in one.caps]
    if caps:
        yield f"at most {counted(min(caps), 'task')} of the queue {queue} {'runs' if min(caps) == 1 else 'run'} at once"


def overdue(facts: TaskFacts) -> Iterator[str]:
    if late := sum(task.good_until is not None and task.good_until <= facts.now for task in facts.tasks):
        yield f"{late} past the deadline: no worker will start them"


def _paused(cluster: Cluster, queue: str) -> str:
    pause = cluster.paused[queue]
    since = f"{clock(pause.since)}{by_whom(pause.by)}"
    return f"the queue {queue} is paused since {since}: nothing of it starts before it is resumed"
