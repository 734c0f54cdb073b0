"""Connections know the array types of our statements without asking the server, and ask for the types of a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from database_server import DatabaseServer

from horsies.store.array_types import ELEMENTS, Session

MOMENT = datetime(2026, 11, 19, tzinfo=UTC)
VALUES = {
    "bool": [True, None],
    "int2": [-1],
    "int4": [[1, 2], [3, 4]],
    "tid": [(0, 1)],
    "varchar": ["a,b", None, '"'],
    "int8": [1, None, 2**40],
    "float4": [0.5],
    "float8": [0.1],
    "timestamp": [MOMENT.replace(tzinfo=None)],
    "timestamptz": [MOMENT],
    "interval": [timedelta(hours=1)],
    "json": ['{"a": 1}'],
    "uuid": [UUID(int=7)],
    "jsonb": ['{"a": 1}'],
}


async def asked_for(conn: asyncpg.Connection, kind: str, value: Any) -> bool:
    """Whether the server was asked what this type is; it must give back what it was given."""
    texts: list[str] = []
    with conn.query_logger(lambda record: texts.append(record.query)):
        assert await conn.fetchval(f"SELECT $1::{kind}[]", value) == value
    return any("typeinfo_tree" in text for text in texts)


async def test_the_ids_are_those_of_the_server(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT oid::int, typelem::int, typdelim FROM pg_type WHERE typname = ANY ($1::text[])",
        [f"_{kind}" for kind in VALUES],
    )
    assert {row["oid"]: row["typelem"] for row in rows} == ELEMENTS
    assert {row["typdelim"] for row in rows} == {b","}


@pytest.mark.parametrize("cached", [0, 100])
async def test_arrays_are_read_and_written_without_asking(database: str, cached: int) -> None:
    conn = await asyncpg.connect(database, connection_class=Session, statement_cache_size=cached)
    assert [kind for kind, value in VALUES.items() if await asked_for(conn, kind, value)] == []
    await conn.close()


async def test_types_of_a_database_are_asked_for_by_each_connection(server: DatabaseServer) -> None:
    for members, value in (("a integer", (7,)), ("a text, b text", ("x", "y"))):
        with server.empty_database() as url:
            for _ in range(2):
                conn = await asyncpg.connect(url, connection_class=Session)
                if not await conn.fetchval("SELECT to_regtype('pair')"):
                    await conn.execute(f"CREATE TYPE pair AS ({members})")
                assert await asked_for(conn, "pair", [value])
                await conn.close()
