"""Reads several databases, each through a separate connection, while their list is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from horsies.config.contexts import DatabaseChoice
from horsies.domain.masking import mask
from horsies.findings.diagnose import diagnose
from horsies.store.connect import open_database, with_settings
from horsies.store.embedded import EmbeddedPlace
from horsies.store.schema.state import inspect_schema
from horsies.views import READER_SETTINGS
from horsies.views.reader_session import tables
from horsies_tui.feed.clock import Watch
from horsies_tui.feed.status import SlowRead, lacks, sentence
from horsies_tui.health.alerts import Level, alerts
from horsies_tui.health.glance_reader import GlanceReader
from horsies_tui.health.verdict import ClusterVerdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from horsies.config.contexts import Context
    from horsies.store.connect import Connection, Database
    from horsies_tui.health.alerts import Alert
    from horsies_tui.health.glance import Glance

EVERY_S: Final = 5.0
_SLOW_FACTOR: Final = 10.0
"""Factor between the duration of a read and the pause after it, so that slow databases are read a tenth of the time."""
_LONGEST_PAUSE_S: Final = 15.0
_LIMIT_S: Final = 4.0
_STATEMENT_MS: Final = 3_000
_NO_SUCH_TABLE: Final = "42P01"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The last read of a context, or the `error` of the read; without both, it has not been read."""

    context: Context
    glance: Glance | None = None
    alerts: tuple[Alert, ...] = ()
    error: str = ""

    @property
    def id(self) -> str:
        return self.context.name

    @property
    def verdict(self) -> ClusterVerdict | None:
        return None if self.glance is None else verdict(self.glance, self.alerts)

    @property
    def alert_count(self) -> int:
        return sum(alert.level is not Level.NOTE for alert in self.alerts)


class ClusterReads:
    """Publishes the states of all contexts, in the given order, after each read of one of them."""

    def __init__(
        self,
        contexts: Iterable[Context],
        publish: Callable[[tuple[ClusterState, ...]], None],
        *,
        targets: Mapping[str, float],
    ) -> None:
        self._states = {context.name: ClusterState(context) for context in contexts}
        self._publish = publish
        self._targets = targets
        self._running: list[asyncio.Task[None]] = []

    @property
    def states(self) -> tuple[ClusterState, ...]:
        return tuple(self._states.values())

    def start(self) -> None:
        """Read all databases at once, restarting reads that are running."""
        self.stop()
        self._running = [
            asyncio.create_task(self._follow(state.context), name=f"cluster {state.id}") for state in self.states
        ]

    def stop(self) -> None:
        for task in self._running:
            task.cancel()
        self._running = []

    async def _follow(self, context: Context) -> None:
        choice = DatabaseChoice(context.url, "listed beside the others", context)
        while True:
            try:
                if _is_down(context):
                    self._put(ClusterState(context, error="the embedded server is not running; enter starts it"))
                else:
                    async with open_database(choice) as database:
                        await self._read_on(context, database)
            except Exception as error:  # noqa: BLE001 - shown in its row; the other reads continue
                self._put(ClusterState(context, error=mask(sentence(error))))
            await asyncio.sleep(EVERY_S)

    async def _read_on(self, context: Context, database: Database) -> None:
        """Read one database repeatedly until a read fails."""
        settings = [
            *READER_SETTINGS,
            ("statement_timeout", str(_STATEMENT_MS)),
            ("default_transaction_read_only", "on"),
        ]
        try:
            async with asyncio.timeout(_LIMIT_S):
                connection = await database.connect("console clusters", settings=settings)
        except TimeoutError:
            raise SlowRead(_LIMIT_S) from None
        reader = GlanceReader()
        try:
            while True:
                with Watch(connection, _LIMIT_S) as watch:
                    try:
                        glance = await _glance(connection, reader)
                    except Exception as error:
                        if watch.gave_up:
                            raise SlowRead(watch.passed_s) from error
                        raise LookupError(await _without_tables(connection, error)) from error
                began = {one.id: one.failing_since for one in self._states[context.name].alerts if one.failing_since}
                self._put(ClusterState(context, glance, alerts(glance, self._targets, began)))
                await asyncio.sleep(max(EVERY_S, min(_SLOW_FACTOR * watch.passed_s, _LONGEST_PAUSE_S)))
        finally:
            connection.terminate()

    def _put(self, state: ClusterState) -> None:
        self._states[state.id] = state
        self._publish(self.states)


async def _glance(connection: Connection, reader: GlanceReader) -> Glance:
    async with with_settings(connection):
        now = (await tables(connection)).now
        return replace(await reader.read(connection, now), report=await diagnose(connection))


async def _without_tables(connection: Connection, error: Exception) -> str:
    """Return the reason of a failed read; if tables are missing, the command that creates them."""
    if getattr(error, "sqlstate", None) == _NO_SUCH_TABLE:
        async with with_settings(connection):
            if missing := lacks(await inspect_schema(connection), await tables(connection)):
                return missing[-1]
    return sentence(error)


def _is_down(context: Context) -> bool:
    """Return whether a context has an embedded server that is not running. The list must not start servers."""
    directory = context.url.embedded_directory
    return directory is not None and not (EmbeddedPlace(directory).data / "postmaster.pid").exists()
