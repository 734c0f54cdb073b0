"""The second step after tasks have ended: their workflows hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.lifecycle.advancing import advance
from horsies.store.piecemeal import DAMAGE, piecemeal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.store.piecemeal import Refused

_BATCH = 200


async def follow(conn: asyncpg.Connection, task_ids: Sequence[str]) -> tuple[Refused[str], ...]:
    """After the transaction that ended them, for who holds a task's row must not wait for a workflow's.

    Ids of tasks that live, or are no node's, do no harm. What is refused is left to the next reconciliation.
    """

    async def tell(batch: Sequence[str]) -> None:
        await advance(conn, batch)

    batches = (task_ids[first : first + _BATCH] for first in range(0, len(task_ids), _BATCH))
    return tuple((await piecemeal(batches, tell, damage=DAMAGE)).refused)
