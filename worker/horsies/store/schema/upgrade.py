"""Applies migrations, each exactly once, even if several processes try at the same moment.

A migration and its entry in the list of applied ones are one transaction under one advisory lock. So a process that is
killed leaves nothing half done, and one that has waited for the lock checks again and finds the migration applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.store.schema.look import inspect_schema
from horsies.store.schema.migrations import LOCK_TIMEOUT_S, Migration, application, beginning
from horsies.store.schema.refusal import explained
from horsies.store.schema.state import SchemaError, SchemaKind, SchemaState

if TYPE_CHECKING:
    import asyncpg

# If nothing is to do, a role without write privileges is accepted: it may only want to read results.
_CREATABLE = frozenset({SchemaKind.EMPTY, SchemaKind.CURRENT, SchemaKind.READ_ONLY})
_UPGRADABLE = frozenset({SchemaKind.UPSTREAM, SchemaKind.OLDER, SchemaKind.CURRENT, SchemaKind.READ_ONLY})

_OLDEST_SERVER = 140000  # CREATE OR REPLACE TRIGGER


async def create(conn: asyncpg.Connection, *, lock_timeout: float = LOCK_TIMEOUT_S) -> list[Migration]:
    """Create all tables in one transaction, if there are none. Returns the applied migrations."""
    state = await creatable(conn)
    if not state.pending:
        return []
    async with explained(conn, state), conn.transaction(isolation="read_committed"):
        await conn.execute(beginning(state.schema))
        state = await creatable(conn)
        for migration in state.pending:
            await conn.execute(application(migration, lock_timeout))
    return list(state.pending)


async def upgrade(conn: asyncpg.Connection, *, lock_timeout: float = LOCK_TIMEOUT_S) -> list[Migration]:
    """Adopt upstream's tables or upgrade older ones, with a transaction for each migration; no row is lost.

    Returns the applied migrations. `lock_timeout` is how many seconds it waits for a table that another session has
    locked.
    """
    applied: list[Migration] = []
    while (state := await upgradable(conn)).pending:
        async with explained(conn, state), conn.transaction(isolation="read_committed"):
            await conn.execute(beginning(state.schema))
            state = await upgradable(conn)
            for migration in state.pending[:1]:
                await conn.execute(application(migration, lock_timeout))
                applied.append(migration)
    return applied


async def creatable(conn: asyncpg.Connection) -> SchemaState:
    """The state from which `create` would start; SchemaError if it would refuse."""
    return await _allowed(conn, _CREATABLE)


async def upgradable(conn: asyncpg.Connection) -> SchemaState:
    """The state from which `upgrade` would start; SchemaError if it would refuse."""
    return await _allowed(conn, _UPGRADABLE)


async def _allowed(conn: asyncpg.Connection, kinds: frozenset[SchemaKind]) -> SchemaState:
    state = await inspect_schema(conn)
    if state.kind not in kinds:
        raise state.error
    if state.pending:
        require_server(await conn.fetchval("SELECT pg_catalog.current_setting('server_version_num')::integer"))
    return state


def require_server(version: int) -> None:
    """Raise SchemaError for a server (its server_version_num) that is too old for the migrations."""
    if version < _OLDEST_SERVER:
        raise SchemaError(
            f"the server is PostgreSQL {version // 10000}, the schema needs {_OLDEST_SERVER // 10000} or later",
            help_text="upgrade the server, or use another",
        )
