"""The loop that advances workflows after tasks have ended loses none of its notifications."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from advance_steps import advancer_alone, end_task, grow, states
from lifecycle_steps import waits_for_a_lock
from workflow_plans import node

from horsies import PostgresConfig
from horsies.config.contexts import DatabaseChoice
from horsies.run.worker.advancer import Advancer
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg


@pytest.fixture
async def advancer(database: str) -> AsyncIterator[Advancer]:
    choice = DatabaseChoice(PostgresConfig(database_url=database).url, "given by the test")
    async with open_database(choice) as opened:
        lane = DedicatedConnection(opened, "worker advance", behind_pooler=False)
        yield advancer_alone(lane)
        await lane.close()


async def test_a_task_that_ends_again_while_its_end_is_under_way_is_advanced_again(
    advancer: Advancer, connection: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    task_id = await end_task(connection, flow, 0)
    advancer.ended(task_id)
    async with connection.transaction():
        await connection.execute("SELECT FROM horsies_tasks WHERE id = $1 FOR NO KEY UPDATE", task_id)
        await connection.execute("SELECT FROM horsies_workflow_tasks WHERE workflow_id = $1 FOR NO KEY UPDATE", flow)
        step = await waits_for_a_lock(connection, await advancer.lane.ready(), advancer.step())
        advancer.ended(task_id)
        assert not step.done()
    await asyncio.wait_for(step, 10)
    assert await states(connection, flow) == "RUNNING: completed enqueued"
    assert advancer.pending == 1
    await advancer.step()
    assert advancer.pending == 0
