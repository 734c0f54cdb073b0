"""The data of the screenshots: always the same rows, in a database with a fixed time."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOMENT: Final = datetime(2026, 11, 18, 12, 4, 31, 400_000, tzinfo=UTC)

_PARTS: Final = ("shop.sql", "flows.sql", "cluster.sql", "schedules.sql", "settle.sql", "activity.sql")
_REASON: Final = "made for the pictures"
_NAME: Final = "app"

_ARRIVALS: Final = """
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, created_at, sent_at, updated_at, enqueued_at)
SELECT pictures.id_of(at, 'arrival' || n), 'send_confirmation', 'mail', 10, at, at, at, at
  FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT now() - (0.6 - n * 0.01) * interval '1 s' AS at) made
"""

_ANSWERS: Final = """
CREATE FUNCTION pictures.answer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.answered_at := now();
  NEW.answer := CASE TG_OP WHEN 'INSERT' THEN '{}' ELSE '{}' END;
  RETURN NEW;
END $$;
CREATE TRIGGER answer BEFORE INSERT OR UPDATE ON horsies_looks FOR EACH ROW EXECUTE FUNCTION pictures.answer();
"""
_STOP_TIME: Final = "ALTER DATABASE {} SET search_path = pictures, public, pg_catalog"
"""Fixes the time. A copy of a database does not inherit its settings."""
_THROW_OUT: Final = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"


async def set_scene(url: str) -> None:
    """Fill a database that has the schema and no rows."""
    database = Database(DatabaseUrl.parse(url), _REASON, None)
    async with database.connected("shots") as connection:
        await connection.execute(_text("stop_time.sql").replace("{moment}", MOMENT.isoformat()))
        await connection.execute(_STOP_TIME.format(database.url.database))
    async with database.connected("shots") as connection:  # only new connections have the fixed time
        for part in _PARTS:
            await connection.execute(_text(part))


def address_of(url: str) -> DatabaseUrl:
    """Return the database's address with a name that is the same on every machine."""
    return replace(DatabaseUrl.parse(url), hosts=("db01:5432",), database=_NAME)


def nowhere() -> DatabaseUrl:
    """Return an address at which no server listens."""
    return replace(DatabaseUrl.parse("postgresql://ops@127.0.0.1:1/app"), hosts=("db02:5432",))


async def arrive(url: str, count: int) -> None:
    """Insert this many tasks, newer than all others."""
    async with Database(DatabaseUrl.parse(url), _REASON, None).connected("shots") as connection:
        await connection.execute(_ARRIVALS, count)


async def answer_looks(url: str, first: object, later: object) -> None:
    """Answer each request for a stack at once, as the task's worker would; `later` is the answer to later requests."""
    answers = [json.dumps(answer).replace("'", "''") for answer in (first, later)]
    async with Database(DatabaseUrl.parse(url), _REASON, None).connected("shots") as connection:
        await connection.execute(_ANSWERS.format(*answers))


@asynccontextmanager
async def copied(url: str) -> AsyncIterator[str]:
    """Return a copy that has the name in the screenshots, because the server includes it in errors. A copy takes 0.02 s
    of processor time, the original 0.5.
    """
    made = DatabaseUrl.parse(url).database
    await _administer(url, f"CREATE DATABASE {_NAME} TEMPLATE {made}", _STOP_TIME.format(_NAME))
    try:
        yield urlsplit(url)._replace(path=f"/{_NAME}").geturl()
    finally:
        await _administer(url, f"DROP DATABASE {_NAME} WITH (FORCE)")


async def shut(url: str) -> None:
    """Refuse connections to this database, and terminate the existing ones."""
    name = DatabaseUrl.parse(url).database
    await _administer(url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", _THROW_OUT.format(name))


async def _administer(url: str, *statements: str) -> None:
    """Run statements from another database of the same server."""
    maintenance = DatabaseUrl.parse(urlsplit(url)._replace(path="/postgres").geturl())
    async with Database(maintenance, _REASON, None).connected("shots") as connection:
        for statement in statements:
            await connection.execute(statement)


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
