"""Our sessions on any server or role: durable commits, READ COMMITTED, array types, and every time that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from database_server import DatabaseServer, url_with
from lifecycle_steps import capped, enqueue
from until import until

from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.domain.damage import Damaged, DamagedTime, damaged_fields, json_map, number, texts
from horsies.store.connect import _SETTINGS_PER_TRANSACTION, Database, DatabaseUnavailable, transaction
from horsies.store.dedicated_connection import DedicatedConnection, inspect_server
from horsies.store.producer_client import Link
from horsies.store.times import ELEMENTS, ArrayConnection, read_all_times

WHAT = "SHOW synchronous_commit"


@pytest.fixture
async def unsafe(connection: asyncpg.Connection, database: str) -> str:
    """A database whose commits do not wait for the disk, unless a session asks for it."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    return database


def opened(url: str) -> Database:
    return Database(DatabaseUrl.parse(url), "in a test", None)


@pytest.fixture
async def opened_by_role(unsafe: str) -> AsyncIterator[dict[str, DedicatedConnection]]:
    made = {
        f"{role} {durable}": DedicatedConnection(opened(unsafe), f"worker {role}", behind_pooler=False, durable=durable)
        for role in ("claim", "start", "finish", "beat")
        for durable in (True, False)
    }
    yield made
    for dedicated in made.values():
        await dedicated.close()


async def test_starts_and_outcomes_wait_for_the_disk_where_the_server_does_not(
    opened_by_role: dict[str, DedicatedConnection],
) -> None:
    found = {name: await (await dedicated.ready()).fetchval(WHAT) for name, dedicated in opened_by_role.items()}
    durable = {f"{role} True": "on" for role in ("claim", "start", "finish")} | {"beat True": "off"}
    assert found == durable | {f"{role} False": "off" for role in ("claim", "start", "finish", "beat")}


@pytest.mark.parametrize(("durable", "expected"), [(True, "on"), (False, "off")])
async def test_sends_wait_for_the_disk_unless_the_configuration_says_otherwise(
    unsafe: str, durable: bool, expected: str
) -> None:
    link = await Link.open(PostgresConfig(database_url=unsafe, durable=durable))
    assert await link.use(lambda connection: connection.fetchval(WHAT)) == expected
    await link.close()


async def test_any_other_value_is_the_administrators_choice(connection: asyncpg.Connection, database: str) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = remote_write")
    dedicated = DedicatedConnection(opened(database), "worker finish", behind_pooler=False)
    assert await (await dedicated.ready()).fetchval(WHAT) == "remote_write"
    await dedicated.close()


async def test_a_session_that_cannot_be_made_durable_is_not_left_open(
    connection: asyncpg.Connection, database: str, role: str
) -> None:
    """As when a broker closes at this moment: it has no connection yet that it could close."""
    await connection.execute("REVOKE EXECUTE ON FUNCTION set_config FROM PUBLIC")
    with pytest.raises(DatabaseUnavailable, match="permission denied for function set_config") as caught:
        await opened(url_with(database, role=role)).connect("left open", durable=True)
    sessions = "SELECT FROM pg_stat_activity WHERE application_name = 'horsies left open'"
    await until(connection, f"NOT EXISTS ({sessions} AND datname = current_database())")
    assert caught.value.__cause__ is not None  # whose traceback holds what connect() had opened


async def test_a_worker_is_warned_of_a_server_that_loses_commits(unsafe: str, empty_database: str) -> None:
    assert (await inspect_server(opened(empty_database), durable=True))[1] == []
    (text,) = (await inspect_server(opened(unsafe), durable=True))[1]
    assert text.startswith("synchronous_commit is off: sends, starts and outcomes set it to on")
    (text,) = (await inspect_server(opened(unsafe), durable=False))[1]
    assert text.endswith("are lost, because of durable=False")


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "behind a pooler"])
async def test_capped_claims_work_for_a_role_with_a_stricter_default(
    connection: asyncpg.Connection, database: str, isolation: str, pooled: bool
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    await enqueue(connection, "a", "b")
    if pooled:  # as after a pooler has refused the settings
        session = await asyncpg.connect(database)
        _SETTINGS_PER_TRANSACTION[session] = (("lock_timeout", "1s"),)
    else:
        session = await opened(database).connect("worker claim")
    async with transaction(session):
        assert await session.fetchval("SHOW transaction_isolation") == "read committed"
        assert not pooled or await session.fetchval("SHOW lock_timeout") == "1s"
    assert len(await capped(session, [("default", 1)])) == 1
    await session.close()


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
    conn = await asyncpg.connect(database, connection_class=ArrayConnection, statement_cache_size=cached)
    assert [kind for kind, value in VALUES.items() if await asked_for(conn, kind, value)] == []
    await conn.close()


async def test_types_of_a_database_are_asked_for_by_each_connection(server: DatabaseServer) -> None:
    for members, value in (("a integer", (7,)), ("a text, b text", ("x", "y"))):
        with server.empty_database() as url:
            for _ in range(2):
                conn = await asyncpg.connect(url, connection_class=ArrayConnection)
                if not await conn.fetchval("SELECT to_regtype('pair')"):
                    await conn.execute(f"CREATE TYPE pair AS ({members})")
                assert await asked_for(conn, "pair", [value])
                await conn.close()


DAMAGED = (
    "infinity",
    "-infinity",
    "4713-01-01 00:00:00+00 BC",
    "4000-01-01 12:34:56+00 BC",
    "0001-12-31 23:59:59+00 BC",
    "10000-01-01 00:00:00+00",
    "294276-12-31 23:59:59+00",
)
SOUND = (
    "0001-01-01 00:00:00+00",
    "0001-01-03 00:00:00.000001+00",
    "1999-12-31 23:59:59.999999+00",
    "2000-01-01 00:00:00+00",
    "2026-11-19 12:00:00.123456+00",
    "9999-12-31 23:59:59.999999+00",
)


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await Database(DatabaseUrl.parse(database), "in a test", None).connect(
        "test", settings=(("timezone", "UTC"),)
    )
    yield opened
    await opened.close()


@pytest.mark.parametrize("stored", DAMAGED)
async def test_a_time_that_datetime_lacks_is_its_bound_and_says_what_it_is(
    conn: asyncpg.Connection, stored: str
) -> None:
    time, naive, many = await conn.fetchrow(
        "SELECT $1::text::timestamptz, $1::text::timestamp, ARRAY[$1::text::timestamptz, NULL]", stored
    )
    assert isinstance(time, DamagedTime)
    assert time.stored == await conn.fetchval("SELECT $1::text::timestamptz::text", stored) == stored
    assert time == naive == many[0]
    assert time.tzinfo is UTC
    assert time.year == (9999 if "BC" not in stored and not stored.startswith("-") else 1)
    assert await conn.fetchval(
        "SELECT $1::timestamptz = $3::text::timestamptz AND ($2::timestamptz[])[1] = $1", time, many, stored
    )
    for zone in (timezone(timedelta(hours=14)), timezone(timedelta(hours=-12)), None):
        time.astimezone(zone)
    assert [time + timedelta(days=800), time - timedelta(days=800)] != []
    assert isinstance(time - datetime.now(UTC), timedelta)


@pytest.mark.parametrize("stored", SOUND)
async def test_any_other_time_is_what_asyncpg_reads(
    conn: asyncpg.Connection, connection: asyncpg.Connection, stored: str
) -> None:
    query = "SELECT $1::text::timestamptz, ($1::text::timestamptz AT TIME ZONE 'UTC')"
    ours = tuple(await conn.fetchrow(query, stored))
    assert ours == tuple(await connection.fetchrow(query, stored))
    assert [time.tzinfo for time in ours] == [UTC, None]
    assert not any(isinstance(time, Damaged) for time in ours)
    assert tuple(await conn.fetchrow("SELECT $1::timestamptz, $2::timestamp", *ours)) == ours
    ours[0].astimezone(timezone(timedelta(hours=-12)))


async def test_lengths_of_time_saturate(conn: asyncpg.Connection) -> None:
    assert await conn.fetchval("SELECT interval '178000000 years'") == timedelta.max
    assert await conn.fetchval("SELECT interval '-178000000 years'") == timedelta.min
    assert await conn.fetchval("SELECT interval '1 year -2 mons 3 days 4.5 s'") == timedelta(days=303, seconds=4.5)
    for length in (timedelta(days=-1, microseconds=1), timedelta(days=3, seconds=5)):
        assert await conn.fetchval("SELECT $1::interval", length) == length


async def test_the_server_is_asked_for_nothing(connection: asyncpg.Connection) -> None:
    with connection.query_logger(pytest.fail):
        await read_all_times(connection)
    with pytest.raises(asyncpg.DataError, match="expected a datetime or a date, not str"):
        await connection.fetchval("SELECT $1::timestamptz", "2026-01-01")


@dataclass(frozen=True)
class Inner:
    settings: Any


@dataclass(frozen=True)
class Outer:
    at: datetime
    load: float | None
    names: tuple[str, ...]
    inner: Inner | None
    inners: tuple[Inner, ...]


def test_a_record_names_its_damaged_fields() -> None:
    damaged, sound = Inner(json_map("[1]")), Inner(json_map('{"a": 1}'))
    record = Outer(
        DamagedTime.of(2**63 - 1), number(float("nan")), texts([["a"], None, "b"]), damaged, (sound, damaged)
    )
    assert damaged_fields(record) == {
        "at": "infinity",
        "load": "nan",
        "names": "(['a'], None, 'b')",
        "inner.settings": "[1]",
        "inners.settings": "[1]",
    }
    assert record.names == ("b",)
    assert record.load == 0.0
    assert damaged_fields(Outer(datetime.now(UTC), 0.5, ("a",), None, (sound,))) == {}


@pytest.mark.parametrize("stored", ["", "nothing", "[" * 100_000, "1" * 5_000, "NaN", "null", "7", '"text"'])
def test_json_that_is_no_object_is_an_empty_one(stored: str) -> None:
    found = json_map(stored)
    assert found == {}
    assert isinstance(found, Damaged)
