"""Connections of tests ask for built-in array types once in a process, and for the types of a database each time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from database_server import DatabaseServer

VALUES = {
    "bigint": [1, None, 2**40],
    "integer": [[1, 2], [3, 4]],
    "float8": [0.5],
    "boolean": [True, None],
    "uuid": [UUID(int=7)],
    "timestamptz": [datetime(2026, 11, 19, tzinfo=UTC)],
    "jsonb": ['{"a": 1}'],
    "tid": [(0, 1)],
}


async def asked_for(conn: asyncpg.Connection, kind: str, value: Any) -> bool:
    """Whether the server was asked what this type is; it must give back what it was given."""
    texts: list[str] = []
    with conn.query_logger(lambda record: texts.append(record.query)):
        assert await conn.fetchval(f"SELECT $1::{kind}[]", value) == value
    return any("typeinfo_tree" in text for text in texts)


@pytest.mark.parametrize("kind", VALUES)
async def test_a_connection_reads_and_writes_arrays_that_another_one_has_asked_for(database: str, kind: str) -> None:
    for cached in (0, 100):
        asked = []
        for _ in range(2):
            conn = await asyncpg.connect(database, statement_cache_size=cached)
            asked.append(await asked_for(conn, kind, VALUES[kind]))
            await conn.close()
        assert not asked[1]


async def test_types_of_a_database_are_asked_for_by_each_connection(server: DatabaseServer) -> None:
    for members, value in (("a integer", (7,)), ("a text, b text", ("x", "y"))):
        with server.empty_database() as url:
            for _ in range(2):
                conn = await asyncpg.connect(url)
                if not await conn.fetchval("SELECT to_regtype('pair')"):
                    await conn.execute(f"CREATE TYPE pair AS ({members})")
                assert await asked_for(conn, "pair", [value])
                await conn.close()
