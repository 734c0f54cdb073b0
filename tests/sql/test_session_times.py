"""Every time that PostgreSQL can store is read without an error, written back as it was, and marked where it is not
what it seems."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import pytest

from horsies.config.url import DatabaseUrl
from horsies.domain.damage import Damaged, DamagedTime, damaged_fields, json_map, number, texts
from horsies.store.connect import Database
from horsies.store.times import read_all_times

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
