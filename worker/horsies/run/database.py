"""The database of a process that works until it is stopped."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from horsies.run.loops import backoff_s
from horsies.store.connect import Database, DatabaseUnavailable, open_database
from horsies.store.schema import create, require_current

if TYPE_CHECKING:
    from horsies.app import Horsies
    from horsies.run.events import Events


async def wait_for_database(app: Horsies, events: Events, resources: AsyncExitStack) -> Database:
    """Wait for the database without a limit, at the pace of the resilience settings, and bring its schema up to date.

    `resources` releases it.
    """
    resilience, failures = app.config.resilience, 0
    while True:
        stack = AsyncExitStack()
        try:
            database = await stack.enter_async_context(open_database(app.database))
            connection = await database.connect("worker start")
            try:
                await create(connection)
                await require_current(connection)
            finally:
                await connection.close()
        except DatabaseUnavailable as error:
            await stack.aclose()
            failures += 1
            if not error.transient or failures == resilience.db_retry_max_attempts:
                raise
            delay = backoff_s(resilience, failures)
            events.waiting_for_database(error, delay)
            await asyncio.sleep(delay)
        except BaseException:
            await stack.aclose()
            raise
        else:
            resources.push_async_callback(stack.aclose)
            return database
