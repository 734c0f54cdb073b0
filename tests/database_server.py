"""The PostgreSQL server of the tests, with temporary databases and roles for each test."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import asyncpg
import psycopg

from horsies.config.url import DatabaseUrl
from horsies.store.schema import create
from horsies.store.times import known

_WITHOUT_AUTOVACUUM = """
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
    END LOOP;
END
$$
"""


def as_written(actions: str) -> str:
    """Statements on horsies_operator_actions, without the trigger by which the server says who acted and when."""
    return f"SET session_replication_role = replica; {actions}; RESET session_replication_role"


class DatabaseServer:
    """Makes and drops databases. Their names begin with horsies_test_ and eight digits that no other process has."""

    def __init__(self, url: str, copying: str = "") -> None:
        """`url` is that of a superuser's database. `copying` is the fastest way to copy a database on this server."""
        self.url = DatabaseUrl.parse(url).secret_text
        self._copying = copying
        self._prefix = _unique_name()
        self._numbers = itertools.count(1)
        # Kept for all tests: connecting takes as long as the statement.
        self._administrator: psycopg.Connection[Any] = psycopg.connect(self.url, autocommit=True)
        # Half of what a test's database costs is the copying of files. From version 18 on the kernel does it.
        self._administer(
            "SELECT set_config(name, 'clone', false) FROM pg_settings"
            " WHERE name = 'file_copy_method' AND 'clone' = ANY (enumvals)"
        )
        self._empty = f"{self._prefix}_empty"
        self._administer(f"CREATE DATABASE {self._empty} TEMPLATE template0")
        _compact(url_with(self.url, database=self._empty))
        self._template = f"{self._prefix}_template"
        self._administer(f"CREATE DATABASE {self._template} TEMPLATE {self._empty}")
        asyncio.run(_create_tables(url_with(self.url, database=self._template)))

    def close(self) -> None:
        for template in (self._template, self._empty):
            self._administer(f"DROP DATABASE {template}")
        self._administrator.close()

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """The URL of an empty database."""
        with self._copy_of(self._empty) as url:
            yield url

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database with the current schema."""
        with self._copy_of(self._template) as url:
            yield url

    @contextmanager
    def filled_database(self, rows: str) -> Iterator[str]:
        """The URL of a database with the current schema and the rows of these statements, vacuumed and analyzed.

        Autovacuum is off there: while its snapshot lasts, rows that a test has left are read again, 8,400 entries in
        place of 2,800.
        """
        with self.database() as url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(rows.encode())
                connection.execute(_WITHOUT_AUTOVACUUM)
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
    """A role that may log in, with its name as password, and nothing else.

    The name is unique, because roles belong to the server, on which other processes run the same test.
    """
    name = _unique_name()
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    try:
        yield name
    finally:
        await connection.execute(f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")


def url_with(url: str, *, database: str | None = None, role: str | None = None, **parameters: str) -> str:
    """The URL with another database, a role of new_role() (empty name: no user), or more parameters."""
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
    """SQL for an id as the engine generates it at that time; PostgreSQL has uuidv7() only from version 18 on."""
    milliseconds = f"substring(int8send((extract(epoch FROM {at}) * 1000)::bigint) FROM 3)"
    stamped = f"overlay(uuid_send(gen_random_uuid()) PLACING {milliseconds} FROM 1 FOR 6)"
    return f"encode(set_bit(set_bit({stamped}, 52, 1), 53, 1), 'hex')::uuid"


def _compact(url: str) -> None:
    """Rewrite the system catalogs without the maps of free and of visible pages that initdb leaves: 75 files of 435.

    These pages took a seventh of the time to copy a database; PostgreSQL makes them when it needs them.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND NOT relisshared ORDER BY oid"
        )
        connection.execute(f"VACUUM FULL {', '.join(name for (name,) in rows)}".encode())


def know_array_types() -> None:
    """Connections that tests open themselves know what the engine's know: a test with a database costs a third less."""
    ask = asyncpg.Connection._introspect_types

    async def introspect(self: asyncpg.Connection, typeoids: Collection[int], within: float | None) -> Any:
        return known(typeoids) or await ask(self, typeoids, within)

    asyncpg.Connection._introspect_types = introspect


async def _create_tables(url: str) -> None:
    connection = await asyncpg.connect(url)
    await create(connection)
    await connection.close()


def _unique_name() -> str:
    return f"horsies_test_{secrets.token_hex(4)}"
