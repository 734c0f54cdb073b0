"""The PostgreSQL server on which tests have databases and roles of their own, gone when the test has ended."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import asyncpg
import psycopg

from horsies.config.url import DatabaseUrl
from horsies.store.schema import create


class DatabaseServer:
    """Makes and drops databases. Their names begin with horsies_test_ and eight digits that no other process has."""

    def __init__(self, url: str, copying: str = "") -> None:
        """`url`: of a database of a superuser. `copying`: how to copy a database, for this server the fastest."""
        self.url = DatabaseUrl.parse(url).secret_text
        self._copying = copying
        self._prefix = _unique_name()
        self._numbers = itertools.count(1)
        # Kept for all tests: to connect takes as long as what is asked for.
        self._administrator: psycopg.Connection[Any] = psycopg.connect(self.url, autocommit=True)
        self._template = f"{self._prefix}_template"
        self._administer(f"CREATE DATABASE {self._template} TEMPLATE template0")
        asyncio.run(_create_tables(url_with(self.url, database=self._template)))

    def close(self) -> None:
        self._administer(f"DROP DATABASE {self._template}")
        self._administrator.close()

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """The URL of a database with nothing in it."""
        with self._copy_of("template0") as url:
            yield url

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database with our schema."""
        with self._copy_of(self._template) as url:
            yield url

    @contextmanager
    def filled_database(self, rows: str) -> Iterator[str]:
        """The URL of a database with our schema and what these statements insert, vacuumed and analyzed."""
        with self.database() as url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(rows.encode())
                connection.execute("VACUUM ANALYZE")
            yield url

    @contextmanager
    def _copy_of(self, template: str) -> Iterator[str]:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name} TEMPLATE {template} {self._copying}")
        try:
            yield url_with(self.url, database=name)
        finally:
            self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def _administer(self, statement: str) -> None:
        self._administrator.execute(statement.encode())


@asynccontextmanager
async def new_role(connection: asyncpg.Connection) -> AsyncIterator[str]:
    """A role that may log in, its name being its password, and nothing else. Its name is its own, as roles are the
    server's, on which other processes run the same test."""
    name = _unique_name()
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    try:
        yield name
    finally:
        await connection.execute(f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")


def url_with(url: str, *, database: str | None = None, role: str | None = None, **parameters: str) -> str:
    """Another database, a role of new_role() (no name: nobody), more parameters."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    if role is not None:
        login, at = f"{role}:{role}", "@"
    if role == "":
        login = at = ""
    path = parts.path if database is None else f"/{database}"
    query = "&".join(filter(None, (parts.query, urlencode(parameters))))
    return f"postgresql://{login}{at}{place}{path}" + (f"?{query}" if query else "")


def uuid7(at: str = "clock_timestamp()") -> str:
    """SQL for an id as the engine makes it at that time; PostgreSQL has uuidv7() from version 18 on only."""
    milliseconds = f"substring(int8send((extract(epoch FROM {at}) * 1000)::bigint) FROM 3)"
    stamped = f"overlay(uuid_send(gen_random_uuid()) PLACING {milliseconds} FROM 1 FOR 6)"
    return f"encode(set_bit(set_bit({stamped}, 52, 1), 53, 1), 'hex')::uuid"


async def _create_tables(url: str) -> None:
    connection = await asyncpg.connect(url)
    await create(connection)
    await connection.close()


def _unique_name() -> str:
    return f"horsies_test_{secrets.token_hex(4)}"
