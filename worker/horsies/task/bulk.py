"""Many calls sent with one statement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from horsies.domain.errors import HorsiesError
from horsies.domain.result import Err, Ok, Result
from horsies.failed_sends import abort, abort_async, answers, tell_of_other_arguments
from horsies.store.enqueue import EnqueueOutcome
from horsies.task.sending import Sender, invalid, no_broker, not_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from horsies.broker import PostgresBroker
    from horsies.domain.trace import Sending, Trace, Tracing
    from horsies.handle import BrokerResult, TaskHandle, TaskSendError, TaskSendResult
    from horsies.store.enqueue import Enqueued, EnqueueRequest
    from horsies.task.options import TaskSendOptions
    from horsies.task.sending import App


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One call to be sent: an element of `app.send_many([...])`."""

    sender: Sender
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    options: TaskSendOptions

    def prepare(
        self, *, suppressed: bool, sent_at: datetime, trace: Trace | None = None
    ) -> Result[EnqueueRequest, TaskSendError]:
        if self.options.connection is not None:
            return invalid("the calls of one send_many share a connection: write send_many(calls, connection=...)")
        return self.sender.prepare(
            self.args, self.kwargs, self.options, suppressed=suppressed, sent_at=sent_at, trace=trace
        )


class _Batch:
    """The calls in their order; `requests` are those that can be sent."""

    def __init__(self, calls: Iterable[TaskCall], trace: Trace | None = None) -> None:
        # Checked once per task: to find that a variable is not in the environment takes 0.5 µs.
        is_suppressed = cache(Sender.is_suppressed)
        now = datetime.now(UTC)
        self._prepared: list[Result[EnqueueRequest, TaskSendError]] = []
        self._senders: list[Sender] = []
        self.requests: list[EnqueueRequest] = []
        for call in calls:
            result = call.prepare(suppressed=is_suppressed(call.sender), sent_at=now, trace=trace)
            self._prepared.append(result)
            if isinstance(result, Ok):
                self.requests.append(result.ok_value)
                self._senders.append(call.sender)

    def answered(
        self, broker: PostgresBroker, answer: BrokerResult[list[Enqueued]]
    ) -> list[TaskSendResult[TaskHandle[Any]]]:
        if isinstance(answer, Err):
            return self.in_place([not_stored(request, answer.err_value) for request in self.requests])
        stored = zip(self._senders, self.requests, answer.ok_value, strict=True)
        sent = [sender.read_stored(request, broker, enqueued) for sender, request, enqueued in stored]
        if any(enqueued.outcome is EnqueueOutcome.LIVE_DUPLICATE for enqueued in answer.ok_value):
            tell_of_other_arguments(zip(self.requests, sent, strict=True))
        return self.in_place(sent)

    def in_place(self, results: Iterable[TaskSendResult[TaskHandle[Any]]]) -> list[TaskSendResult[TaskHandle[Any]]]:
        """The results at the positions of their calls, together with the errors of calls that could not be sent."""
        remaining = iter(results)
        return [result if isinstance(result, Err) else next(remaining) for result in self._prepared]


def send_many(app: App, calls: Iterable[TaskCall], connection: object) -> list[TaskSendResult[TaskHandle[Any]]]:
    """One result per call, in their order. A call that cannot be sent does not prevent the others."""
    results = _attempt(app, calls, connection)
    if (failed := _first_failed(results)) is not None:
        abort(connection, app.config, failed)
    return answers(results, app.config)


async def send_many_async(
    app: App, calls: Iterable[TaskCall], connection: object
) -> list[TaskSendResult[TaskHandle[Any]]]:
    """`send_many` for a running event loop."""
    results = await _attempt_async(app, calls, connection)
    if (failed := _first_failed(results)) is not None:
        await abort_async(connection, app.config, failed)
    return answers(results, app.config)


def _first_failed(results: Sequence[TaskSendResult[TaskHandle[Any]]]) -> Err[Any] | None:
    return next((result for result in results if isinstance(result, Err)), None)


def _attempt(app: App, calls: Iterable[TaskCall], connection: object) -> list[TaskSendResult[TaskHandle[Any]]]:
    if app.tracing is None:
        return _send(app, _Batch(calls), connection)
    calls = list(calls)
    with _span(app.tracing, calls) as span:
        return span.sent(_send(app, _Batch(calls, span.trace), connection))


async def _attempt_async(
    app: App, calls: Iterable[TaskCall], connection: object
) -> list[TaskSendResult[TaskHandle[Any]]]:
    if app.tracing is None:
        return await _send_async(app, _Batch(calls), connection)
    calls = list(calls)
    with _span(app.tracing, calls) as span:
        return span.sent(await _send_async(app, _Batch(calls, span.trace), connection))


def _span(tracing: Tracing, calls: Sequence[TaskCall]) -> AbstractContextManager[Sending]:
    """One for the batch, as its tasks are stored with one statement."""
    queues = {call.sender.queue_name for call in calls}
    destination = queues.pop() if len(queues) == 1 else "several queues"
    return tracing.sending(destination, {"messaging.batch.message_count": len(calls)})


def _send(app: App, batch: _Batch, connection: object) -> list[TaskSendResult[TaskHandle[Any]]]:
    if not batch.requests:
        return batch.in_place([])
    try:
        broker = app.get_broker()
    except HorsiesError as error:
        return batch.in_place(no_broker(request, error) for request in batch.requests)
    return batch.answered(broker, broker.send_many(batch.requests, connection=connection))


async def _send_async(app: App, batch: _Batch, connection: object) -> list[TaskSendResult[TaskHandle[Any]]]:
    if not batch.requests:
        return batch.in_place([])
    try:
        broker = app.get_broker()
    except HorsiesError as error:
        return batch.in_place(no_broker(request, error) for request in batch.requests)
    return batch.answered(broker, await broker.send_many_async(batch.requests, connection=connection))
