"""The HTTP side of metrics and probes: what it answers, and what it does not put up with."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from horsies.domain.errors import ConfigurationError
from horsies.run.metrics import http
from horsies.run.metrics.http import Address, HttpServer, Reply

LARGE = b"x" * 40_000_000
"""More than the buffers of a connection hold."""


async def hello() -> Reply:
    return Reply.of(200, "hello")


async def large() -> Reply:
    return Reply(200, LARGE)


async def broken() -> Reply:
    raise ValueError("a secret")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer(
        Address("127.0.0.1", 0, "--metrics-port 0"), {"/hello": hello, "/large": large, "/broken": broken}
    )
    await server.start()
    yield server
    await server.close()


async def connect(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))


async def ask(server: HttpServer, request: bytes) -> tuple[str, bytes]:
    """The status line and the body; the server closes the connection."""
    reader, writer = await connect(server)
    writer.write(request)
    async with asyncio.timeout(30):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0].decode(), body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /hello HTTP/1.1", "200 OK", b"hello\n"),
        (b"GET /hello?probe=1 HTTP/1.0", "200 OK", b"hello\n"),
        (b"HEAD /hello HTTP/1.1", "200 OK", b""),
        (b"GET /other HTTP/1.1", "404 Not Found", b"there are /hello, /large, /broken\n"),
        (b"POST /hello HTTP/1.1", "405 Method Not Allowed", b"only GET and HEAD\n"),
        (b"GET /broken HTTP/1.1", "500 Internal Server Error", b"ValueError; see the log\n"),
        (b"\x16\x03\x01 what", "400 Bad Request", b"this is no HTTP request\n"),
    ],
)
async def test_a_request_is_answered(server: HttpServer, request_line: bytes, status: str, body: bytes) -> None:
    assert await ask(server, request_line + b"\r\nHost: me\r\n\r\n") == (f"HTTP/1.1 {status}", body)


async def test_a_request_that_is_too_large_is_refused(server: HttpServer) -> None:
    status, _ = await ask(server, b"GET /hello HTTP/1.1\r\nX: " + b"y" * 9_000)
    assert status == "HTTP/1.1 431 Request Header Fields Too Large"


async def test_a_request_that_comes_in_pieces_is_answered(server: HttpServer) -> None:
    reader, writer = await connect(server)
    for byte in b"GET /hello HTTP/1.1\r\n\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(30):
        assert (await reader.read(-1)).endswith(b"\r\n\r\nhello\n")
    writer.close()


async def test_slow_clients_are_cut_and_hold_no_other_up(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_LONGEST_EXCHANGE_S", 0.2)
    silent, unread = await connect(server), await connect(server)
    unread[1].write(b"GET /large HTTP/1.1\r\n\r\n")  # and never reads the answer
    assert (await ask(server, b"GET /hello HTTP/1.1\r\n\r\n"))[1] == b"hello\n"
    async with asyncio.timeout(30):
        assert await silent[0].read(-1) == b""
        assert len(await unread[0].read(-1)) < len(LARGE)
    for _, writer in (silent, unread):
        writer.close()


async def test_of_too_many_connections_the_oldest_is_cut(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 3)
    idle = [await connect(server) for _ in range(3)]
    assert (await ask(server, b"GET /hello HTTP/1.1\r\n\r\n"))[1] == b"hello\n"
    async with asyncio.timeout(30):
        assert await idle[0][0].read(-1) == b""
    for _, writer in idle:
        writer.close()


async def test_a_port_in_use_is_one_error_that_names_the_option_and_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError) as refused:
            await HttpServer(Address("127.0.0.1", port, f"--metrics-port {port}"), {}).start()
    text = str(refused.value)
    assert f"cannot listen at 127.0.0.1:{port}, as --metrics-port {port} asks: Address already in use" in text
    assert "choose another port" in text


@pytest.mark.parametrize(
    ("host", "reason"),
    [("192.0.2.1", "Cannot assign requested address|could not bind"), ("no.invalid", "cannot be resolved")],
)
async def test_an_address_of_another_machine_is_one_error(host: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        await HttpServer(Address(host, 0, "--metrics-port 0"), {}).start()
