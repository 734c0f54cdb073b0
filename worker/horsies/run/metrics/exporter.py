"""`horsies metrics`: one process that shows a cluster to Prometheus. It needs no application and writes nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from horsies.domain.masking import mask
from horsies.run.metrics.exposition import CONTENT_TYPE
from horsies.run.metrics.http import HttpServer, Reply
from horsies.run.metrics.of_cluster import cluster_page
from horsies.store.connect import open_database, with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS
from horsies.views.cluster import exported

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice
    from horsies.run.events import Events
    from horsies.run.metrics.exposition import MetricsPage
    from horsies.run.metrics.http import Address
    from horsies.store.connect import Connection, Database
    from horsies.views.cluster import Exported

FRESH_S: Final = 5.0
"""How long a read is good for: any number of scrapers together cost one read in this time."""
_WITHIN_S: Final = 5.0
"""The whole of a read, the connection included; Prometheus waits for 10 s by default."""
_SETTINGS: Final = (
    *READER_SETTINGS,
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "3s"),
    ("lock_timeout", "1s"),
)
_NOTHING_TO_READ: Final = frozenset({SchemaKind.EMPTY, SchemaKind.FOREIGN})


class Exporter:
    """Serves from start() to stop(); a database that cannot be reached is `horsies_up 0`, and no error."""

    def __init__(self, choice: DatabaseChoice, address: Address, events: Events) -> None:
        self.events = events
        self._choice = choice
        self._resources = AsyncExitStack()
        self._server = HttpServer(
            address, {"/metrics": self._scrape, "/healthz": self._healthz, "/readyz": self._readyz}
        )
        self._database: Database
        self._connection: Connection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._page: MetricsPage
        self._problem: str | None = None
        self._fresh_until = 0.0

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        """Listen; ConfigurationError if that is not possible."""
        self._database = await self._resources.enter_async_context(open_database(self._choice))
        self._resources.push_async_callback(self._disconnect)
        await self._server.start()
        self._resources.push_async_callback(self._server.close)
        self.events.note("metrics", url=f"{self.url}/metrics", database=self._database.label)

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._resources.aclose()

    async def abort(self) -> None:
        await self.stop()

    def hurry(self) -> None:
        """A second signal changes nothing: a stop does not wait for anything."""

    async def _scrape(self) -> Reply:
        await self._refresh()
        return Reply(200, self._page.encoded(), CONTENT_TYPE)

    async def _healthz(self) -> Reply:
        return Reply.of(200, "alive")

    async def _readyz(self) -> Reply:
        await self._refresh()
        return Reply.of(200, "ready") if self._problem is None else Reply.of(503, self._problem)

    async def _refresh(self) -> None:
        """Read, unless the last read is fresh, or one is under way: then wait for that. Clients that leave end none."""
        if self._reading is None and time.monotonic() >= self._fresh_until:
            self._reading = asyncio.create_task(self._read())
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            await self._read_once()
        finally:
            self._reading = None

    async def _read_once(self) -> None:
        began, read, current, problem = time.monotonic(), None, False, None
        try:
            async with asyncio.timeout(_WITHIN_S):
                read, current = await self._ask()
        except TimeoutError:
            problem = f"the database does not answer within {_WITHIN_S:g} s"
        except CONNECTION_ERRORS as error:
            problem = mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        if problem is not None and self._connection is not None:
            self._connection.terminate()
            self._connection = None
        self._log(problem)
        now = time.monotonic()
        self._page = cluster_page(read, up=problem is None, current=current, took_s=now - began, at=time.time())
        self._fresh_until = now + FRESH_S

    async def _ask(self) -> tuple[Exported | None, bool]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect("metrics", settings=_SETTINGS)
        async with with_settings(self._connection):
            state = await inspect_schema(self._connection)
            current = state.kind in (SchemaKind.CURRENT, SchemaKind.READ_ONLY)
            return None if state.kind in _NOTHING_TO_READ else await exported(self._connection), current

    def _log(self, problem: str | None) -> None:
        """Log once that the database cannot be read, and once that it can be read again."""
        if problem is not None and self._problem is None:
            self.events.warn("database unavailable", reason=problem)
        elif problem is None and self._problem is not None:
            self.events.note("database available")
        self._problem = problem

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=1)
