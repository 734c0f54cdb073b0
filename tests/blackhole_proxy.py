"""A TCP door to a PostgreSQL server that can go silent on those inside, as a firewall does that forgot them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

_STARTING_UP = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


class BlackholeProxy:
    """Passes bytes both ways. After `swallow()` those connected then hear and are heard no more; new ones work."""

    def __init__(self, database_url: str) -> None:
        self._behind = conninfo_to_dict(database_url)
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._replies = asyncio.Event()
        self._connected: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """What passes bytes on, two for each connection, and its client."""
        self._refusals = 0
        self.accepted = 0

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
        """Those connected are heard, and hear no more."""
        self._replies.clear()
        self._replies = asyncio.Event()
        self._replies.set()

    def silence(self) -> None:
        """Nothing passes any more, also for those who connect later."""
        self._open.clear()
        self._replies.clear()

    def restore(self) -> None:
        """Everything passes again, late."""
        self._open.set()
        self._replies.set()

    def cut(self) -> None:
        """Those connected learn that they are not any more; what the server is about it brings to its end.

        The server's side is closed, too: what was swallowed on its way would keep it open for as long as this lives,
        one session for each connection that was ever cut.
        """
        for passing_on, client in self._connected.items():
            client.transport.abort()
            passing_on.cancel()

    def refuse(self, times: int) -> None:
        """Answer the next connections as a server does that is not ready yet."""
        self._refusals = times

    async def __aenter__(self) -> Self:
        self._open.set()
        self._replies.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: TracebackType | BaseException | type[BaseException] | None) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connected:
            task.cancel()
        await asyncio.gather(*self._connected, return_exceptions=True)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.accepted += 1
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
        for source, sink, door in ((client, to_server, self._open), (server, to_client, self._replies)):
            task = asyncio.create_task(self._pass_on(source, sink, door))
            self._connected[task] = to_client
            task.add_done_callback(self._connected.pop)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, door: asyncio.Event) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65536):
                    await door.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()
