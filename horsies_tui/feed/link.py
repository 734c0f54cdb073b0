"""The console's database connections: one listens, one reads, and one is opened for operations when needed."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from horsies.config.contexts import advise
from horsies.store.connect import open_database, was_cancelled, with_settings
from horsies.store.dedicated_connection import is_behind_pooler
from horsies.store.listener import Listener
from horsies.store.pool import CONNECTION_ERRORS, LOST_CONNECTION
from horsies.store.schema.state import SchemaError, inspect_schema
from horsies.views import READER_SETTINGS
from horsies.views.reader_session import is_as_the_server, tables
from horsies_tui.feed.clock import Watch
from horsies_tui.feed.freshness import Freshness
from horsies_tui.feed.pace import PATIENT, USUAL, Patience
from horsies_tui.feed.status import (
    LinkDown,
    LinkError,
    LinkState,
    LinkStatus,
    SlowRead,
    StatementRefused,
    lacks,
    sentence,
    sentence_with_place,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from horsies.config.contexts import DatabaseChoice
    from horsies.operations.target import Actor
    from horsies.store.connect import Connection, Database
    from horsies_tui.feed.clock import ConsoleClock
    from horsies_tui.feed.recorded import Playback, Tape

T = TypeVar("T")

CHANNELS: Final = ("horsies_task_status", "task_new", "task_done", "horsies_worker_state", "horsies_workflow_status")

_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
"""Longest pause between attempts to connect; five seconds with jitter."""
_ATTEMPT_S: Final = 5.0
"""Time limit of an attempt, for servers that accept but do not answer. `connect_timeout` in the URL overrides it."""
_YOUNG_S: Final = 1.0
"""`ctrl+r` does not restart an attempt that began less than this time ago."""
_ACT_STATEMENT_TIMEOUT_S: Final = 30.0
_ACT_LIMIT_S: Final = 120.0
_LOOK_AGAIN_S: Final = 60.0
"""Interval at which the schema is inspected, because `horsies db upgrade` may run while the console is open."""

_NO_SUCH_TABLE: Final = "42P01"
_READ_ONLY: Final = ("default_transaction_read_only", "on")


class DatabaseLink:
    """The connections to one database. `run` always reconnects and never raises. `status` is the current state."""

    def __init__(
        self,
        choice: DatabaseChoice,
        *,
        read_only: bool,
        actor: Actor,
        clock: ConsoleClock,
        poll_s: float = USUAL.poll_s,
        patience: Patience = PATIENT,
    ) -> None:
        self.actor = actor
        self.clock = clock
        self.patience = patience
        self.tape: Tape | None = None
        """The recorder of the feeds' data; None while nothing is recorded."""
        self.playback: Playback | None = None
        """The recording that replaces the database; None with a database."""
        self._choice = choice
        self._database: Database | None = None
        self._reader: Connection | None = None
        self._operator: Connection | None = None
        self._listener: Listener | None = None
        self._plain: Connection | None = None
        """A connection with the server's default transaction mode, unless a role or a database overrides it."""
        self._reading, self._acting = asyncio.Lock(), asyncio.Lock()
        self._read_only_asked = read_only or choice.read_only
        self._role_no_writes: str | None = None
        self._slow = False
        self._tried = False
        self._pause = _FIRST_PAUSE_S
        self._hurry = asyncio.Event()
        self.freshness = Freshness(self._connect_beside, self._freshness_changed)
        self._retry_callbacks: list[Callable[[], None]] = []
        self._status_callbacks: list[Callable[[LinkStatus], None]] = []
        self._dirty_callbacks: list[Callable[[str, str], None]] = []
        context = choice.context
        self._status = LinkStatus(
            state=LinkState.CONNECTING,
            detail="",
            since=clock.now(),
            last_data_at=None,
            next_try_at=None,
            poll_s=poll_s,
            latency_s=None,
            clock_offset_s=0.0,
            database_label="embedded" if choice.url is None else choice.url.label,
            context_name=None if context is None else context.shown_name,
            context_colour=None if context is None else context.colour,
            production=context is not None and context.production,
            read_only=self._read_only_asked,
            actor=str(actor),
            server_version=None,
            lacks=(),
        )

    @property
    def database_options(self) -> str:
        """Return the options with which a CLI command uses this database."""
        return self._choice.options

    @property
    def database(self) -> Database | None:
        """Return the database, for work on separate connections; None while not connected."""
        return None if self._reader is None else self._database

    @property
    def status(self) -> LinkStatus:
        return self._status

    @property
    def listens(self) -> bool:
        """True while the server sends notifications."""
        return self._listener is not None and self._listener.healthy

    def on_status(self, callback: Callable[[LinkStatus], None]) -> Callable[[], None]:
        """Subscribe to all changes except the data's age. Return a function that unsubscribes."""
        self._status_callbacks.append(callback)
        return lambda: self._status_callbacks.remove(callback)

    def on_dirty(self, callback: Callable[[str, str], None]) -> Callable[[], None]:
        """Subscribe to the channel and payload of notifications; both are empty if some may have been missed."""
        self._dirty_callbacks.append(callback)
        return lambda: self._dirty_callbacks.remove(callback)

    def on_retry(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to the operator's requests for an immediate retry. Return a function that unsubscribes."""
        self._retry_callbacks.append(callback)
        return lambda: self._retry_callbacks.remove(callback)

    def retry_now(self) -> None:
        """Retry at once: the connection, and the feeds whose last read failed."""
        self._pause = _FIRST_PAUSE_S
        self._hurry.set()
        for callback in tuple(self._retry_callbacks):
            callback()

    async def run(self) -> None:
        """Connect, serve and reconnect until cancelled."""
        watching = asyncio.create_task(self.freshness.run(), name="freshness")
        try:
            await self._reconnect()
        finally:
            watching.cancel()
            self.freshness.close()

    async def _reconnect(self) -> None:
        while True:
            heard = self._status.last_data_at
            try:
                # Opened again after a refused connection, so that an embedded server that has stopped is
                # restarted.
                async with open_database(self._choice) as database:
                    await self._use(database)
            except Exception as error:  # noqa: BLE001 - without a link the console would never show data again
                if self._status.last_data_at != heard:
                    self._pause = _FIRST_PAUSE_S
                why = sentence(error) if isinstance(error, CONNECTION_ERRORS) else sentence_with_place(error)
                pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE_S)
                await self._wait(pause * random.uniform(0.75, 1.25), why)  # noqa: S311 - spreads load

    async def read(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `ask(connection)` on the reader's connection. Raises LinkError if it fails."""
        async with self._reading:
            reader = self._reader
            if reader is None:
                raise LinkDown(self._status)
            with Watch(reader, self.patience.read_s, slow_after_s=self.patience.slow_s, on_slow=self._is_slow) as watch:
                try:
                    async with with_settings(reader):
                        answer = await ask(reader)
                except CONNECTION_ERRORS as error:
                    if was_cancelled(error) or watch.gave_up:
                        self._is_slow(watch.passed_s)
                        raise SlowRead(watch.passed_s) from error
                    if reader.is_closed() or isinstance(error, LOST_CONNECTION):
                        reader.terminate()
                        raise LinkDown(self._status) from error
                    raise StatementRefused(await self._refusal(reader, error)) from error
            self._answered(watch.passed_s)
            return answer

    async def act(self, do: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `do(connection)` on the operator's connection. Errors of the operation are raised unchanged."""
        async with self._acting:
            operator = await self._operators_connection()
            with Watch(operator, _ACT_LIMIT_S) as watch:
                try:
                    if not self._status.read_only:
                        return await do(operator)
                    async with with_settings(operator):
                        return await do(operator)
                except CONNECTION_ERRORS as error:
                    if watch.gave_up or was_cancelled(error):
                        raise SlowRead(watch.passed_s) from error
                    if operator.is_closed() or isinstance(error, LOST_CONNECTION):
                        operator.terminate()
                        raise LinkDown(self._status) from error
                    if hasattr(error, "sqlstate"):
                        raise StatementRefused(sentence(error)) from error
                    raise

    @asynccontextmanager
    async def connected(self, role: str) -> AsyncIterator[Connection]:
        """Open a separate read-only connection for long reads. Raises LinkError if the database is not connected."""
        if self._database is None or self._reader is None:
            raise LinkDown(self._status)
        settings = [*READER_SETTINGS, _timeout(_ACT_STATEMENT_TIMEOUT_S), _READ_ONLY]
        try:
            connection = await self._database.connect(role, settings=settings)
        except CONNECTION_ERRORS as error:
            raise StatementRefused(sentence(error)) from error
        try:
            yield connection
        finally:
            connection.terminate()

    async def _operators_connection(self) -> Connection:
        if self._database is None or self._reader is None:
            raise LinkDown(self._status)
        if self._operator is None or self._operator.is_closed():
            settings = [*READER_SETTINGS, _timeout(_ACT_STATEMENT_TIMEOUT_S)]
            if self._status.read_only:
                settings.append(_READ_ONLY)
            try:
                self._operator = await self._database.connect("console operator", settings=settings)
            except CONNECTION_ERRORS as error:
                raise StatementRefused(sentence(error)) from error
        return self._operator

    async def _use(self, database: Database) -> None:
        """Serve the feeds, and replace a lost connection, until no connection can be opened."""
        self._database = database
        self._listener = Listener(
            partial(self._hear, database),
            probe_interval_s=database.probe_interval_s,
            on_gap=self._listener_changed,
        )
        for channel in CHANNELS:
            self._listener.add(channel, partial(self._dirty, channel))
        starting: asyncio.Task[None] | None = None
        try:
            while True:
                async with self._connected(database) as lost:
                    if starting is None and not await is_behind_pooler(database):
                        starting = asyncio.create_task(self._listener.start())
                    while not lost.is_set():
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_LOOK_AGAIN_S):
                                await lost.wait()
                                continue
                        with suppress(LinkError):
                            await self.read(self._inspect)
                await self._wait(_FIRST_PAUSE_S, "the connection was lost")
        finally:
            if starting is not None:
                starting.cancel()
            await self._listener.close()
            if self._operator is not None:
                self._operator.terminate()
            self._database = self._listener = self._operator = self._plain = None

    async def _hear(self, database: Database) -> Connection:
        connection = await database.connect("console listener")
        try:
            self._plain = connection if await is_as_the_server(connection) else None
        except BaseException:
            connection.terminate()  # the listener does not own it yet
            raise
        if self._reader is not None:
            self._set_writes(self._role_no_writes)
        return connection

    @asynccontextmanager
    async def _connected(self, database: Database) -> AsyncIterator[asyncio.Event]:
        """Open the reader's connection; the event is set when it is lost."""
        self._change(next_try_at=None)
        settings = [*READER_SETTINGS, _timeout(self.patience.statement_s), _READ_ONLY]
        reader = await self._attempt(database, database.connect("console", settings=settings))
        lost = asyncio.Event()
        reader.add_termination_listener(lambda _connection: lost.set())
        try:
            with Watch(reader, self.patience.read_s):
                await self._inspect(reader)
            version = reader.get_server_version()
            self._reader, self._tried, self._slow = reader, True, False
            self._change(detail="", database_label=_label(database), server_version=f"{version.major}.{version.minor}")
            self._dirty("", "")
            yield lost
        finally:
            self._reader = None
            reader.terminate()
            self._change()

    async def _attempt(self, database: Database, connect: Coroutine[Any, Any, Connection]) -> Connection:
        """Wait for an attempt to connect, at most five seconds; `ctrl+r` cancels it after one second."""
        self._hurry.clear()
        began = self.clock.monotonic()
        limit_s = database.url.connect_timeout_s or _ATTEMPT_S
        attempt = asyncio.create_task(connect)
        try:
            await asyncio.wait({attempt}, timeout=min(_YOUNG_S, limit_s))
            if not attempt.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(limit_s - _YOUNG_S):
                        await self._done_or_hurried(attempt)
            if attempt.done():
                return attempt.result()
            raise LinkError(f"no answer from {database.label} within {self.clock.monotonic() - began:.0f} s")
        finally:
            attempt.cancel()

    async def _done_or_hurried(self, attempt: asyncio.Task[Connection]) -> None:
        hurried = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait({attempt, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()

    async def _inspect(self, reader: Connection) -> None:
        """Read the database's tables, schema version and time."""
        began = self.clock.monotonic()
        here = await tables(reader)
        self.clock.learn(here.now, began, self.clock.monotonic())
        self.freshness.follows = here.standby
        try:
            missing = lacks(await inspect_schema(reader), here)
        except SchemaError as error:
            missing = (advise(sentence(error), self.database_options),)
        self._change(lacks=missing, clock_offset_s=self.clock.offset_s)
        self._set_writes(here.no_writes)

    def _set_writes(self, of_role: str | None) -> None:
        """Set the reason why the database refuses writes, if it does. `of_role` is the reason found for the role."""
        self._role_no_writes = of_role
        why, asked = of_role, self._read_only_asked
        # Not every role may read the values of postgresql.conf, but the server reports this one to each session.
        if why is None and self._plain is not None and not self._plain.is_closed():
            said = getattr(self._plain.get_settings(), "default_transaction_read_only", "off")
            why = "transactions of this server are read-only by default" if said == "on" else None
        if why is None and not asked and self._status.read_only and self._operator is not None:
            self._operator.terminate()  # it was opened read-only, while the role had no rights
        self._change(read_only=asked or why is not None, no_writes=why or "")

    async def _refusal(self, reader: Connection, error: BaseException) -> str:
        with suppress(*CONNECTION_ERRORS):
            await self._inspect(reader)
        missing = self._status.lacks[-1:]
        if missing and getattr(error, "sqlstate", None) == _NO_SUCH_TABLE:
            return missing[0]
        return "; ".join((sentence(error), *missing))

    async def _wait(self, seconds: float, detail: str) -> None:
        self._tried = True
        self._change(detail=detail, next_try_at=self.clock.now() + timedelta(seconds=seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _answered(self, took_s: float) -> None:
        # Subscribers are not notified, because drawing the status always computes the age of the data.
        self._status = replace(self._status, last_data_at=self.clock.now(), latency_s=took_s)
        self._slow = took_s > self.patience.slow_s
        self._change()

    def _is_slow(self, waited_s: float) -> None:
        self._slow = True
        self.freshness.ask_why()
        self._change(latency_s=waited_s)

    async def _connect_beside(self) -> Connection:
        """Open a connection for queries while a read waits."""
        if self._database is None:
            raise LinkDown(self._status)
        settings = [*READER_SETTINGS, _timeout(self.patience.statement_s), _READ_ONLY]
        return await self._database.connect("console watch", settings=settings)

    def _freshness_changed(self) -> None:
        self._change(failing=self.freshness.failing, blockers=self.freshness.blockers)

    def _listener_changed(self) -> None:
        self._change()
        self._dirty("", "")

    def _dirty(self, channel: str, payload: str) -> None:
        for callback in tuple(self._dirty_callbacks):
            callback(channel, payload)

    def _state(self) -> LinkState:
        if self._reader is None:
            if self._status.last_data_at is not None:
                return LinkState.STALE
            return LinkState.DOWN if self._tried else LinkState.CONNECTING
        if any(not failure.late for failure in self._status.failing):
            return LinkState.FAILED
        if self._status.failing:
            return LinkState.BLOCKED if self._status.blockers else LinkState.OLD
        return self._calm()

    def _calm(self) -> LinkState:
        """Return the state without the feeds. Answers that waited for a lock do not make the server slow."""
        if self._slow and not self._status.blockers:
            return LinkState.SLOW
        return LinkState.LIVE if self.listens else LinkState.POLL

    def _change(self, **changes: Any) -> None:
        self._status, before = replace(self._status, **changes), self._status
        state, changed = self._state(), replace(self._status, calm=self._calm())
        self._status = changed
        if state is not changed.state:
            changed = self._status = replace(changed, state=state, since=self.clock.now())
        if changed != before:
            for callback in tuple(self._status_callbacks):
                callback(changed)


def _label(database: Database) -> str:
    """Return the label. For embedded databases it is the directory, shortened to 30 columns for the header."""
    return database.url.label if database.embedded is None else f"embedded {database.embedded.place.root}"


def _timeout(seconds: float) -> tuple[str, str]:
    return "statement_timeout", str(round(seconds * 1000))
