"""Explains why PostgreSQL refused a migration, and what an operator can do about it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from horsies.store.schema.contents import NAMES
from horsies.store.schema.migrations import quoted, sql_file
from horsies.store.schema.state import SchemaError, SchemaKind
from horsies.store.statements import qualified, without_comments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from horsies.store.schema.state import SchemaState

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
