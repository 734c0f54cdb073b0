"""The application's access to the database: send, wait for results, read tasks; from any thread and any loop."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Required, TypedDict, TypeVar

from horsies.config.contexts import advise
from horsies.config.recovery import RecoveryConfig
from horsies.domain.codec.classes import OURS
from horsies.domain.codes import OperationalErrorCode, RetrievalCode
from horsies.domain.errors import HorsiesError
from horsies.domain.masking import mask
from horsies.domain.plain_text import why_not_a_queue_name, why_not_a_task_name
from horsies.domain.result import Err, Ok
from horsies.domain.task_result import TaskError, TaskResult
from horsies.handle import BrokerErrorCode, BrokerOperationError, BrokerResult
from horsies.lifecycle.recovering import (
    Recovered,
    SilentRows,
    expire_pending,
    sweep_once,
)
from horsies.store.callers import CallerConnectionError, OwnDatabase, on_callers, on_callers_blocking, session_database
from horsies.store.connect import is_transient
from horsies.store.enqueue import Enqueued, EnqueueOutcome, EnqueueRequest, drive, many, one
from horsies.store.loop_thread import LoopClosed, LoopThread
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.producer_client import Link
from horsies.store.reading import read_expired_tasks, read_info, read_stale_tasks, read_worker_stats
from horsies.store.schema import SchemaError
from horsies.waits_in_tasks import waited_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Unpack

    import asyncpg

    from horsies.config.app import PostgresConfig
    from horsies.domain.codec.classes import Classes
    from horsies.handle import InfoParts
    from horsies.store.callers import Ask, CallersConnection, SessionDatabase
    from horsies.store.reading import StoredOutcome, TaskInfo


T = TypeVar("T")

_log = logging.getLogger("horsies.broker")

_RESEND_PAUSES_S = (0.2, 0.4, 0.8)
_CLOSE_TIMEOUT_S = 10.0
_MAX_SWEEP_S = 120.0
_CLOCK_TOLERANCE = timedelta(seconds=5)


class Operation(NamedTuple, Generic[T]):
    """Work on the application's database that may be repeated, or work inside a transaction of the caller."""

    code: BrokerErrorCode
    """The code of its failure."""
    act: Callable[[Link], Awaitable[T]]
    resends: bool = False
    """Whether it is repeated while the database is unavailable for a moment."""
    connection: object = None
    """The caller's (see horsies.store.callers), on which `within` runs in place of `act`."""
    within: Callable[[Any], Coroutine[Any, Any, T]] | None = None


class PostgresBroker:
    """The connections of one application. Blocking methods work in any thread, async ones in any event loop.

    Nothing is opened before the first call, and `close` releases everything until the next one. All work is done on the
    event loop of one thread, so that no caller's loop owns a connection that another one needs.
    """

    def __init__(self, config: PostgresConfig, *, resend_on_transient_err: bool = False) -> None:
        self.config = config
        self.app: Any = None
        self._resends = resend_on_transient_err
        self._link: Link | None = None
        self._opening: asyncio.Task[Link] | None = None
        self._database = OwnDatabase()
        self._thread = LoopThread("horsies broker", on_stop=self._disconnect, after_fork=self._forget)

    async def ensure_schema_initialized(self) -> BrokerResult[None]:
        """Connect; create the tables in an empty database; refuse one with other tables. Every call does this first."""
        return await self.perform_async(Operation(BrokerErrorCode.SCHEMA_INIT_FAILED, lambda _link: asyncio.sleep(0)))

    def send(self, request: EnqueueRequest, *, connection: object = None) -> BrokerResult[Enqueued]:
        """Insert one task; with a `connection` (see horsies.store.callers) inside the caller's transaction."""
        return _no_mismatch(self.perform(self.insertion(request, connection)))

    async def send_async(self, request: EnqueueRequest, *, connection: object = None) -> BrokerResult[Enqueued]:
        """`send` for a running event loop."""
        return _no_mismatch(await self.perform_async(self.insertion(request, connection)))

    def insertion(self, request: EnqueueRequest, connection: object = None) -> Operation[Enqueued]:
        """Return the operation of `send`, whose outcome may be a MISMATCH."""
        within = None if connection is None else partial(drive, steps=one(request))
        act = methodcaller("send", request)
        return Operation(BrokerErrorCode.ENQUEUE_FAILED, act, self._resends, connection, within)

    def insertions(self, requests: Sequence[EnqueueRequest], connection: object = None) -> Operation[list[Enqueued]]:
        """Return the operation that inserts all in one statement, or none: the outcome of each, also a MISMATCH."""
        within = None if connection is None else partial(drive, steps=many(requests))
        act = methodcaller("send_many", requests)
        return Operation(BrokerErrorCode.ENQUEUE_FAILED, act, self._resends, connection, within)

    def enqueue(
        self, task_name: str, queue_name: str = "default", **columns: Unpack[EnqueueColumns]
    ) -> BrokerResult[str]:
        """Insert a task from its stored parts; Ok(task_id), also if the same task was inserted before."""
        return request_of(task_name, queue_name, columns).and_then(self.send).map(lambda enqueued: enqueued.task_id)

    async def enqueue_async(
        self, task_name: str, queue_name: str = "default", **columns: Unpack[EnqueueColumns]
    ) -> BrokerResult[str]:
        """`enqueue` for a running event loop."""
        sent = await request_of(task_name, queue_name, columns).and_then_async(self.send_async)
        return sent.map(lambda enqueued: enqueued.task_id)

    @property
    def classes(self) -> Classes:
        """The classes that results may have: those that the application declares, none of a broker without one."""
        declared: Classes = OURS if self.app is None else self.app.storable
        return declared

    def get_result(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]:
        """Return the task's result; waits at most `timeout_ms`; 0 reads once, None waits without end.

        A value of another class than these (by default all that the application declares) is an error.
        """
        return waited_for(
            lambda limit_ms: self._result(task_id, limit_ms, classes, self.perform(_waiting_for(task_id, limit_ms))),
            timeout_ms,
        )

    async def get_result_async(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]:
        """`get_result` for a running event loop."""
        waited = await self.perform_async(_waiting_for(task_id, timeout_ms))
        return self._result(task_id, timeout_ms, classes, waited)

    def get_task_info(self, task_id: str, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]:
        """Return the task's present row; Ok(None) if there is none."""
        return self.perform(self._info(task_id, parts))

    async def get_task_info_async(self, task_id: str, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]:
        """`get_task_info` for a running event loop."""
        return await self.perform_async(self._info(task_id, parts))

    async def get_stale_tasks(self, stale_threshold_minutes: float = 2) -> list[dict[str, Any]]:
        """Return the RUNNING tasks whose execution has not beaten for that long; HorsiesError if that fails."""
        read = partial(read_stale_tasks, threshold_minutes=stale_threshold_minutes)
        return value_or_raise(await self.perform_async(_monitoring(read)))

    async def get_worker_stats(self) -> BrokerResult[list[dict[str, Any]]]:
        """Return the number of RUNNING tasks of each process."""
        return await self.perform_async(_monitoring(read_worker_stats))

    async def get_expired_tasks(self) -> BrokerResult[list[dict[str, Any]]]:
        """Return PENDING tasks past their good_until."""
        return await self.perform_async(_monitoring(read_expired_tasks))

    async def mark_stale_tasks_as_failed(
        self,
        stale_threshold_ms: int = 300_000,
        *,
        finalizing_stale_threshold_ms: int = 300_000,
        spare: bool = True,
    ) -> int:
        """Recover RUNNING tasks without a heartbeat like a worker's sweep; return how many were retried or failed.

        As in a sweep, silence does not count while no worker could beat, nor for the spare period after it: the log
        says how many were spared until when. `spare=False` is for workers that are known to be dead. HorsiesError if
        it fails.
        """
        settings = self._recovery(
            running_stale_threshold_ms=stale_threshold_ms, finalizing_stale_threshold_ms=finalizing_stale_threshold_ms
        )
        return await self._swept(
            "mark_stale_tasks_as_failed", partial(sweep_once, config=settings, status="RUNNING", spare=spare)
        )

    async def requeue_stale_claimed(self, stale_threshold_ms: int = 120_000, *, spare: bool = True) -> int:
        """Requeue CLAIMED tasks without a heartbeat, like a sweep; return their number.

        `spare` and failures as with `mark_stale_tasks_as_failed`.
        """
        settings = self._recovery(claimed_stale_threshold_ms=stale_threshold_ms)
        return await self._swept(
            "requeue_stale_claimed", partial(sweep_once, config=settings, status="CLAIMED", spare=spare)
        )

    async def expire_pending_tasks(self) -> BrokerResult[int]:
        """Expire PENDING tasks past their good_until; returns their number."""
        return (await self._clean_up(expire_pending)).and_then(_count_of)

    def perform(self, operation: Operation[T]) -> BrokerResult[T]:
        """Wait for it in this thread, where work inside the caller's transaction is done, too."""
        try:
            if operation.connection is None:
                return self._thread.run_sync(self._attempt(operation))
            return on_callers_blocking(operation.connection, partial(self._within, operation, self._own_database))
        except (LoopClosed, CallerConnectionError, ValueError) as error:
            return self._failed(error)

    async def perform_async(self, operation: Operation[T]) -> BrokerResult[T]:
        """`perform` for a running event loop."""
        try:
            if operation.connection is None:
                return await self._thread.run_from_any_loop(self._attempt(operation))
            return await on_callers(
                operation.connection, partial(self._within, operation, partial(self.perform_async, _READ_OWN_DATABASE))
            )
        except (LoopClosed, CallerConnectionError, ValueError) as error:
            return self._failed(error)

    def close(self) -> BrokerResult[None]:
        """Close all connections and release the embedded server. Callers that wait for a result get BROKER_ERROR."""
        if self._thread.close(_CLOSE_TIMEOUT_S):
            return Ok(None)
        message = f"the connections to {self.config.url.label} have not closed in {_CLOSE_TIMEOUT_S:.0f} s"
        return Err(BrokerOperationError(BrokerErrorCode.CLOSE_FAILED, message, retryable=False))

    async def close_async(self) -> BrokerResult[None]:
        """`close` for a running event loop."""
        return await asyncio.to_thread(self.close)

    async def _within(self, operation: Operation[T], own: Ask, callers: CallersConnection) -> BrokerResult[T]:
        """Do the work if the caller's connection is one to the application's database: no worker claims elsewhere."""
        if (reason := await self._database.why_not(callers, own)) is not None:
            return refused(reason)
        assert operation.within is not None, "an operation with a connection says what is done on it"
        return Ok(await operation.within(callers))

    async def _own_database(self) -> BrokerResult[SessionDatabase]:
        return self.perform(_READ_OWN_DATABASE)

    def _failed(self, error: Exception) -> Err[BrokerOperationError]:
        closed = isinstance(error, LoopClosed)
        code = BrokerErrorCode.NO_BROKER if closed else BrokerErrorCode.ENQUEUE_FAILED
        return Err(explained(code, error, self.config))

    def _result(
        self, task_id: str, timeout_ms: int | None, classes: Classes | None, waited: BrokerResult[StoredOutcome | None]
    ) -> TaskResult[Any, TaskError]:
        """Return the result of a task after a wait of `timeout_ms` for its end."""
        if isinstance(waited, Err):
            message = f"the result cannot be read: {waited.err_value.message}"
            return _failure(OperationalErrorCode.BROKER_ERROR, message, {"retryable": waited.err_value.retryable})
        outcome = waited.ok_value
        if outcome is None:
            message, data = "there is no such task; it may have been pruned", {"task_id": task_id}
            return _failure(RetrievalCode.TASK_NOT_FOUND, message, data)
        if outcome.is_final:
            return outcome.result(classes or self.classes)
        waited_ms = "and nothing here can end it" if timeout_ms is None else f"after {timeout_ms} ms"
        message = f"the task was still {outcome.status} {waited_ms}"
        return _failure(RetrievalCode.WAIT_TIMEOUT, message, {"task_id": task_id, "timeout_ms": timeout_ms})

    def _info(self, task_id: str, parts: InfoParts) -> Operation[TaskInfo | None]:
        read = partial(read_info, task_id=task_id, classes=self.classes, **parts)
        return Operation(BrokerErrorCode.TASK_INFO_QUERY_FAILED, lambda link: link.use(read))

    def _recovery(self, **thresholds: int) -> RecoveryConfig:
        """Return the application's settings, with these thresholds."""
        config: RecoveryConfig = RecoveryConfig() if self.app is None else self.app.config.recovery
        return config.model_copy(update=thresholds)

    async def _swept(
        self, name: str, sweep: Callable[[asyncpg.Connection], Awaitable[tuple[Recovered, SilentRows | None]]]
    ) -> int:
        done, left = value_or_raise(await self._clean_up(sweep))
        if left is not None:
            _log.warning("%s %s", name, left.words())
        return value_or_raise(_count_of(done))

    async def _clean_up(self, sweep: Callable[[asyncpg.Connection], Awaitable[T]]) -> BrokerResult[T]:
        act: Callable[[Link], Awaitable[T]] = lambda link: link.use(sweep, limit_s=_MAX_SWEEP_S)  # noqa: E731
        return await self.perform_async(Operation(BrokerErrorCode.CLEANUP_FAILED, act))

    # From here on, everything runs on the thread's loop.

    async def _attempt(self, operation: Operation[T]) -> BrokerResult[T]:
        """Try it, and again after each pause as long as waiting may help."""
        pauses = iter(_RESEND_PAUSES_S if operation.resends else ())
        while True:
            try:
                return Ok(await operation.act(self._link or await self._connected()))
            except (*CONNECTION_ERRORS, ValueError) as error:  # ValueError: a request or a row that makes no sense
                pause = next(pauses, None)
                if pause is None or not is_transient(error):
                    return Err(explained(operation.code, error, self.config))
            await asyncio.sleep(pause)

    async def _connected(self) -> Link:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(Link.open(self.config))
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, opening: asyncio.Task[Link]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._link = opening.result()

    async def _disconnect(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        link, self._link = self._link, None
        self._database = OwnDatabase()
        if link is not None:
            await link.close()

    def _forget(self) -> object:
        """Forget the client in a forked child: it belongs to the parent."""
        parents = self._link, self._opening
        self._link = self._opening = None
        return parents


def value_or_raise(answer: BrokerResult[T]) -> T:
    """Return the value, for methods that are documented to return it directly."""
    if isinstance(answer, Ok):
        return answer.ok_value
    raise HorsiesError(answer.err_value.message) from answer.err_value.exception


_READ_OWN_DATABASE: Final = Operation(BrokerErrorCode.ENQUEUE_FAILED, lambda link: link.use(session_database))


def _waiting_for(task_id: str, timeout_ms: int | None) -> Operation[StoredOutcome | None]:
    timeout_s = None if timeout_ms is None else max(timeout_ms, 0) / 1000
    code = BrokerErrorCode.TASK_INFO_QUERY_FAILED
    return Operation(code, lambda link: link.waiting.until_final(task_id, timeout_s))


def _monitoring(
    read: Callable[[asyncpg.Connection], Awaitable[list[dict[str, Any]]]],
) -> Operation[list[dict[str, Any]]]:
    return Operation(BrokerErrorCode.MONITORING_QUERY_FAILED, lambda link: link.use(read))


def _count_of(swept: Recovered) -> BrokerResult[int]:
    """Return the number of changed rows; an error only if none could be changed, else the count would be lost."""
    for row in swept.refused:
        _log.warning("task %s could not be swept: %s", row.item, mask(row.error))
    if swept.refused and not swept.changed:
        first = swept.refused[0]
        message = f"none of {len(swept.refused)} tasks could be changed; {first.item}: {first.error}"
        return Err(BrokerOperationError(BrokerErrorCode.CLEANUP_FAILED, mask(message), retryable=False))
    return Ok(swept.changed)


def _no_mismatch(sent: BrokerResult[Enqueued]) -> BrokerResult[Enqueued]:
    if isinstance(sent, Ok) and sent.ok_value.outcome is EnqueueOutcome.MISMATCH:
        message = f"the id {sent.ok_value.task_id} belongs to a task with other contents; send under a new id"
        return Err(BrokerOperationError(BrokerErrorCode.PAYLOAD_MISMATCH, message, retryable=False))
    return sent


def explained(code: BrokerErrorCode, error: Exception, config: PostgresConfig) -> BrokerOperationError:
    if isinstance(error, SchemaError):
        code = BrokerErrorCode.SCHEMA_INIT_FAILED
    if isinstance(error, HorsiesError):
        help_text = advise(error.help_text or "", f"--database-url '{config.url}'")
        text = error.message + (f"; {help_text}" if help_text else "")
    else:
        text = str(error) or type(error).__name__
    return BrokerOperationError(code, mask(text), retryable=is_transient(error), exception=error)


def _failure(
    code: OperationalErrorCode | RetrievalCode, message: str, data: dict[str, Any]
) -> TaskResult[Any, TaskError]:
    return TaskResult(err=TaskError(error_code=code, message=message, data=data))


class EnqueueColumns(TypedDict, total=False):
    """The parameters of `enqueue` besides the task's name and its queue."""

    task_id: Required[str]
    enqueue_sha: Required[str]
    args_json: str | None
    kwargs_json: str | None
    priority: int
    sent_at: datetime | None
    enqueued_at: datetime | None
    enqueue_delay_seconds: int | None
    good_until: datetime | None
    task_options: str | None


def request_of(task_name: str, queue_name: str, columns: EnqueueColumns) -> BrokerResult[EnqueueRequest]:
    """Return the row to insert, or an Err for names and times that cannot be stored."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {"sent_at": None, "enqueued_at": None, "good_until": None, **columns}
    delay = row.pop("enqueue_delay_seconds", None)
    sent_at, enqueued_at, good_until = row["sent_at"] or now, row["enqueued_at"], row["good_until"]
    for name, moment in (("sent_at", sent_at), ("enqueued_at", enqueued_at), ("good_until", good_until)):
        if moment is not None and moment.tzinfo is None:
            return refused(f"{name}={moment} has no time zone; pass an aware datetime, for example datetime.now(UTC)")
    for reason in filter(None, (why_not_a_task_name(task_name), why_not_a_queue_name(queue_name))):
        return refused(reason)
    if enqueued_at is not None and delay is not None:
        return refused("enqueued_at and enqueue_delay_seconds both say when the task is due; pass one of them")
    if enqueued_at is None and delay is None and sent_at > now + _CLOCK_TOLERANCE:
        return refused(f"sent_at={sent_at} is in the future; to run the task later, pass enqueued_at or a delay")
    row |= {"sent_at": sent_at, "delay_seconds": delay}
    return Ok(EnqueueRequest(task_name=task_name, queue_name=queue_name, **row))


def refused(message: str) -> Err[BrokerOperationError]:
    """Return an Err of a send that was not tried."""
    return Err(BrokerOperationError(BrokerErrorCode.ENQUEUE_FAILED, message, retryable=False))
