"""Looks into a database for our tables; changes nothing."""

from __future__ import annotations

import asyncpg

from horsies.store.schema.contents import LEDGER, LEDGER_COLUMNS, NAMES
from horsies.store.schema.migrations import quoted, sql_file
from horsies.store.schema.state import Found, SchemaError, SchemaKind, SchemaState, judge

_WHAT_IS_THERE = sql_file("look.sql")
_APPLIED = sql_file("applied.sql")


async def inspect_schema(conn: asyncpg.Connection) -> SchemaState:
    """The state of the schema that an unqualified table name leads to on this connection."""
    async with conn.transaction():  # one backend for all statements, behind PgBouncer too
        schema, found = await _what_is_there(conn)
        applied = await _applied(conn, schema) if _has_list(found) else {}
        if applied:
            # Looked at before the list, the tables of a migration that commits in between would seem to be missing.
            schema, found = await _what_is_there(conn)
    return judge(schema, found, applied)


async def _what_is_there(conn: asyncpg.Connection) -> tuple[str, dict[str, Found]]:
    rows = await conn.fetch(_WHAT_IS_THERE, NAMES)
    if not rows:
        raise await _no_schema(conn)
    found = {row["name"]: Found(row["is_table"], frozenset(row["columns"])) for row in rows if row["name"]}
    return rows[0]["schema"], found


async def require_current(conn: asyncpg.Connection) -> None:
    """Raise SchemaError with the way out unless the schema is as this release needs it."""
    state = await inspect_schema(conn)
    if state.kind is not SchemaKind.CURRENT:
        raise state.error


def _has_list(found: dict[str, Found]) -> bool:
    return LEDGER in found and found[LEDGER].is_table and found[LEDGER].columns >= LEDGER_COLUMNS


async def _applied(conn: asyncpg.Connection, schema: str) -> dict[int, str]:
    try:
        rows = await conn.fetch(_APPLIED.format(schema=quoted(schema)))
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not read {schema}.{LEDGER}",
            help_text=f"as its owner: GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(schema)} TO the role",
        ) from error
    return {row["version"]: row["name"] for row in rows}


async def _no_schema(conn: asyncpg.Connection) -> SchemaError:
    path = await conn.fetchval("SHOW search_path")
    return SchemaError(
        f"no schema of the search path ({path}) exists, or this role may not use it",
        help_text="create the schema, correct search_path, or GRANT USAGE on the schema to the role",
    )
