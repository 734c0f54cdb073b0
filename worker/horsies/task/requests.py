"""The way of a call to the row of its task, and of a stored row to a handle."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from horsies.domain.codec import CodecError, dump_args, dump_kwargs, parse_json, to_json
from horsies.domain.codec.conversion import ConversionError
from horsies.domain.ids import enqueue_sha, new_task_id
from horsies.domain.result import Err, Ok, Result
from horsies.domain.retry import TIMEOUT
from horsies.domain.trace import with_trace
from horsies.handle import TaskHandle, TaskSendError, TaskSendErrorCode, TaskSendPayload
from horsies.store.enqueue import EnqueueOutcome, EnqueueRequest
from horsies.task.options import (
    OPTION_NAMES,
    TaskSendOptions,
    UnsendableError,
    checked_deadline,
    checked_delay,
    checked_due,
    checked_priority,
    checked_timeout,
    checked_unique_key,
    queue_problem,
    route,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from horsies.broker import PostgresBroker
    from horsies.config.app import AppConfig
    from horsies.config.retry_policy import RetryPolicy
    from horsies.domain.trace import Trace, Tracing
    from horsies.handle import BrokerOperationError, TaskSendResult
    from horsies.store.enqueue import Enqueued
    from horsies.task.calls import ReturnType
    from horsies.task.parameters import Parameters


class App(Protocol):
    """The part of an application that sending uses."""

    def are_sends_suppressed(self) -> bool: ...

    def get_broker(self) -> PostgresBroker: ...

    @property
    def tracing(self) -> Tracing | None: ...

    @property
    def config(self) -> AppConfig: ...


class TaskRequests:
    """The rows of one task's sends, and the handles to its tasks."""

    def __init__(
        self,
        app: App,
        *,
        task_name: str,
        queue_name: str,
        priority: int,
        retry_policy: RetryPolicy | None,
        parameters: Parameters,
        return_type: ReturnType,
    ) -> None:
        self.app = app
        self.task_name = task_name
        self.queue_name = queue_name
        self.retry_policy = retry_policy
        self.parameters = parameters
        self.return_type = return_type
        self.result_classes = parameters.classes.within(lambda: (return_type.ok_type, return_type.err_type))
        self._priority = priority
        self._stored_policy = None if retry_policy is None else retry_policy.to_stored()
        self.options_json = self._options_json(None)

    def stored_options(self, good_until: datetime | None) -> str:
        """Return the task_options column for a task with this deadline; UnsendableError for one that makes no sense."""
        return self._options_json(checked_deadline(good_until))

    def is_suppressed(self) -> bool:
        return self.app.are_sends_suppressed()

    def prepare(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: TaskSendOptions,
        *,
        suppressed: bool | None = None,
        sent_at: datetime | None = None,
        trace: Trace | None = None,
    ) -> Result[EnqueueRequest, TaskSendError]:
        """Return the row of one call, or the error. It is sent now, or with others at `sent_at`, with the `trace`.

        `suppressed` says whether sends are suppressed, if the caller knows.
        """
        if self.is_suppressed() if suppressed is None else suppressed:
            return self._suppressed()
        try:
            if (reason := self.parameters.why_not(args, kwargs)) is not None:
                misplaced = sorted(name for name in OPTION_NAMES & kwargs.keys() if name not in self.parameters)
                hint = (
                    f"; for an option of the send write .with_options({misplaced[0]}=...).send(...)"
                    if misplaced
                    else ""
                )
                raise UnsendableError(f"the {reason}{hint}")
            request = self._request(args, kwargs, options, sent_at or datetime.now(UTC), trace)
            # After the codec, which names the replacement for a Decimal or a set.
            if (reason := self.parameters.why_not_by_type(args, kwargs)) is not None:
                raise UnsendableError(f"the {reason}")
            return Ok(request)
        except ConversionError as error:
            return invalid(f"task {self.task_name!r} was not sent: the {error}", error)
        # UnsendableError, CodecError, and Python's own for a message that shows an integer of 5 000 digits.
        except ValueError as error:
            return invalid(f"task {self.task_name!r} was not sent: {error}", error)

    def repeat(self, error: TaskSendError, *, delayed: bool) -> Result[EnqueueRequest, TaskSendError]:
        """Return the row that a failed send would have stored, id and fingerprint included."""
        if self.is_suppressed():
            return self._suppressed()
        payload = error.payload
        if error.code is not TaskSendErrorCode.ENQUEUE_FAILED or payload is None or error.task_id is None:
            return invalid(f"an error with code {error.code} cannot be sent again; call send() again")
        if payload.task_name != self.task_name:
            return invalid(f"the error is of task {payload.task_name!r}, this is {self.task_name!r}")
        if delayed != (payload.enqueue_delay_seconds is not None):
            method = "retry_send" if delayed else "retry_schedule"
            return invalid(f"the failed send had {'no' if delayed else 'a'} delay; use {method}()")
        return Ok(
            EnqueueRequest(
                task_id=error.task_id,
                delay_seconds=payload.enqueue_delay_seconds,
                **{name: getattr(payload, name) for name in _SHARED_FIELDS},
            )
        )

    def sent(
        self, request: EnqueueRequest, broker: PostgresBroker, stored: Enqueued
    ) -> TaskSendResult[TaskHandle[Any]]:
        """Return a handle to the task that exists for the request, or the error for an id of another task."""
        if stored.outcome is EnqueueOutcome.MISMATCH:
            message = f"the id {request.task_id} belongs to a task with other contents; send under a new id"
            return _failed(request, TaskSendErrorCode.PAYLOAD_MISMATCH, message)
        handle: TaskHandle[Any] = TaskHandle(stored.task_id, broker, self.return_type.from_stored, self.result_classes)
        if stored.outcome is EnqueueOutcome.LIVE_DUPLICATE:
            handle.duplicate, handle.arguments_differ = True, not self._is_same_call(request, stored)
        return Ok(handle)

    def _request(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: TaskSendOptions,
        sent_at: datetime,
        trace: Trace | None,
    ) -> EnqueueRequest:
        good_until, due = checked_deadline(options.good_until), checked_due(options.at, options.delay)
        if good_until is not None and due is not None and due >= good_until:
            raise UnsendableError(f"it would be due at {due}, when its good_until={good_until} has passed")
        queue_name, priority = self._route(options.queue)
        priority = checked_priority(options.priority) or priority
        delay_seconds, timeout_ms = checked_delay(options.delay), checked_timeout(options.timeout_ms)
        stored_args, stored_kwargs = self.parameters.to_stored(args, kwargs)
        classes = self.parameters.classes
        args_json, kwargs_json = dump_args(stored_args, classes), dump_kwargs(stored_kwargs, classes)
        plain = good_until is None and timeout_ms is None
        task_options = self.options_json if plain else self._options_json(good_until, timeout_ms)
        if trace:
            task_options = with_trace(task_options, trace)
        return EnqueueRequest(
            task_id=new_task_id(),
            task_name=self.task_name,
            queue_name=queue_name,
            priority=priority,
            args_json=args_json,
            kwargs_json=kwargs_json,
            task_options=task_options,
            sent_at=sent_at,
            good_until=good_until,
            enqueued_at=due,
            delay_seconds=delay_seconds,
            unique_key=checked_unique_key(options.unique_key),
            enqueue_sha=enqueue_sha(
                task_name=self.task_name,
                queue_name=queue_name,
                priority=priority,
                args_json=args_json,
                kwargs_json=kwargs_json,
                sent_at=sent_at,
                good_until=good_until,
                enqueue_delay_seconds=delay_seconds,
                task_options=task_options,
            ),
        )

    def _route(self, queue: str | None) -> tuple[str, int]:
        """Return the queue of one send, with its priority."""
        if queue is None:
            return self.queue_name, self._priority
        config = self.app.config
        if (problem := queue_problem(config, queue)) is not None:
            raise UnsendableError(problem.message + (f"; {problem.help_text}" if problem.help_text else ""))
        return route(config, queue)

    def _options_json(self, good_until: datetime | None, timeout_ms: int | None = None) -> str:
        stored: dict[str, Any] = {
            "retry_policy": self._stored_policy,
            "good_until": None if good_until is None else good_until.isoformat(),
        }
        # Only where it is given: the text of most tasks stays as other versions write it.
        return to_json(stored if timeout_ms is None else stored | {TIMEOUT: timeout_ms}, "task_options")

    def _suppressed(self) -> Err[TaskSendError]:
        return Err(
            TaskSendError(
                TaskSendErrorCode.SEND_SUPPRESSED,
                f"task {self.task_name!r} was not sent: sends are suppressed, for example while modules are imported",
                retryable=False,
            )
        )

    def _is_same_call(self, request: EnqueueRequest, stored: Enqueued) -> bool:
        """Compare by value: the order of a dict's keys does not matter, nor whether an argument is given by name."""
        if (request.args_json, request.kwargs_json) == (stored.args_json, stored.kwargs_json):
            return True
        try:
            return self._by_name(request) == self._by_name(stored)
        except (CodecError, TypeError):  # the live task was not made by a send, or by another version of the function
            return False

    def _by_name(self, call: EnqueueRequest | Enqueued) -> Mapping[str, Any]:
        return self.parameters.by_name(parse_json(call.args_json or "[]"), parse_json(call.kwargs_json or "{}"))


_SHARED_FIELDS = frozenset(field.name for field in fields(TaskSendPayload)) - {"enqueue_delay_seconds"}


def invalid(message: str, cause: BaseException | None = None) -> Err[TaskSendError]:
    return Err(TaskSendError(TaskSendErrorCode.VALIDATION_FAILED, message, retryable=False, exception=cause))


def not_sent(request: EnqueueRequest, error: BrokerOperationError) -> Err[TaskSendError]:
    """Return the broker's error as that of a send, with all that the send would have stored."""
    return _failed(
        request, TaskSendErrorCode.ENQUEUE_FAILED, error.message, retryable=error.retryable, exception=error.exception
    )


def _failed(
    request: EnqueueRequest,
    code: TaskSendErrorCode,
    message: str,
    *,
    retryable: bool = False,
    exception: BaseException | None = None,
) -> Err[TaskSendError]:
    payload = TaskSendPayload(
        enqueue_delay_seconds=request.delay_seconds,
        **{name: getattr(request, name) for name in _SHARED_FIELDS},
    )
    text = f"task {request.task_name!r} was not sent: {message}"
    return Err(TaskSendError(code, text, retryable, request.task_id, payload, exception))
