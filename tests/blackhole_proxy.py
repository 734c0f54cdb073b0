"""A TCP proxy in front of a PostgreSQL server that can silently drop the traffic of existing connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

_STARTING_UP = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


class BlackholeProxy:
    """Passes bytes both ways. After `swallow()` existing connections are silent in both directions; new ones work."""

    def __init__(self, database_url: str) -> None:
        self._behind = conninfo_to_dict(database_url)
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._replies = asyncio.Event()
        self._connected: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        """Two tasks that pass bytes for each connection, with its client and its server."""
        self._accepting: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._refusals = 0
        self.accepted = 0
        self.delay_s = 0.0
        """How much later than it arrives each piece is passed on, both ways."""

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        login = ":".join(quote(self._behind[part], safe="") for part in ("user", "password") if part in self._behind)
        return f"postgresql://{login}@127.0.0.1:{port}/{self._behind['dbname']}?sslmode=disable"

    def swallow(self) -> None:
        self._open.clear()
        self._open = asyncio.Event()
        self._open.set()
        self.swallow_replies()

    def swallow_replies(self) -> None:
        """Existing connections still send, and receive nothing."""
        self._replies.clear()
        self._replies = asyncio.Event()
        self._replies.set()

    def silence(self) -> None:
        """Drop all traffic, also of later connections."""
        self._open.clear()
        self._replies.clear()

    def restore(self) -> None:
        """Pass all traffic again, with what was held back."""
        self._open.set()
        self._replies.set()

    def cut(self) -> None:
        """Reset existing connections on the client's side; the server completes what it has received.

        The server's side is closed, too: bytes that were swallowed would keep it open as long as the proxy runs, one
        session for each connection that was ever cut.
        """
        for passing_on, (client, server) in self._connected.items():
            client.transport.abort()
            server.close()
            passing_on.cancel()

    def refuse(self, times: int) -> None:
        """Answer the next connections as a server that is still starting up."""
        self._refusals = times

    async def __aenter__(self) -> Self:
        self._open.set()
        self._replies.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: TracebackType | BaseException | type[BaseException] | None) -> None:
        assert self._server is not None
        self._server.close()
        tasks = (*self._accepting, *self._connected)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:  # a task that is cancelled before its first step closes none
            writer.close()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(to_client)
        task = asyncio.current_task()
        assert task is not None
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        if self._refusals:
            self._refusals -= 1
            await client.read(1024)
            to_client.write(b"E" + (len(_STARTING_UP) + 4).to_bytes(4) + _STARTING_UP)
            to_client.close()
            return
        host, port = self._behind["host"], self._behind.get("port", "5432")
        if host.startswith("/"):
            server, to_server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server, to_server = await asyncio.open_connection(host, int(port))
        self._writers.append(to_server)
        for source, sink, door in ((client, to_server, self._open), (server, to_client, self._replies)):
            task = asyncio.create_task(self._pass_on(source, sink, door))
            self._connected[task] = to_client, to_server
            task.add_done_callback(self._connected.pop)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, door: asyncio.Event) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65536):
                    await door.wait()
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()
