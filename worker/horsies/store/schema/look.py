"""Inspects the schema of a database; changes nothing."""

from __future__ import annotations

import asyncpg

from horsies.store.schema.contents import LEDGER, LEDGER_COLUMNS, NAMES
from horsies.store.schema.migrations import quoted, sql_file
from horsies.store.schema.state import FoundObject, SchemaError, SchemaKind, SchemaSession, SchemaState, judge
from horsies.store.statements import qualified, without_comments

_CONTENTS = qualified(without_comments(sql_file("look.sql")))
_APPLIED = sql_file("applied.sql")


async def inspect_schema(conn: asyncpg.Connection) -> SchemaState:
    """Return the state of the schema that an unqualified table name refers to on this connection."""
    async with conn.transaction():  # one backend for all statements, behind PgBouncer too
        session, found = await _read_contents(conn)
        applied = await _applied(conn, session) if _has_list(found) else {}
        if applied:
            # If they were read before the list, the tables of a migration that commits in between would appear to be
            # missing.
            session, found = await _read_contents(conn)
    return judge(session, found, applied)


async def _read_contents(conn: asyncpg.Connection) -> tuple[SchemaSession, dict[str, FoundObject]]:
    rows = await conn.fetch(_CONTENTS, NAMES)
    if not rows:
        raise await _no_schema(conn)
    first = rows[0]
    session = SchemaSession(first["schema"], first["role"], first["read_only"])
    return session, {row["name"]: _found(row) for row in rows if row["name"]}


def _found(row: asyncpg.Record) -> FoundObject:
    sets = (frozenset(row[part]) for part in ("columns", "triggers", "indexes", "privileges"))
    return FoundObject(row["is_table"], *sets)


async def require_current(conn: asyncpg.Connection) -> None:
    """Raise SchemaError with the remedy unless the schema is as this release needs it."""
    state = await inspect_schema(conn)
    if state.kind is not SchemaKind.CURRENT:
        raise state.error


def _has_list(found: dict[str, FoundObject]) -> bool:
    return LEDGER in found and found[LEDGER].is_table and found[LEDGER].columns >= LEDGER_COLUMNS


async def _applied(conn: asyncpg.Connection, session: SchemaSession) -> dict[int, str]:
    try:
        rows = await conn.fetch(_APPLIED.format(schema=quoted(session.schema)))
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"role {session.role} may not read {session.schema}.{LEDGER}",
            help_text=f"as its owner: GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(session.schema)}"
            f" TO {quoted(session.role)}",
        ) from error
    return {row["version"]: row["name"] for row in rows}


async def _no_schema(conn: asyncpg.Connection) -> SchemaError:
    path, role = await conn.fetchrow("SELECT pg_catalog.current_setting('search_path'), current_user")
    return SchemaError(
        f"no schema of the search path ({path}) exists, or role {role} may not use it",
        help_text=f"create the schema, correct search_path, or GRANT USAGE ON SCHEMA <name> TO {quoted(role)}",
    )
