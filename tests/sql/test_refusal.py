"""When a refused connection proves that no sweep runs: only if the URL names a server on this machine."""

from __future__ import annotations

import socket
from dataclasses import replace

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy

from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database, DatabaseUnavailable
from horsies.store.refusal import is_on_this_machine, is_refusal


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
