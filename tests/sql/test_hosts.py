"""Connections: a URL with several hosts, the producer's pool, and the URL of an embedded server."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import DatabaseServer
from until import PRODUCERS, until

from horsies import AppConfig, Horsies
from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database, DatabaseUnavailable, is_transient
from horsies.store.embedded import EmbeddedServer
from horsies.store.hosts import Reached, connect_to_host
from horsies.store.pool import Pool
from horsies.store.producer_client import Link
from horsies.store.pulse import is_on_this_machine, is_refusal

NOBODY = "127.0.0.1:1"


class Hung:
    """A server that takes connections and never answers, as a stopped one."""

    address = ""
    calls = 0

    async def say_nothing(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        await reader.read()
        writer.close()


@pytest.fixture
async def hung() -> AsyncIterator[Hung]:
    server = Hung()
    async with await asyncio.start_server(server.say_nothing, "127.0.0.1", 0) as listener:
        server.address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield server


def beside(url: str, *addresses: str, behind: bool = False, **parameters: str) -> str:
    """The proxy's URL with other hosts before (or behind) its own."""
    login, _, rest = url.removeprefix("postgresql://").partition("@")
    own, _, database = rest.partition("/")
    hosts = [own, *addresses] if behind else [*addresses, own]
    more = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"postgresql://{login}@{','.join(hosts)}/{database}{more}"


def database_at(url: str) -> Database:
    return Database(DatabaseUrl.parse(url), "in a test", None)


async def test_a_host_that_hangs_is_asked_once(database: str, hung: Hung) -> None:
    async with BlackholeProxy(database) as door:
        target = database_at(beside(door.url, hung.address, target_session_attrs="read-write"))
        for connection in (await target.connect("test"), await target.connect("test")):
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
    assert hung.calls == 1


async def test_a_session_that_only_reads_finds_the_server_that_takes_writes(database: str) -> None:
    """asyncpg alone takes its own default_transaction_read_only for that of the server."""
    async with BlackholeProxy(database) as door:
        target = database_at(beside(door.url, NOBODY, target_session_attrs="read-write"))
        connection = await target.connect("test", settings=[("default_transaction_read_only", "on")])
        assert await connection.fetchval("SHOW transaction_read_only") == "on"
        await connection.close()


async def test_each_host_is_named_with_what_it_answered_and_no_password(hung: Hung, server: DatabaseServer) -> None:
    async with BlackholeProxy(server.url) as door:
        url = beside(door.url, hung.address, NOBODY, target_session_attrs="standby").replace("@", ":s3cret@", 1)
        with pytest.raises(DatabaseUnavailable) as caught:
            await database_at(url.replace(":s3cret:s3cret@", ":s3cret@")).connect("test")
    error = caught.value
    assert error.transient
    assert error.message.endswith("is a standby server now")
    notes = "\n".join(error.notes)
    assert f"{hung.address}: no answer in 3 s" in notes
    assert f"{NOBODY}: Connection refused" in notes
    assert "it is a primary" in notes
    assert "s3cret" not in notes + error.message


@pytest.mark.bench
async def test_silence_of_all_is_told_within_the_time_of_one(hung: Hung) -> None:
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable, match="did not answer in 1 s"):
        await database_at(f"postgresql://u@{hung.address},{hung.address}/d?connect_timeout=1").connect("test")
    assert 0.9 < time.monotonic() - began < 1.9


async def test_an_unknown_kind_of_server_is_refused_before_any_is_asked() -> None:
    with pytest.raises(Exception, match="none of any, read-write, read-only, primary, standby, prefer-standby"):
        PostgresConfig(database_url="postgresql://a,b/d?target_session_attrs=master")


class Fake:
    """The parts of a connection that the choice of a host uses."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.terminated = False
        self._transport = self

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_settings(self) -> Fake:
        return self

    @property
    def in_hot_standby(self) -> str:
        return "on" if self.kind == "standby" else "off"

    @property
    def default_transaction_read_only(self) -> str:
        return "on" if self.kind == "read-only" else "off"

    def terminate(self) -> None:
        self.terminated = True


@pytest.mark.parametrize(
    ("wanted", "kinds", "chosen"),
    [
        ("any", ("standby", "primary"), 0),
        ("read-write", ("standby", "read-only", "primary"), 2),
        ("primary", ("standby", "read-only", "primary"), 1),
        ("standby", ("primary", "standby"), 1),
        ("read-only", ("primary", "read-only"), 1),
        ("prefer-standby", ("primary", "standby"), 1),
        ("prefer-standby", ("primary", "refuses"), 0),
        ("read-write", ("primary", "primary"), 0),
    ],
)
async def test_the_first_host_that_is_as_asked_for_is_chosen(wanted: str, kinds: tuple[str, ...], chosen: int) -> None:
    made: list[Fake] = []

    async def open_host(address: tuple[str, int] | None) -> asyncpg.Connection:
        assert address is not None
        kind = kinds[address[1] - 1]
        if kind == "refuses":
            raise ConnectionRefusedError
        made.append(Fake(kind))
        return made[-1]

    hosts = ",".join(f"h:{number}" for number in range(1, len(kinds) + 1))
    url = DatabaseUrl.parse(f"postgresql://u@{hosts}/d?target_session_attrs={wanted}")
    connection = await connect_to_host(url, Reached(), open_host, reads_only=False)
    assert connection is made[chosen]
    assert [one for one in made if not one.terminated] == [connection]


@asynccontextmanager
async def two_doors(database: str) -> AsyncIterator[tuple[BlackholeProxy, BlackholeProxy, str]]:
    """Two proxies to one server, as a primary and the standby that takes over from it; both take writes here."""
    async with BlackholeProxy(database) as first, BlackholeProxy(database) as second:
        other = DatabaseUrl.parse(second.url).hosts[0]
        yield first, second, beside(first.url, other, behind=True, target_session_attrs="read-write")


async def test_a_connection_elsewhere_cuts_those_to_the_primary_before(database: str) -> None:
    async with two_doors(database) as (first, second, url):
        target = database_at(url)
        old = await target.connect("test")
        waiting = asyncio.create_task(old.fetchval("SELECT pg_sleep(60)"))
        await asyncio.sleep(0)
        first.silence()
        new = await target.connect("test")
        assert second.accepted == 1
        async with asyncio.timeout(30):
            with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
                await waiting
        assert await new.fetchval("SELECT 1") == 1
        await new.close()


async def test_a_producer_leaves_a_primary_that_hangs(database: str) -> None:
    async with two_doors(database) as (first, _, url):
        link = await Link.open(PostgresConfig(database_url=url))
        try:
            assert await link.use(lambda connection: connection.fetchval("SELECT 1")) == 1
            first.silence()
            assert await link.use(lambda connection: connection.fetchval("SELECT 2")) == 2
        finally:
            await link.close()


async def test_a_server_on_this_machine_is_known_and_one_behind_a_proxy_is_not(embedded_database: str) -> None:
    url = DatabaseUrl.parse(embedded_database)
    connection = await asyncpg.connect(embedded_database)
    assert await is_on_this_machine(connection, url)
    assert not await is_on_this_machine(connection, replace(url, hosts=("db01:5432", "db02:5432")))
    pooler = url.secret_text.replace("port=", "port=1")
    assert not await is_on_this_machine(connection, replace(url, secret_text=pooler))
    await connection.close()
    async with BlackholeProxy(embedded_database) as proxy:
        connection = await asyncpg.connect(proxy.url)
        assert not await is_on_this_machine(connection, DatabaseUrl.parse(proxy.url))
        await connection.close()


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "url",
    ["postgresql://u@127.0.0.1:{port}/d", "postgresql://u@localhost:{port}/d", "postgresql://u@/d?host=/nowhere"],
)
async def test_an_address_without_a_server_is_a_refusal(url: str) -> None:
    database = Database(DatabaseUrl.parse(url.format(port=unused_port())), "for a test", None)
    with pytest.raises(DatabaseUnavailable) as caught:
        await database.connect("test")
    assert is_refusal(caught.value)


async def test_a_server_that_starts_is_a_refusal_and_silence_or_a_wrong_name_is_none(embedded_database: str) -> None:
    async with BlackholeProxy(embedded_database) as proxy:
        proxy.refuse(1)
        with pytest.raises(DatabaseUnavailable) as caught:
            await Database(DatabaseUrl.parse(proxy.url), "for a test", None).connect("test")
        assert is_refusal(caught.value)
        proxy.silence()
        silent = Database(DatabaseUrl.parse(f"{proxy.url}&connect_timeout=1"), "for a test", None)
        with pytest.raises(DatabaseUnavailable) as caught:
            await silent.connect("test")
        assert not is_refusal(caught.value)
    url = DatabaseUrl.parse(embedded_database)
    nothing = replace(url, secret_text=url.secret_text.replace("/horsies_test", "/no_horsies_test"))
    with pytest.raises(DatabaseUnavailable, match="there is no database") as caught:
        await Database(nothing, "for a test", None).connect("test")
    assert not is_refusal(caught.value)


@pytest.fixture
async def make(database: str) -> AsyncIterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(*, behind_pooler: bool = False, **settings: Any) -> Pool:
        config = PostgresConfig(database_url=database, **settings)
        target = Database(DatabaseUrl.parse(database), "in a test", None)
        made.append(Pool(target, config, role="producer", behind_pooler=behind_pooler))
        return made[-1]

    yield make
    for pool in made:
        await pool.close()


async def sessions(connection: asyncpg.Connection) -> int:
    return await connection.fetchval(f"SELECT count(*) {PRODUCERS}")


async def test_one_connection_serves_one_after_the_other(
    make: Callable[..., Pool], connection: asyncpg.Connection
) -> None:
    pool = make()
    assert await sessions(connection) == 0
    first = await pool.acquire()
    pool.release(first, sound=True)
    assert await pool.acquire() is first
    assert await sessions(connection) == 1


async def test_the_overflow_is_opened_at_need_and_not_kept(
    make: Callable[..., Pool], connection: asyncpg.Connection
) -> None:
    pool = make(pool_size=1, max_overflow=2)
    taken = [await pool.acquire() for _ in range(3)]
    assert await sessions(connection) == 3
    for each in taken:
        pool.release(each, sound=True)
    await until(connection, f"(SELECT count(*) {PRODUCERS}) = 1")
    assert await pool.acquire() is taken[0]


async def test_who_finds_all_in_use_waits_and_is_told_in_the_end(make: Callable[..., Pool]) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=1)
    taken = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    pool.release(taken, sound=True)
    assert await waiting is taken
    impatient = make(pool_size=1, max_overflow=0, pool_timeout=0)
    await impatient.acquire()
    with pytest.raises(DatabaseUnavailable, match="all 1 connections of the pool have been in use for 0 s") as refused:
        await impatient.acquire()
    assert is_transient(refused.value)


async def test_a_connection_left_in_the_middle_is_closed_and_its_place_is_free(make: Callable[..., Pool]) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=0)
    broken = await pool.acquire()
    pool.release(broken, sound=False)
    assert broken.is_closed()
    assert await pool.acquire() is not broken


async def test_a_failed_attempt_to_connect_keeps_no_place(make: Callable[..., Pool]) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=0)
    reachable = pool._database
    pool._database = Database(DatabaseUrl.parse("postgresql://localhost:1/x"), "in a test", None)
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable, match="cannot connect"):
            await pool.acquire()
    pool._database = reachable
    assert not (await pool.acquire()).is_closed()


@pytest.mark.parametrize(("recycle", "kept"), [(0, False), (1800, True), (-1, True)])
async def test_an_old_connection_is_replaced(make: Callable[..., Pool], recycle: int, kept: bool) -> None:
    pool = make(pool_recycle=recycle)
    first = await pool.acquire()
    pool.release(first, sound=True)
    assert (await pool.acquire() is first) == kept
    assert first.is_closed() != kept


async def test_a_closed_pool_opens_nothing(make: Callable[..., Pool], connection: asyncpg.Connection) -> None:
    pool = make()
    in_use, idle = await pool.acquire(), await pool.acquire()
    pool.release(idle, sound=True)
    await pool.close()
    assert in_use.is_closed()
    assert idle.is_closed()
    with pytest.raises(DatabaseUnavailable, match="have been closed") as refused:
        await pool.acquire()
    assert not is_transient(refused.value)
    await until(connection, f"NOT EXISTS (SELECT {PRODUCERS})")


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_statements_are_prepared_only_where_one_backend_keeps_them(
    make: Callable[..., Pool], behind_pooler: bool
) -> None:
    connection = await make(behind_pooler=behind_pooler).acquire()
    for _ in range(2):
        await connection.fetch("SELECT $1::int", 1)
    names = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int' AND name <> ''"
    assert await connection.fetchval(names) == (0 if behind_pooler else 1)


async def test_echo_logs_each_statement_without_its_values(
    make: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "horsies.sql")
    connection = await make(echo=True).acquire()
    await connection.fetch("SELECT $1::text\n  AS secret", "hunter2")
    await asyncio.sleep(0)  # the driver logs in the next turn of the loop
    assert [record.getMessage().partition(" [")[0] for record in caplog.records] == ["SELECT $1::text AS secret"]
    assert "hunter2" not in caplog.text


def test_the_server_runs_and_is_held_once(embedded_server: EmbeddedServer) -> None:
    directory: Path = embedded_server.place.root
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=f"embedded://{directory}")))
    assert app.database_url() == app.database_url() == embedded_server.url
    with psycopg.connect(app.database_url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert app._embedded is not None
    app._embedded.release()  # as the end of the process does: the server of the tests must stop
