"""Sends of tasks: one call, many calls in one statement, and the repetition of a failed send.

What is done is described once, as a sequence of calls. Its two drivers are for callers that block and that await.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from horsies.domain.errors import HorsiesError
from horsies.domain.result import Err, Ok, Result
from horsies.domain.trace import UNTRACED
from horsies.failed_sends import aborting, answer, answers, or_raise, warn_of_other_arguments
from horsies.handle import BrokerErrorCode, BrokerOperationError
from horsies.store.enqueue import EnqueueOutcome
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.task.options import PLAIN, TaskSendOptions
from horsies.task.requests import TaskRequests, invalid, not_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from horsies.broker import PostgresBroker
    from horsies.domain.trace import Sending, Trace
    from horsies.handle import BrokerResult, TaskHandle, TaskSendError, TaskSendResult
    from horsies.store.enqueue import Enqueued, EnqueueRequest
    from horsies.store.loop_thread import CallSteps
    from horsies.task.requests import App


_importing: ContextVar[bool] = ContextVar("importing", default=False)


@contextmanager
def sends_suppressed() -> Iterator[None]:
    """Suppress all sends in this block. Other threads can send: a web process may be starting a worker here."""
    before = _importing.set(True)
    try:
        yield
    finally:
        _importing.reset(before)


def are_sends_suppressed() -> bool:
    """Return whether such a block around the caller, or TASKLIB_SUPPRESS_SENDS=1, suppresses sends."""
    return _importing.get() or os.environ.get("TASKLIB_SUPPRESS_SENDS") == "1"


P = ParamSpec("P")
T = TypeVar("T")

_UNTRACED: Final[AbstractContextManager[Sending]] = nullcontext(UNTRACED)


class BoundTask(Generic[P, T]):
    """The sends of a task with these options. A TaskFunction is one without options."""

    def __init__(self, requests: TaskRequests, options: TaskSendOptions = PLAIN) -> None:
        self._requests = requests
        self._options = options

    def send(self, *args: P.args, **kwargs: P.kwargs) -> TaskSendResult[TaskHandle[T]]:
        """Store the task for a worker. Nothing is raised; an Err explains what to do."""
        return self._answer(drive_blocking(self._sending(args, kwargs)))

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> TaskSendResult[TaskHandle[T]]:
        """`send` for a running event loop."""
        return self._answer(await drive_awaited(self._sending(args, kwargs)))

    def send_or_raise(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T]:
        """`send` that returns the handle itself, and raises SendFailedError."""
        return or_raise(drive_blocking(self._sending(args, kwargs)))

    async def send_or_raise_async(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T]:
        """`send_or_raise` for a running event loop."""
        return or_raise(await drive_awaited(self._sending(args, kwargs)))

    def schedule(self, delay_seconds: float, *args: P.args, **kwargs: P.kwargs) -> TaskSendResult[TaskHandle[T]]:
        """`send`, to be run `delay_seconds` from now by the clock of the database."""
        return self._answer(drive_blocking(self._sending(args, kwargs, delay_seconds)))

    async def schedule_async(
        self, delay_seconds: float, *args: P.args, **kwargs: P.kwargs
    ) -> TaskSendResult[TaskHandle[T]]:
        """`schedule` for a running event loop."""
        return self._answer(await drive_awaited(self._sending(args, kwargs, delay_seconds)))

    def to_send(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall:
        """Return one element of `app.send_many([...])`."""
        return TaskCall(self._requests, args, kwargs, self._options)

    def _sending(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], delay_seconds: float | None = None
    ) -> CallSteps[TaskSendResult[TaskHandle[Any]]]:
        requests, options = self._requests, self._options
        if delay_seconds is not None:
            options = options.delayed(delay_seconds)
        prepare = partial(requests.prepare, args, kwargs, options)
        return _sending_one(requests, prepare, options.connection, _span_of_one(requests))

    def _answer(self, sent: TaskSendResult[TaskHandle[Any]]) -> TaskSendResult[TaskHandle[T]]:
        return answer(sent, self._requests.app.config)


def sending_again(
    requests: TaskRequests, error: TaskSendError, *, delayed: bool
) -> CallSteps[TaskSendResult[TaskHandle[Any]]]:
    """Store what a failed send would have stored, with the trace that is in its row."""
    return _sending_one(requests, lambda trace: requests.repeat(error, delayed=delayed), None, _UNTRACED)


def _sending_one(
    requests: TaskRequests,
    prepare: Callable[..., Result[EnqueueRequest, TaskSendError]],
    connection: object,
    span: AbstractContextManager[Sending],
) -> CallSteps[TaskSendResult[TaskHandle[Any]]]:
    """Store one task. A failure makes the caller's transaction fail, and is neither logged nor raised yet."""
    with span as opened:
        prepared = prepare(trace=opened.trace)
        sent: TaskSendResult[TaskHandle[Any]]
        if isinstance(prepared, Err):
            sent = prepared
        elif isinstance(found := _broker_of(requests.app), Err):
            sent = not_sent(prepared.ok_value, found.err_value)
        else:
            broker, request = found.ok_value, prepared.ok_value
            stored = yield broker.perform, broker.perform_async, (broker.insertion(request, connection),)
            if isinstance(stored, Err):
                sent = not_sent(request, stored.err_value)
            else:
                sent = requests.sent(request, broker, stored.ok_value)
                if stored.ok_value.outcome is EnqueueOutcome.LIVE_DUPLICATE:
                    warn_of_other_arguments([(request, sent)])
        opened.sent(sent)
    if isinstance(sent, Err):
        yield from aborting(connection, requests.app.config, sent)
    return sent


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One call to be sent: an element of `app.send_many([...])`."""

    requests: TaskRequests
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    options: TaskSendOptions

    def prepare(
        self, *, suppressed: bool, sent_at: datetime, trace: Trace | None = None
    ) -> Result[EnqueueRequest, TaskSendError]:
        """Return its row, or the error."""
        if self.options.connection is not None:
            return invalid("the calls of one send_many share a connection: write send_many(calls, connection=...)")
        return self.requests.prepare(
            self.args, self.kwargs, self.options, suppressed=suppressed, sent_at=sent_at, trace=trace
        )


def sending_many(
    app: App, calls: Iterable[TaskCall], connection: object
) -> CallSteps[list[TaskSendResult[TaskHandle[Any]]]]:
    """Store many tasks: one result per call, in their order. A call that cannot be sent does not prevent the others."""
    span = _UNTRACED
    if app.tracing is not None:
        # One for the batch, as its tasks are stored with one statement.
        calls = list(calls)
        queues = {call.requests.queue_name for call in calls}
        destination = queues.pop() if len(queues) == 1 else "several queues"
        span = app.tracing.sending(destination, {"messaging.batch.message_count": len(calls)})
    with span as opened:
        # Checked once per task: to find that a variable is not in the environment takes 0.5 µs.
        is_suppressed = cache(TaskRequests.is_suppressed)
        now = datetime.now(UTC)
        prepared = [
            (
                requests := call.requests,
                call.prepare(suppressed=is_suppressed(requests), sent_at=now, trace=opened.trace),
            )
            for call in calls
        ]
        sendable = [(requests, one.ok_value) for requests, one in prepared if isinstance(one, Ok)]
        stored = iter((yield from _storing_all(app, sendable, connection)) if sendable else ())
        results = [one if isinstance(one, Err) else next(stored) for _, one in prepared]
        opened.sent(results)
    if (failed := next((result for result in results if isinstance(result, Err)), None)) is not None:
        yield from aborting(connection, app.config, failed)
    return answers(results, app.config)


def _storing_all(
    app: App, sendable: Sequence[tuple[TaskRequests, EnqueueRequest]], connection: object
) -> CallSteps[list[TaskSendResult[TaskHandle[Any]]]]:
    rows = [request for _, request in sendable]
    found = _broker_of(app)
    if isinstance(found, Err):
        return [not_sent(request, found.err_value) for request in rows]
    broker = found.ok_value
    stored = yield broker.perform, broker.perform_async, (broker.insertions(rows, connection),)
    if isinstance(stored, Err):
        return [not_sent(request, stored.err_value) for request in rows]
    outcomes: list[Enqueued] = stored.ok_value
    sent = [
        requests.sent(request, broker, outcome) for (requests, request), outcome in zip(sendable, outcomes, strict=True)
    ]
    if any(outcome.outcome is EnqueueOutcome.LIVE_DUPLICATE for outcome in outcomes):
        warn_of_other_arguments(zip(rows, sent, strict=True))
    return sent


def _broker_of(app: App) -> BrokerResult[PostgresBroker]:
    try:
        return Ok(app.get_broker())
    except HorsiesError as error:
        return Err(BrokerOperationError(BrokerErrorCode.NO_BROKER, error.message, retryable=False, exception=error))


def _span_of_one(requests: TaskRequests) -> AbstractContextManager[Sending]:
    tracing = requests.app.tracing
    if tracing is None:
        return _UNTRACED
    return tracing.sending(requests.queue_name, {"horsies.task.name": requests.task_name})
