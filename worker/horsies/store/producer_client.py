"""A process's client of its database: shared connections, inserts and reads over them, and waits for results."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import asyncpg

from horsies.config.contexts import DatabaseChoice
from horsies.domain.codec import CodecError
from horsies.store.connect import is_transient, open_database
from horsies.store.dedicated_connection import is_behind_pooler
from horsies.store.enqueue import Enqueued, EnqueueRequest, enqueue_many, enqueue_one
from horsies.store.listener import Listener
from horsies.store.pool import CONNECTION_ERRORS, LOST_CONNECTION, Pool
from horsies.store.reading import StoredOutcome, WorkflowOutcome, read_outcomes, read_workflow_outcomes
from horsies.store.schema import create
from horsies.store.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Any, TypeVarTuple

    from horsies.config.app import PostgresConfig
    from horsies.store.connect import Database

    Arguments = TypeVarTuple("Arguments")

T = TypeVar("T")
ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

_MAX_AT_ONCE = 1_000
# A connection whose server is lost would otherwise block its caller for ever.
_MAX_STATEMENT_S = 30.0
_SLOWEST_ROWS_PER_S = 1_000
_SLOW_S = 3.0
_CLOSE_TIMEOUT_S = 1.0


class Coalescer(Generic[ItemT, AnswerT]):
    """Combines the calls of many callers: the items that arrive while one statement runs form the next one.

    `ask(item)` returns what `run(items)` has at the item's place; an exception there is raised only to its caller.
    There is no timer: a lone caller has no delay, and batches grow with the load. If no batch is running, the caller
    runs its own item in its own task, without a wake-up in between.
    """

    def __init__(
        self,
        run: Callable[[Sequence[ItemT]], Coroutine[Any, Any, Sequence[AnswerT | BaseException]]],
        *,
        most: int,
        run_one: Callable[[ItemT], Awaitable[AnswerT]] | None = None,
    ) -> None:
        """Take `run_one` for the item of a lone caller; without it, `run` runs that item."""
        self._run = run
        self._run_one = run_one or self._run_alone
        self._most = most
        self._busy = False
        self._waiting: list[tuple[ItemT, asyncio.Future[AnswerT]]] = []
        self._batch: asyncio.Task[Sequence[AnswerT | BaseException]] | None = None

    async def ask(self, item: ItemT) -> AnswerT:
        if self._busy:
            future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            return await future
        self._busy = True
        try:
            return await self._run_one(item)
        finally:
            self._start_next()

    async def _run_alone(self, item: ItemT) -> AnswerT:
        (answer,) = await self._run([item])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _start_next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            self._batch = asyncio.get_running_loop().create_task(self._run([item for item, _ in batch]))
            self._batch.add_done_callback(partial(self._answer_all, [future for _, future in batch]))

    def _answer_all(
        self, futures: list[asyncio.Future[AnswerT]], batch: asyncio.Task[Sequence[AnswerT | BaseException]]
    ) -> None:
        self._start_next()
        error = asyncio.CancelledError() if batch.cancelled() else batch.exception()
        answers = [error] * len(futures) if error else batch.result()
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(answer, asyncio.CancelledError):
                future.cancel()
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class Link:
    """Belongs to one event loop. Created by `open`; it cannot be reused after it is closed."""

    def __init__(self, pool: Pool, database: Database, *, listens: bool, replaces_lost: bool) -> None:
        self._pool = pool
        self._database = database
        self._trying: asyncio.Task[None] | None = None
        self._replaces_lost = replaces_lost
        self._inserts: Coalescer[EnqueueRequest, Enqueued] = Coalescer(
            self._insert_many,
            most=_MAX_AT_ONCE,
            run_one=partial(self.use, enqueue_one),  # type: ignore[arg-type]  # mypy: partial and *arguments
        )
        reads: Coalescer[str, StoredOutcome | None] = Coalescer(partial(self._read, read_outcomes), most=_MAX_AT_ONCE)
        workflow_reads: Coalescer[str, WorkflowOutcome | None] = Coalescer(
            partial(self._read, read_workflow_outcomes), most=_MAX_AT_ONCE
        )
        self._resources = AsyncExitStack()
        self._listener = None
        if listens:
            self._listener = Listener(
                partial(database.connect, "listener"), probe_interval_s=database.probe_interval_s, on_gap=self._wake_all
            )
        self.waiting = Waiting(reads.ask, self._listener, "task_done")
        self.waiting_for_workflows = Waiting(workflow_reads.ask, self._listener, "workflow_done")

    @classmethod
    async def open(cls, config: PostgresConfig) -> Link:
        """Connect, and create the tables in a database that has none of them.

        DatabaseUnavailable, EmbeddedError, or SchemaError for a schema that is older, newer or of another program.
        """
        async with AsyncExitStack() as stack:
            choice = DatabaseChoice(config.url, "given in PostgresConfig")
            database = await stack.enter_async_context(open_database(choice))
            behind_pooler = await is_behind_pooler(database)
            pool = Pool(database, config, role="producer", behind_pooler=behind_pooler)
            stack.push_async_callback(pool.close)
            link = cls(pool, database, listens=not behind_pooler, replaces_lost=config.pool_pre_ping)
            await link.use(create, limit_s=math.inf)  # another process may be making them
            stack.push_async_callback(link._stop_waiting)
            link._resources = stack.pop_all()
        return link

    async def close(self) -> None:
        await self._resources.aclose()

    async def send(self, request: EnqueueRequest) -> Enqueued:
        """Insert one task, together with others that are sent at the same moment."""
        if request.unique_key is None:
            return await self._inserts.ask(request)
        # This send may wait for an open transaction that holds the key; other sends must not wait with it.
        return await self.use(enqueue_one, request)

    async def send_many(self, requests: Sequence[EnqueueRequest]) -> list[Enqueued]:
        """Insert all or none."""
        limit_s = _MAX_STATEMENT_S + len(requests) / _SLOWEST_ROWS_PER_S
        return await self.use(enqueue_many, requests, limit_s=limit_s)

    async def use(
        self,
        act: Callable[[asyncpg.Connection, *Arguments], Awaitable[T]],
        *arguments: *Arguments,
        limit_s: float | None = None,
    ) -> T:
        """Run an action on a connection. It may be repeated: a lost connection is replaced once, silently.

        Inserts may be repeated, because of the id: the second one finds the row of the first.
        """
        limit_s = _MAX_STATEMENT_S if limit_s is None else limit_s
        replaces_lost = self._replaces_lost
        loop = asyncio.get_running_loop()
        while True:
            connection = await self._pool.acquire()
            # asyncpg's own timeouts and asyncio's cost three times as much, 6 µs of each statement.
            alarm = loop.call_later(limit_s, connection.terminate)
            timer = loop.call_later(_SLOW_S, self._try_other_hosts) if self._database.has_several_hosts else None
            answered = False
            try:
                result = await act(connection, *arguments)
                answered = True
                return result
            except LOST_CONNECTION:
                has_timed_out = loop.time() >= alarm.when()
                if has_timed_out or replaces_lost:
                    self._pool.drop_idle()  # the failure has probably cut all connections
                if has_timed_out:
                    raise TimeoutError(f"the database did not answer within {limit_s:g} s") from None
                if not replaces_lost:
                    raise
                replaces_lost = False
            except asyncpg.PostgresError:
                answered = True
                raise
            finally:
                alarm.cancel()
                if timer is not None:
                    timer.cancel()
                self._pool.release(connection, sound=answered)

    def _try_other_hosts(self) -> None:
        """Check during a long statement whether another host is the primary now; if so, this connection is closed."""
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._connect_anew())

    async def _connect_anew(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_STATEMENT_S):
                while True:
                    with suppress(*CONNECTION_ERRORS):
                        connection = await self._database.connect("producer")
                        await connection.close(timeout=_CLOSE_TIMEOUT_S)
                        return
                    await asyncio.sleep(_SLOW_S / 3)  # no host is the primary now: a failover is in progress

    async def _insert_many(self, requests: Sequence[EnqueueRequest]) -> list[Enqueued | BaseException]:
        if len(requests) == 1:
            return [await self.use(enqueue_one, requests[0])]
        try:
            return list(await self.send_many(requests))
        except (asyncpg.PostgresError, CodecError) as error:
            if is_transient(error):
                raise
        # The server rejects one of them (a NUL in a text, a name too long), and with it the whole statement.
        answers: list[Enqueued | BaseException] = []
        for request in requests:
            try:
                answers.append(await self.use(enqueue_one, request))
            except (*CONNECTION_ERRORS, CodecError) as error:
                answers.append(error)
        return answers

    async def _read(
        self, read: Callable[[asyncpg.Connection, Sequence[str]], Awaitable[dict[str, AnswerT]]], row_ids: Sequence[str]
    ) -> list[AnswerT | BaseException | None]:
        found = await self.use(read, row_ids)
        return [found.get(row_id) for row_id in row_ids]

    def _wake_all(self) -> None:
        self.waiting.wake_all()
        self.waiting_for_workflows.wake_all()

    async def _stop_waiting(self) -> None:
        self.waiting.close()
        self.waiting_for_workflows.close()
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        if self._listener is not None:
            await self._listener.close()
