"""The instant between two transactions: a worker has stored that a task failed, and not yet advanced its workflow."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from horsies.demo.shop import STOLEN
from horsies.lifecycle.advancing import lock_families
from horsies.views import READER_SETTINGS, WorkflowStory, workflow_story

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from horsies.demo.customers import Customers
    from horsies.store.connect import Database
    from horsies.views import NodeView

_LOOK_EVERY_S: Final = 0.1
_BEGINS_WITHIN_S: Final = 3.0
_FAILS_WITHIN_S: Final = 12.0
_MAX_ORDERS: Final = 10


async def order_charged_by(database: Database, customers: Customers, pid: int) -> str | None:
    """An order whose card is being charged by the worker with this pid; other orders are left to any worker."""
    for _ in range(_MAX_ORDERS):
        workflow_id = await customers.order_by_web(STOLEN)
        if workflow_id is None:
            return None
        charge = await _charge(database, workflow_id, lambda node: node.status == "RUNNING", _BEGINS_WITHIN_S)
        if charge is not None and charge.worker_id is not None and f"-{pid}-" in charge.worker_id:
            return workflow_id
    return None


@asynccontextmanager
async def lost_advance(database: Database, workflow_id: str) -> AsyncIterator[bool]:
    """The workflow's row is locked, as by a forgotten transaction: every writer to it waits.

    Entered when the charge has FAILED and its node is still RUNNING; False if that does not happen.
    """
    forgotten = (("idle_in_transaction_session_timeout", "0"),)
    async with database.connected("demo", settings=forgotten) as holder, holder.transaction():
        await lock_families(holder, [workflow_id])
        charge = await _charge(database, workflow_id, lambda node: node.task_status == "FAILED", _FAILS_WITHIN_S)
        yield charge is not None and charge.status == "RUNNING"


async def _charge(
    database: Database, workflow_id: str, is_so: Callable[[NodeView], bool], patience_s: float
) -> NodeView | None:
    """The order's first node, once the condition holds; None if it does not in time."""
    deadline = time.monotonic() + patience_s
    async with database.connected("demo", settings=READER_SETTINGS) as connection:
        while time.monotonic() < deadline:
            story = await workflow_story(connection, workflow_id)
            if isinstance(story, WorkflowStory) and is_so(story.nodes[0]):
                return story.nodes[0]
            await asyncio.sleep(_LOOK_EVERY_S)
    return None
