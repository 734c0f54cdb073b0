"""What follows in a workflow when a task of it has ended: its node, those that waited for it, the end of the workflow.

Whoever changes workflows or nodes, or enqueues a node's task, locks the roots of their families before any other row,
and then writes workflows, nodes and tasks in this order. Whoever holds a task's row never waits for a workflow's: it
commits, and the advance follows. That reads the truth and not what it was told, so done again, or late, or by several,
it comes to the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.workflow_end import EndedNode, error_of
from horsies.lifecycle.completing import NodeEnd, complete, parents_ends
from horsies.lifecycle.node_tasks import enqueue_nodes
from horsies.store.connect import transaction
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_PATIENCE = "5s"


class FamilyLockedError(asyncpg.LockNotAvailableError):  # type: ignore[misc]
    """Another session holds the lock of a workflow's family; the message says which one, as far as that can be seen."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """What was done: `ended` are workflow and index of nodes, `enqueued` ids of tasks.

    `finished` are workflows and what they have become, PAUSED by an error included; `ready_children` those with nodes
    whose child is to be built.
    """

    ended: tuple[tuple[str, int], ...] = ()
    enqueued: tuple[str, ...] = ()
    finished: tuple[tuple[str, WorkflowStatus], ...] = ()
    ready_children: tuple[str, ...] = ()
    locked: tuple[tuple[str, str], ...] = ()
    """Tasks that were left for later, each with the root of its family, which another session had locked."""


class Started(NamedTuple):
    """How many nodes are RUNNING now; `locked` as in Advanced."""

    nodes: int
    locked: tuple[tuple[str, str], ...] = ()


class _Ended(NamedTuple):
    workflow_id: str
    task_index: int
    status: str


@dataclass(slots=True)
class _Course:
    """What has been done so far in this transaction."""

    ended: list[tuple[str, int]] = field(default_factory=list)
    enqueued: list[str] = field(default_factory=list)
    finished: dict[str, WorkflowStatus] = field(default_factory=dict)
    ready_children: set[str] = field(default_factory=set)

    def told(self) -> Advanced:
        finished = tuple(self.finished.items())
        return Advanced(tuple(self.ended), tuple(self.enqueued), finished, tuple(sorted(self.ready_children)))


async def lock_families(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> tuple[str, ...]:
    """Lock the roots of these workflows until the transaction ends, in the order of their ids; returns the roots.

    Whoever changes a workflow, a node, or enqueues a node's task holds this, and takes it before any other row. It
    waits for 5 s, which is for operators; then FamilyLockedError says who holds it, and the transaction can go on.
    """
    families = await try_families(conn, workflow_ids)
    if all(families.values()):
        return tuple(families)
    try:
        async with conn.transaction():
            await conn.execute(statement(__name__, "advance_patience"), _PATIENCE)
            rows = await conn.fetch(statement(__name__, "advance_lock"), list(workflow_ids))
    except asyncpg.LockNotAvailableError:
        raise FamilyLockedError(await _holder(conn, list(families))) from None
    return tuple([root for (root,) in rows])


async def try_families(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> dict[str, bool]:
    """As lock_families, without waiting: each root, and whether its lock is ours now.

    Workers and sweeps never wait for one family: all others would wait with it.
    """
    rows = await conn.fetch(statement(__name__, "advance_try"), list(workflow_ids))
    return {row["root"]: row["is_ours"] for row in rows}


async def _holder(conn: asyncpg.Connection, roots: list[str]) -> str:
    holder = await conn.fetchrow(statement(__name__, "advance_holders"), roots)
    if holder is None:
        return "another session has locked its workflow"
    name = holder["application_name"] or "no application_name"
    return (
        f"another session has locked its workflow: pid {holder['pid']} ({name}, role {holder['role']},"
        f" {holder['state']}), whose transaction is {holder['since_s']} s old"
    )


async def advance(conn: asyncpg.Connection, task_ids: Collection[str], leave: Collection[str] = ()) -> Advanced:
    """In a transaction of its own: what has become of these tasks reaches their nodes, and all that follows is done.

    It reads the truth: ids of tasks that still run, belong to no workflow or were advanced before change nothing.
    Families that another session has locked, and those whose roots are in `leave`, are stepped over; `locked` names
    their tasks.
    """
    async with transaction(conn):
        ids, locked = await _try_tasks(conn, task_ids, leave)
        return replace(await advance_locked(conn, ids), locked=locked) if ids else Advanced(locked=locked)


async def _try_tasks(
    conn: asyncpg.Connection, task_ids: Collection[str], leave: Collection[str]
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """The tasks of families whose lock is ours now, and the others with their roots."""
    rows = await conn.fetch(statement(__name__, "advance_try_tasks"), list(task_ids), list(leave))
    ours = [task_id for task_id, _, is_ours in rows if is_ours]
    return ours, tuple([(task_id, root) for task_id, root, is_ours in rows if not is_ours])


async def advance_locked(conn: asyncpg.Connection, task_ids: Collection[str]) -> Advanced:
    """The same within the caller's transaction, under the families' locks."""
    rows = await conn.fetch(statement(__name__, "advance_ends"), list(task_ids))
    return await _follow(conn, [_Ended(*row) for row in rows], ())


async def settle(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> Advanced:
    """Within the caller's transaction, under the families' locks: bring RUNNING workflows to where they should be.

    Evaluates every PENDING node, enqueues what is READY, takes over from children that have ended, ends what has
    nothing left, then the node of the parent, up to the root; one that is over, CANCELLED too, ends its parent's node.
    What has become of tasks is for `advance_locked`. Twice is as good as once.
    """
    return await _follow(conn, [], workflow_ids)


async def nodes_started(conn: asyncpg.Connection, task_ids: Collection[str], leave: Collection[str] = ()) -> Started:
    """ENQUEUED to RUNNING for the nodes of tasks that run, in a transaction of its own; locks are as in advance()."""
    async with transaction(conn):
        ids, locked = await _try_tasks(conn, task_ids, leave)
        return Started(len(await conn.fetch(statement(__name__, "advance_started"), ids)) if ids else 0, locked)


async def enqueue_ready(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> tuple[str, ...]:
    """Within the caller's transaction, under the families' locks: tasks for the READY nodes of what is RUNNING.

    READY nodes that are sub-workflows are announced on `horsies_workflow_ready`. Returns the ids of the tasks.
    """
    made = await enqueue_nodes(conn, [(workflow_id, None) for workflow_id in workflow_ids])
    followed = await end_nodes(conn, made.broken)
    return (*made.enqueued, *followed.enqueued)


async def end_nodes(conn: asyncpg.Connection, ends: Sequence[NodeEnd]) -> Advanced:
    """Within the caller's transaction, under the families' locks: these nodes end as told, and what follows is done."""
    return await _follow(conn, await _end(conn, ends), ())


async def end_node(
    conn: asyncpg.Connection, workflow_id: str, index: int, status: WorkflowTaskStatus, result_json: str | None
) -> bool:
    """Within the caller's transaction, under the family's lock: COMPLETED, FAILED or SKIPPED, unless it has ended.

    Applies on_error where it FAILED; what follows is for `settle`, which the caller calls next. False: nothing changed,
    as the node or its workflow had ended.
    """
    ended = await _end(conn, [NodeEnd(workflow_id, index, status, result_json)])
    await _apply_on_error(conn, ended, _Course())
    return bool(ended)


async def _follow(conn: asyncpg.Connection, ended: Sequence[_Ended], whole: Collection[str]) -> Advanced:
    """Everything that follows from these nodes' ends, and in the workflows of `whole` from their present state."""
    course = _Course()
    touched, unasked = set(whole), list(whole)
    children, parents = list(whole), list(whole)
    while ended or touched:
        course.ended += [(end.workflow_id, end.task_index) for end in ended]
        touched.update(end.workflow_id for end in ended)
        await _apply_on_error(conn, ended, course)
        ready = await _waves(conn, ended, unasked, course)
        made = await enqueue_nodes(conn, [*ready, *((workflow_id, None) for workflow_id in unasked)])
        course.enqueued += made.enqueued
        course.ready_children |= made.ready_children
        unasked = []
        ended = await _end(conn, made.broken)
        touched -= made.unfinished  # one trip less for a node in the middle of a chain
        if not ended:
            finished = await complete(conn, touched)
            course.finished |= finished
            ended = await _end(conn, await parents_ends(conn, [*children, *finished], parents))
            touched, children, parents = set(), [], []
    return course.told()


async def _waves(
    conn: asyncpg.Connection, ended: Sequence[_Ended], whole: Sequence[str], course: _Course
) -> list[tuple[str, int | None]]:
    """Judge what depends on what has ended; what is skipped by that has ended too. Returns what is READY."""
    ready: list[tuple[str, int | None]] = []
    wave: list[tuple[str, int | None]] = [(end.workflow_id, end.task_index) for end in ended]
    wave += [(workflow_id, None) for workflow_id in whole]
    while wave:
        rows = await conn.fetch(statement(__name__, "advance_wave"), [key[0] for key in wave], [key[1] for key in wave])
        judged = [_Ended(*row) for row in rows]
        skipped = [(end.workflow_id, end.task_index) for end in judged if end.status == WorkflowTaskStatus.SKIPPED]
        ready += [(end.workflow_id, end.task_index) for end in judged if end.status == WorkflowTaskStatus.READY]
        course.ended += skipped
        wave = [*skipped]
    return ready


async def _end(conn: asyncpg.Connection, ends: Sequence[NodeEnd]) -> list[_Ended]:
    """Write these ends; returns those that were news."""
    if not ends:
        return []
    columns = map(list, zip(*((*end[:2], end.status.value, *end[3:]) for end in ends), strict=True))
    return [_Ended(*row) for row in await conn.fetch(statement(__name__, "advance_end_nodes"), *columns)]


async def _apply_on_error(conn: asyncpg.Connection, ended: Iterable[_Ended], course: _Course) -> None:
    """The workflows of failed nodes store their first error, and pause where they were told to."""
    failed = [end for end in ended if end.status == WorkflowTaskStatus.FAILED]
    if not failed:
        return
    keys = [end.workflow_id for end in failed], [end.task_index for end in failed]
    rows = await conn.fetch(statement(__name__, "advance_failures"), *keys)
    if not rows:
        return
    errors = [error_of(row["result"], EndedNode(row["task_index"], row["node_id"], "FAILED", ())) for row in rows]
    changed = await conn.fetch(statement(__name__, "advance_on_error"), [row["workflow_id"] for row in rows], errors)
    course.finished |= {row["id"]: WorkflowStatus.PAUSED for row in changed if row["status"] == WorkflowStatus.PAUSED}
