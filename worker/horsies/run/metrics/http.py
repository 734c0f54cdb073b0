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
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_LONGEST_EXCHANGE_S: Final = 10.0
_LARGEST_REQUEST: Final = 8_192
_MOST_CONNECTIONS: Final = 64
_log = logging.getLogger("horsies.metrics")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def of(cls, status: int, text: str) -> Reply:
        return cls(status, f"{text}\n".encode(errors="replace"))


Handler: TypeAlias = "Callable[[], Awaitable[Reply]]"


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen at, and how the operator said so, for the message if that is not possible."""

    host: str
    port: int
    option: str


class HttpServer:
    """Answers from start() to close()."""

    def __init__(self, address: Address, handlers: Mapping[str, Handler]) -> None:
        self._address = address
        self._handlers = handlers
        self._exchanges: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; ConfigurationError if the port is in use, or the address is none of this machine."""
        address = self._address
        try:
            self._server = await asyncio.start_server(
                self._connected, address.host, address.port, limit=_LARGEST_REQUEST
            )
        except OSError as error:
            if isinstance(error, socket.gaierror):
                problem = f"the host name cannot be resolved: {error.strerror or error}"
                help_text = "name an address of this machine"
            else:
                # asyncio puts its own words around those of the system.
                problem = os.strerror(error.errno) if error.errno else error.strerror or str(error)
                help_text = "choose another port, or stop what listens there; every worker needs its own port"
            raise ConfigurationError(
                f"cannot listen at {address.host}:{address.port}, as {address.option} asks: {problem}",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text=help_text,
            ) from error

    @property
    def url(self) -> str:
        """The URL, with the port that the system chose if 0 was asked for."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        exchanges = list(self._exchanges)
        for exchange in exchanges:
            exchange.cancel()
        await asyncio.gather(*exchanges, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._exchanges) >= _MOST_CONNECTIONS:
            oldest = next(iter(self._exchanges))
            del self._exchanges[oldest]
            oldest.cancel()

        def cut(exchange: asyncio.Task[None]) -> None:
            self._exchanges.pop(exchange, None)
            writer.transport.abort()

        exchange = asyncio.create_task(self._exchange(reader, writer))
        self._exchanges[exchange] = None
        exchange.add_done_callback(cut)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request and answer it. What is not read in time is lost."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LONGEST_EXCHANGE_S):
                method, reply = await self._reply(reader)
                head = (
                    f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
                    f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
                    "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + (b"" if method == "HEAD" else reply.body))
                writer.close()
                await writer.wait_closed()

    async def _reply(self, reader: asyncio.StreamReader) -> tuple[str, Reply]:
        try:
            line = (await reader.readline()).decode("latin-1").split()
            rest = _LARGEST_REQUEST
            while (header := await reader.readline()).strip():
                rest -= len(header)
                if rest < 0:
                    raise ValueError
        except ValueError:  # readline() raises it for a line above the limit
            return "", Reply.of(431, "the request is too large")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return "", Reply.of(400, "this is not an HTTP request")
        method, path = line[0], line[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return method, Reply.of(405, "only GET and HEAD")
        if (handler := self._handlers.get(path)) is None:
            return method, Reply.of(404, f"there are {', '.join(self._handlers)}")
        try:
            return method, await handler()
        except Exception as error:  # noqa: BLE001 - a scrape that fails must not leave its client without an answer
            _log.exception("a request could not be answered")
            return method, Reply.of(500, f"{type(error).__name__}; see the log")
