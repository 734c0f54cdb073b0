"""The second step after tasks have ended: advance their workflows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, TypeVar

import asyncpg

from horsies.lifecycle.advancing import advance
from horsies.store.connect import transaction
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, batches_of, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

_BATCH = 200
_AGAIN_AFTER_S = (0.01, 0.05, 0.2)


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
        for task_id, root, _ in await conn.fetch(
            statement("horsies.lifecycle.advancing", "advance_try_tasks"), list(task_ids), []
        ):
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
