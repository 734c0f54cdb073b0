"""A small HTTP server for metrics and probes: GET and HEAD of a few paths, one answer per connection.

It shares the worker's event loop, so that an answer shows that the loop runs. No client can hold anything for long: the
whole exchange has a time limit, the request a largest size, and of too many connections the oldest is cut. The server
of prometheus_client has one path, a thread for each silent client, and no way to answer from the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_LONGEST_EXCHANGE_S: Final = 10.0
_LARGEST_REQUEST: Final = 8_192
_MOST_CONNECTIONS: Final = 64
_log = logging.getLogger("horsies.metrics")
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: str = _PLAIN

    @classmethod
    def of(cls, status: int, text: str) -> Reply:
        return cls(status, f"{text}\n".encode(errors="replace"))


Handler: TypeAlias = "Callable[[], Awaitable[Reply]]"


@dataclass(frozen=True, slots=True)
class Address:
    """The place to listen at, and how the operator said so, for the message if that is not possible."""

    host: str
    port: int
    option: str


class HttpServer:
    """Answers from start() to close()."""

    def __init__(self, address: Address, handlers: Mapping[str, Handler]) -> None:
        self._address = address
        self._handlers = handlers
        self._connections: dict[_Connection, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; ConfigurationError if the port is in use, or the address is none of this machine."""
        host, port = self._address.host, self._address.port
        try:
            self._server = await asyncio.get_running_loop().create_server(self._connected, host, port)
        except OSError as error:
            raise _refused(self._address, error) from error

    @property
    def url(self) -> str:
        """The URL, with the port that the system chose if 0 was asked for."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()

    def _connected(self) -> _Connection:
        while len(self._connections) >= _MOST_CONNECTIONS:
            next(iter(self._connections)).abort()
        connection = _Connection(self._handlers, self._connections)
        self._connections[connection] = None
        return connection


class _Connection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, handlers: Mapping[str, Handler], all_of_them: dict[_Connection, None]) -> None:
        self._handlers = handlers
        self._all = all_of_them
        self._request = b""
        self._answering: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._alarm = asyncio.get_running_loop().call_later(_LONGEST_EXCHANGE_S, self.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def abort(self) -> None:
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None:
            return
        self._request += data
        if b"\r\n\r\n" in self._request or b"\n\n" in self._request:
            self._answering = asyncio.ensure_future(self._answer())
        elif len(self._request) > _LARGEST_REQUEST:
            self._answering = asyncio.ensure_future(self._send(Reply.of(431, "the request is too large"), body=True))

    async def _answer(self) -> None:
        line = self._request.partition(b"\n")[0].decode("latin-1").split()
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            await self._send(Reply.of(400, "this is no HTTP request"), body=True)
            return
        method, target = line[0], line[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            await self._send(Reply.of(405, "only GET and HEAD"), body=True)
        elif (handler := self._handlers.get(target)) is None:
            await self._send(Reply.of(404, f"there are {', '.join(self._handlers)}"), body=method == "GET")
        else:
            await self._send(await _outcome_of(handler), body=method == "GET")

    async def _send(self, reply: Reply, *, body: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        head = (
            f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}\r\nContent-Type: {reply.content_type}\r\n"
            f"Content-Length: {len(reply.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (reply.body if body else b""))
        self._transport.close()  # once everything is sent; the alarm ends what a client does not read

    def _end(self) -> None:
        self._alarm.cancel()
        self._all.pop(self, None)
        if self._answering is not None:
            self._answering.cancel()


async def _outcome_of(handler: Handler) -> Reply:
    try:
        return await handler()
    except Exception as error:  # noqa: BLE001 - a scrape that fails must not leave its client without an answer
        _log.exception("a request could not be answered")
        return Reply.of(500, f"{type(error).__name__}; see the log")


_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _refused(address: Address, error: OSError) -> ConfigurationError:
    reason = error.strerror or str(error)
    if isinstance(error, socket.gaierror):
        problem, help_text = f"the host name cannot be resolved: {reason}", "name an address of this machine"
    else:
        # asyncio puts its own words around those of the system.
        problem = os.strerror(error.errno) if error.errno else reason
        help_text = "choose another port, or stop what listens there; every worker needs its own port"
    return ConfigurationError(
        f"cannot listen at {address.host}:{address.port}, as {address.option} asks: {problem}",
        code=ErrorCode.CLI_INVALID_ARGS,
        help_text=help_text,
    )
