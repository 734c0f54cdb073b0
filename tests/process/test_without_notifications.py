"""A worker without notifications, as behind a pooler in transaction mode: it polls, and uses its own knowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from test_worker import PATIENCE_S, Table, Worker

DEAF = """
SET allow_system_table_mods = on;
ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_of_postgresql;
CREATE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
"""


async def test_a_queue_at_its_limit_goes_on_with_its_next_task_and_not_at_the_next_poll(
    table: Table, start: Callable[..., Worker]
) -> None:
    ids = [
        await table.send("add", number, 1, queue_name="narrow") for number in range(8)
    ]  # seven polls take longer than the patience
    await table.connection.execute(DEAF)
    worker = start("--processes", "2", TEST_QUEUES="narrow:1:1")
    worker.wait_for("finished", id=ids[0])
    async with asyncio.timeout(PATIENCE_S):
        for task_id in ids[1:]:
            await asyncio.to_thread(worker.wait_for, "finished", id=task_id)
