"""Applies migrations, each exactly once, even if several processes try at the same moment; explains refusals.

A migration and its entry in the list of applied ones are one transaction under one advisory lock. So a process that is
killed leaves nothing half done, and one that has waited for the lock checks again and finds the migration applied.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from horsies.store.schema.contents import NAMES
from horsies.store.schema.migrations import LOCK_TIMEOUT_S, Migration, application, beginning, quoted, sql_file
from horsies.store.schema.state import SchemaError, SchemaKind, SchemaState, inspect_schema
from horsies.store.statements import qualified, without_comments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_HOLDERS = qualified(without_comments(sql_file("holders.sql")))
_RIGHTS = qualified(without_comments(sql_file("rights.sql")))

_BUSY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

# The server is stopping or full: code that retries connections handles it; the schema has no fault.
_PASSING = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
)


@asynccontextmanager
async def explained(conn: asyncpg.Connection, state: SchemaState) -> AsyncIterator[None]:
    """Wrap a transaction that changes the schema: after its rollback, raise server errors as SchemaError."""
    try:
        yield
    except _BUSY as error:
        raise await _busy(conn, state) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise await _forbidden(conn, state, error) from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise SchemaError(
            "this server, or this session, is read-only, so the schema cannot be changed here",
            help_text="connect to the primary (target_session_attrs=read-write), or allow writes in this session",
        ) from error
    except _PASSING:
        raise
    except asyncpg.PostgresError as error:
        raise SchemaError(
            f"the migration of schema {state.schema} from version {state.version} failed and changed nothing: {error}",
            notes=[text for text in (error.detail, error.hint) if text],
            help_text=f"remove what PostgreSQL names and run `{_command(state)}` again",
        ) from error


def _command(state: SchemaState) -> str:
    return "horsies db init" if state.kind is SchemaKind.EMPTY else "horsies db upgrade"


async def _busy(conn: asyncpg.Connection, state: SchemaState) -> SchemaError:
    async with conn.transaction():
        holders = await conn.fetch(_HOLDERS, state.schema, NAMES)
    end_it = f", or end it with SELECT pg_terminate_backend({holders[0]['pid']})," if holders else ","
    return SchemaError(
        f"the migration of schema {state.schema} from version {state.version} was aborted and changed nothing:"
        " another session has locked a table that it needs exclusively",
        notes=[
            f"{row['held']} is locked by pid {row['pid']} ({row['who']}, {row['state']} for {row['seconds']:.0f} s)"
            for row in holders
        ],
        help_text=f"let it finish{end_it} then run `{_command(state)}` again",
    )


async def _forbidden(
    conn: asyncpg.Connection, state: SchemaState, error: asyncpg.InsufficientPrivilegeError
) -> SchemaError:
    async with conn.transaction():
        rights = await conn.fetchrow(_RIGHTS, state.schema, NAMES)
    if rights["other_owner"]:
        way_out = f"run `{_command(state)}` as {rights['other_owner']}, who owns the tables"
    elif rights["may_create"]:
        way_out = f"run `{_command(state)}` as the owner of the object that PostgreSQL names"
    else:
        grant = f"GRANT USAGE, CREATE ON SCHEMA {quoted(state.schema)} TO {quoted(rights['role'])}"
        way_out = f"as the owner of the schema: {grant}"
    return SchemaError(f"role {rights['role']} may not change schema {state.schema}: {error}", help_text=way_out)


# If nothing is to do, a role without write privileges is accepted: it may only want to read results.
_CREATABLE = frozenset({SchemaKind.EMPTY, SchemaKind.CURRENT, SchemaKind.READ_ONLY})
_UPGRADABLE = frozenset({SchemaKind.UPSTREAM, SchemaKind.OLDER, SchemaKind.CURRENT, SchemaKind.READ_ONLY})

_OLDEST_SERVER = 140000  # CREATE OR REPLACE TRIGGER


async def create(conn: asyncpg.Connection) -> list[Migration]:
    """Create all tables in one transaction, if there are none. Returns the applied migrations."""
    state = await creatable(conn)
    if not state.pending:
        return []
    async with explained(conn, state), conn.transaction(isolation="read_committed"):
        await conn.execute(beginning(state.schema))
        state = await creatable(conn)
        for migration in state.pending:
            await conn.execute(application(migration))
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
    """Return the state from which `create` would start; SchemaError if it would refuse."""
    return await _allowed(conn, _CREATABLE)


async def upgradable(conn: asyncpg.Connection) -> SchemaState:
    """Return the state from which `upgrade` would start; SchemaError if it would refuse."""
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
