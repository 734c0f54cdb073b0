"""Advance workflows after tasks have ended: the task's node, the nodes that depend on it, the end of the workflow.

Every transaction that changes workflows or nodes, or enqueues a node's task, locks the root workflows of the families
concerned before any other row, and then writes workflows, nodes and tasks in this order. A transaction that holds a
lock on a task's row never waits for a workflow's row: it commits, and the advance follows in a second transaction.
An advance reads the current rows and relies on no message, so it can be repeated, run late or run in
several workers at once with the same result.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import asyncpg

from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.workflow_end import EndedNode, error_of
from horsies.lifecycle.completing import NodeEnd, complete, parents_ends
from horsies.lifecycle.node_tasks import enqueue_nodes, note_spans
from horsies.store.connect import transaction
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, batches_of, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

_LOCK_TIMEOUT = "5s"
_BATCH = 200
_AGAIN_AFTER_S = (0.01, 0.05, 0.2)


class FamilyLockedError(asyncpg.LockNotAvailableError):  # type: ignore[misc]
    """Another session holds the lock of a workflow's family; the message names it if it is known."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """The result of an advance: `ended` are nodes as (workflow, index), `enqueued` are task ids.

    `finished` are workflows with their new status, including PAUSED by `on_error`; `ready_children` are workflows with
    nodes whose child workflow is to be built.
    """

    ended: tuple[tuple[str, int], ...] = ()
    enqueued: tuple[str, ...] = ()
    finished: tuple[tuple[str, WorkflowStatus], ...] = ()
    ready_children: tuple[str, ...] = ()
    locked: tuple[tuple[str, str], ...] = ()
    """Tasks skipped because another session holds the lock of their family, each with the root of the family."""


class Started(NamedTuple):
    """The number of nodes that are RUNNING now; `locked` as in Advanced."""

    nodes: int
    locked: tuple[tuple[str, str], ...] = ()


class _EndedNode(NamedTuple):
    workflow_id: str
    task_index: int
    status: str


@dataclass(slots=True)
class _Changes:
    """The changes made so far in this transaction."""

    ended: list[tuple[str, int]] = field(default_factory=list)
    enqueued: list[str] = field(default_factory=list)
    finished: dict[str, WorkflowStatus] = field(default_factory=dict)
    ready_children: set[str] = field(default_factory=set)

    def result(self) -> Advanced:
        finished = tuple(self.finished.items())
        return Advanced(tuple(self.ended), tuple(self.enqueued), finished, tuple(sorted(self.ready_children)))


async def lock_families(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> tuple[str, ...]:
    """Lock the roots of these workflows until the transaction ends, in the order of their ids; returns the roots.

    Every transaction that changes a workflow or a node, or enqueues a node's task, takes this lock before any other
    row. It waits up to 5 s, for the sake of operators, and then raises FamilyLockedError, which names the holder; the
    transaction remains usable.
    """
    families = await try_families(conn, workflow_ids)
    if all(families.values()):
        return tuple(families)
    try:
        async with conn.transaction():
            await conn.execute(statement(__name__, "advance_patience"), _LOCK_TIMEOUT)
            rows = await conn.fetch(statement(__name__, "advance_lock"), list(workflow_ids))
    except asyncpg.LockNotAvailableError:
        raise FamilyLockedError(await _holder(conn, list(families))) from None
    return tuple([root for (root,) in rows])


async def try_families(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> dict[str, bool]:
    """Like lock_families, without waiting: each root, and whether this transaction holds its lock now.

    Workers and sweeps never wait for the lock of one family, because all other families would wait with it.
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
        f" {holder['state']}), in a transaction of {holder['since_s']} s"
    )


async def advance(
    conn: asyncpg.Connection,
    task_ids: Collection[str],
    leave: Collection[str] = (),
    *,
    spans: Mapping[str, str] | None = None,
) -> Advanced:
    """Write the outcomes of these tasks to their nodes and do everything that follows, in one transaction.

    It reads the present state: task ids that still run, belong to no workflow or were advanced before change nothing.
    Families that another session has locked, and those whose roots are in `leave`, are skipped; `locked` names their
    tasks. `spans`: the traceparents of runs that were traced, by task.
    """
    async with transaction(conn):
        ids, locked = await _try_tasks(conn, task_ids, leave)
        if spans and (ours := {task_id: spans[task_id] for task_id in ids if task_id in spans}):
            await note_spans(conn, ours)
        return replace(await advance_locked(conn, ids), locked=locked) if ids else Advanced(locked=locked)


async def _try_tasks(
    conn: asyncpg.Connection, task_ids: Collection[str], leave: Collection[str]
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return the tasks of families that this transaction has locked, and the other tasks with their roots."""
    rows = await conn.fetch(statement(__name__, "advance_try_tasks"), list(task_ids), list(leave))
    ours = [task_id for task_id, _, is_ours in rows if is_ours]
    return ours, tuple([(task_id, root) for task_id, root, is_ours in rows if not is_ours])


async def advance_locked(conn: asyncpg.Connection, task_ids: Collection[str]) -> Advanced:
    """Like advance(), within the caller's transaction and under the families' locks."""
    rows = await conn.fetch(statement(__name__, "advance_ends"), list(task_ids))
    return await _follow(conn, [_EndedNode(*row) for row in rows], ())


async def update_workflows(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> Advanced:
    """Within the caller's transaction, under the families' locks: bring RUNNING workflows up to date with their nodes.

    Evaluates every PENDING node, enqueues READY nodes, takes over the outcomes of child workflows that have ended, ends
    the workflow if no node is left, then the parent's node, up to the root. A workflow that has ended, CANCELLED
    included, ends its parent's node. The outcomes of tasks are left to `advance_locked`. It is idempotent.
    """
    return await _follow(conn, [], workflow_ids)


async def nodes_started(conn: asyncpg.Connection, task_ids: Collection[str], leave: Collection[str] = ()) -> Started:
    """Set the nodes of running tasks from ENQUEUED to RUNNING, in a separate transaction; locks as in advance()."""
    async with transaction(conn):
        ids, locked = await _try_tasks(conn, task_ids, leave)
        return Started(len(await conn.fetch(statement(__name__, "advance_started"), ids)) if ids else 0, locked)


async def enqueue_ready(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> tuple[str, ...]:
    """Within the caller's transaction, under the families' locks: create tasks for READY nodes of RUNNING workflows.

    READY nodes that are sub-workflows are announced on `horsies_workflow_ready`. Returns the ids of the tasks.
    """
    made = await enqueue_nodes(conn, [(workflow_id, None) for workflow_id in workflow_ids])
    followed = await end_nodes(conn, made.broken)
    return (*made.enqueued, *followed.enqueued)


async def end_nodes(conn: asyncpg.Connection, ends: Sequence[NodeEnd]) -> Advanced:
    """Within the caller's transaction, under the families' locks: end these nodes as given, and do all that follows."""
    return await _follow(conn, await _end(conn, ends), ())


async def end_node(
    conn: asyncpg.Connection, workflow_id: str, index: int, status: WorkflowTaskStatus, result_json: str | None
) -> bool:
    """Within the caller's transaction, under the family's lock: COMPLETED, FAILED or SKIPPED, unless it has ended.

    Applies `on_error` if the node FAILED. The caller must then call `update_workflows` for all that follows. Returns
    False if nothing changed because the node or its workflow had already ended.
    """
    ended = await _end(conn, [NodeEnd(workflow_id, index, status, result_json)])
    await _apply_on_error(conn, ended, _Changes())
    return bool(ended)


async def _follow(conn: asyncpg.Connection, ended: Sequence[_EndedNode], whole: Collection[str]) -> Advanced:
    """Apply all consequences of the ends of these nodes, and of the current state of the workflows in `whole`.

    Each round goes one level up: from nodes to the nodes that depend on them, to the workflow's end, to the parent's
    node. Only the first round reads all nodes and children of `whole`.
    """
    changes = _Changes()
    touched, unread = set(whole), list(whole)
    children, parents = list(whole), list(whole)
    while ended or touched:
        changes.ended += [(end.workflow_id, end.task_index) for end in ended]
        touched.update(end.workflow_id for end in ended)
        await _apply_on_error(conn, ended, changes)
        ready = await _waves(conn, ended, unread, changes)
        made = await enqueue_nodes(conn, [*ready, *((workflow_id, None) for workflow_id in unread)])
        changes.enqueued += made.enqueued
        changes.ready_children |= made.ready_children
        unread = []
        ended = await _end(conn, made.broken)
        touched -= made.unfinished  # saves one round trip for a node in the middle of a chain
        if not ended:
            finished = await complete(conn, touched)
            changes.finished |= finished
            ended = await _end(conn, await parents_ends(conn, [*children, *finished], parents))
            touched, children, parents = set(), [], []
    return changes.result()


async def _waves(
    conn: asyncpg.Connection, ended: Sequence[_EndedNode], whole: Sequence[str], changes: _Changes
) -> list[tuple[str, int | None]]:
    """Evaluate the nodes after ended ones, and again those after nodes that this SKIPPED. Returns READY nodes."""
    ready: list[tuple[str, int | None]] = []
    wave: list[tuple[str, int | None]] = [(end.workflow_id, end.task_index) for end in ended]
    wave += [(workflow_id, None) for workflow_id in whole]
    while wave:
        rows = await conn.fetch(statement(__name__, "advance_wave"), [key[0] for key in wave], [key[1] for key in wave])
        judged = [_EndedNode(*row) for row in rows]
        skipped = [(end.workflow_id, end.task_index) for end in judged if end.status == WorkflowTaskStatus.SKIPPED]
        ready += [(end.workflow_id, end.task_index) for end in judged if end.status == WorkflowTaskStatus.READY]
        changes.ended += skipped
        wave = [*skipped]
    return ready


async def _end(conn: asyncpg.Connection, ends: Sequence[NodeEnd]) -> list[_EndedNode]:
    """Write these ends; returns those that changed a node."""
    if not ends:
        return []
    columns = map(list, zip(*((*end[:2], end.status.value, *end[3:]) for end in ends), strict=True))
    return [_EndedNode(*row) for row in await conn.fetch(statement(__name__, "advance_end_nodes"), *columns)]


async def _apply_on_error(conn: asyncpg.Connection, ended: Iterable[_EndedNode], changes: _Changes) -> None:
    """Store the first error of failed nodes in their workflows, and pause those whose `on_error` says so."""
    failed = [end for end in ended if end.status == WorkflowTaskStatus.FAILED]
    if not failed:
        return
    keys = [end.workflow_id for end in failed], [end.task_index for end in failed]
    rows = await conn.fetch(statement(__name__, "advance_failures"), *keys)
    if not rows:
        return
    errors = [error_of(row["result"], EndedNode(row["task_index"], row["node_id"], "FAILED", ())) for row in rows]
    changed = await conn.fetch(statement(__name__, "advance_on_error"), [row["workflow_id"] for row in rows], errors)
    changes.finished |= {row["id"]: WorkflowStatus.PAUSED for row in changed if row["status"] == WorkflowStatus.PAUSED}


class _WithLocked(Protocol):
    @property
    def locked(self) -> Sequence[tuple[str, str]]: ...


AnswerT = TypeVar("AnswerT", bound=_WithLocked)


async def family_by_family(
    do: Callable[[asyncpg.Connection, Collection[str], Collection[str]], Awaitable[AnswerT]],
    conn: asyncpg.Connection,
    task_ids: Collection[str],
    leave: Collection[str] = (),
) -> tuple[list[AnswerT], dict[str, str]]:
    """Call `do` (advance() or nodes_started()). Return its answers, and the locked tasks with their families' roots.

    If a lock below a root (of a node, of a task) cannot be acquired, each family is handled alone: the locked one then
    costs the session's lock_timeout, and the work for the others is not rolled back with it.
    """
    try:
        answers = [await do(conn, task_ids, leave)]
    except asyncpg.LockNotAvailableError:
        families = await _families(conn, task_ids)
    else:
        return answers, dict(answers[0].locked)
    answers = []
    locked: dict[str, str] = {}
    for root, ids in families.items():
        try:
            answers.append(await do(conn, ids, leave))
        except asyncpg.LockNotAvailableError:
            locked |= dict.fromkeys(ids, root)
    return answers, locked | {task_id: root for answer in answers for task_id, root in answer.locked}


async def _families(conn: asyncpg.Connection, task_ids: Collection[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = defaultdict(list)
    async with transaction(conn):
        for task_id, root, _ in await conn.fetch(statement(__name__, "advance_try_tasks"), list(task_ids), []):
            families[root].append(task_id)
    return families


async def follow(conn: asyncpg.Connection, task_ids: Sequence[str]) -> tuple[RejectedItem[str], ...]:
    """Advance workflows in a second transaction: the transaction that ends tasks must not wait for a workflow's row.

    Ids of tasks that have not ended or belong to no node are ignored. Refused workflows, and those locked for longer
    than an advance waits, are left to the next reconciliation.
    """
    refused: list[RejectedItem[str]] = []
    locked: dict[str, str] = {}

    async def advance_batch(batch: Sequence[str]) -> None:
        _, left = await family_by_family(advance, conn, batch)
        locked.update(left)

    for pause_s in (0.0, *_AGAIN_AFTER_S):
        await asyncio.sleep(pause_s)
        refused += (await isolate_bad_rows(batches_of(task_ids, _BATCH), advance_batch, damage=ROW_ERRORS)).refused
        task_ids = list(locked)
        if not task_ids:
            break
        if pause_s != _AGAIN_AFTER_S[-1]:
            locked.clear()
    return (*refused, *(RejectedItem(task_id, f"its workflow {root} is locked") for task_id, root in locked.items()))
