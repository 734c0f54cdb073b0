"""The result of a send: a handle to the task, or an error that says whether and how to send again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypedDict, TypeVar

from horsies.domain.codes import ContractCode, OperationalErrorCode, RetrievalCode
from horsies.domain.masking import mask
from horsies.domain.result import Err, Result
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Unpack

    from horsies.domain.codec.classes import Classes
    from horsies.store.reading import TaskInfo

T = TypeVar("T")


class BrokerErrorCode(StrEnum):
    SCHEMA_INIT_FAILED = "SCHEMA_INIT_FAILED"
    ENQUEUE_FAILED = "ENQUEUE_FAILED"
    PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"
    TASK_INFO_QUERY_FAILED = "TASK_INFO_QUERY_FAILED"
    MONITORING_QUERY_FAILED = "MONITORING_QUERY_FAILED"
    CLEANUP_FAILED = "CLEANUP_FAILED"
    CLOSE_FAILED = "CLOSE_FAILED"
    LISTENER_START_FAILED = "LISTENER_START_FAILED"
    LISTENER_SUBSCRIBE_FAILED = "LISTENER_SUBSCRIBE_FAILED"
    NO_BROKER = "NO_BROKER"


@dataclass(frozen=True, slots=True)
class BrokerOperationError:
    """The reason why the broker failed. `retryable`: the same call may succeed later without any change."""

    code: BrokerErrorCode
    message: str
    retryable: bool
    exception: BaseException | None = None


BrokerResult: TypeAlias = Result[T, BrokerOperationError]


class TaskSendErrorCode(StrEnum):
    SEND_SUPPRESSED = "SEND_SUPPRESSED"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    ENQUEUE_FAILED = "ENQUEUE_FAILED"
    PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"


@dataclass(frozen=True, slots=True)
class TaskSendPayload:
    """The complete content of one send, so that `retry_send` can store exactly that."""

    task_name: str
    queue_name: str
    priority: int
    args_json: str | None
    kwargs_json: str | None
    sent_at: datetime
    good_until: datetime | None
    enqueue_delay_seconds: float | None
    task_options: str | None
    enqueue_sha: str
    unique_key: str | None = None
    enqueued_at: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TaskSendError:
    """The reason why a task was not sent. Its text omits the payload, which has the arguments, and masks passwords."""

    code: TaskSendErrorCode
    message: str
    retryable: bool
    task_id: str | None = None
    payload: TaskSendPayload | None = None
    exception: BaseException | None = None

    def __repr__(self) -> str:
        known = f"code={self.code}, retryable={self.retryable}, task_id={self.task_id!r}"
        return f"TaskSendError({known}, message={mask(self.message)!r})"


TaskSendResult: TypeAlias = Result[T, TaskSendError]


class FailedSend(Protocol):
    """A TaskSendError, or the WorkflowStartError of a workflow."""

    @property
    def code(self) -> StrEnum: ...
    @property
    def message(self) -> str: ...
    @property
    def exception(self) -> BaseException | None: ...


class SendFailedError(Exception):
    """A task was not sent, or a workflow not started. `error` says why; `task.retry_send(error)` sends it again.

    Raised by `send_or_raise`, and with `AppConfig(raise_send_errors=True)` by all sends and starts; of a `send_many`,
    `results` has what became of each call.
    """

    def __init__(self, error: FailedSend, results: Sequence[TaskSendResult[TaskHandle[Any]]] = ()) -> None:
        super().__init__(error, results)
        self.error = error
        self.results = results

    def __str__(self) -> str:
        text = f"{mask(self.error.message)} [{self.error.code}]"
        failed = sum(isinstance(result, Err) for result in self.results)
        return f"{failed:,} of {len(self.results):,} calls failed; the first: {text}" if self.results else text


class InfoParts(TypedDict, total=False):
    """The parts of a TaskInfo that are read only on request, because they may be large."""

    include_result: bool
    include_failed_reason: bool
    include_attempts: bool


class ResultSource(Protocol):
    """The source of a handle's reads: the broker."""

    def get_result(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]: ...

    async def get_result_async(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]: ...

    def get_task_info(self, task_id: str, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]: ...

    async def get_task_info_async(self, task_id: str, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]: ...


# Transient: the database was unavailable or slow, the row did not exist yet, its text or its class could not be read. A
# task whose own stored error has such a code is also read again, which costs a query.
_ASKED_ANEW = frozenset(
    {OperationalErrorCode.BROKER_ERROR, ContractCode.PYDANTIC_HYDRATION_ERROR, *RetrievalCode.__members__.values()}
)


class TaskHandle(Generic[T]):
    """One sent task. Its stored outcome is cached once it was read; errors of reading are not.

    `duplicate`: the send stored nothing, because a live task of its name had its unique key; the handle is that task's.
    `arguments_differ`: that task was sent with other arguments, so nothing will run with those of this send.
    """

    __slots__ = ("_classes", "_outcome", "_restore", "_source", "arguments_differ", "duplicate", "task_id")

    def __init__(
        self,
        task_id: str,
        broker: ResultSource | None = None,
        restore: Callable[[TaskResult[Any, Any]], TaskResult[Any, Any]] | None = None,
        classes: Classes | None = None,
    ) -> None:
        """`restore` makes a value of the task's declared type of one that was read, which may have these `classes`.

        A send gives those of its task; without them, a value may have any class that the broker's application declares.
        """
        self.task_id = task_id
        self.duplicate = self.arguments_differ = False
        self._source = broker
        self._restore = restore
        self._classes = classes
        self._outcome: TaskResult[T, TaskError] | None = None

    def get(self, timeout_ms: int | None = None) -> TaskResult[T, TaskError]:
        """Return the task's result; waits at most `timeout_ms`; 0 reads once, None waits without end. Never raises."""
        if self._outcome is not None:
            return self._outcome
        if self._source is None:
            return self._nowhere_to_look()
        return self._keep(self._source.get_result(self.task_id, timeout_ms, self._classes))

    async def get_async(self, timeout_ms: int | None = None) -> TaskResult[T, TaskError]:
        """`get` for any running event loop; it raises only on cancellation."""
        if self._outcome is not None:
            return self._outcome
        if self._source is None:
            return self._nowhere_to_look()
        return self._keep(await self._source.get_result_async(self.task_id, timeout_ms, self._classes))

    def info(self, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]:
        """Return the task's present row, with the parts that you ask for; None if it was deleted."""
        if self._source is None:
            return self._no_broker()
        return self._source.get_task_info(self.task_id, **parts)

    async def info_async(self, **parts: Unpack[InfoParts]) -> BrokerResult[TaskInfo | None]:
        """`info` for a running event loop."""
        if self._source is None:
            return self._no_broker()
        return await self._source.get_task_info_async(self.task_id, **parts)

    def __repr__(self) -> str:
        told = f", duplicate=True, arguments_differ={self.arguments_differ}" if self.duplicate else ""
        return f"TaskHandle({self.task_id!r}{told})"

    def _keep(self, result: TaskResult[T, TaskError]) -> TaskResult[T, TaskError]:
        if self._restore is not None:
            result = self._restore(result)
        if result.err is None or result.err.error_code not in _ASKED_ANEW:
            self._outcome = result
        return result

    def _nowhere_to_look(self) -> TaskResult[T, TaskError]:
        return TaskResult(
            err=TaskError(
                error_code=RetrievalCode.RESULT_NOT_AVAILABLE,
                message="this handle has no broker; make it with one: TaskHandle(task_id, app.get_broker())",
                data={"task_id": self.task_id},
            )
        )

    def _no_broker(self) -> BrokerResult[TaskInfo | None]:
        return Err(
            BrokerOperationError(
                BrokerErrorCode.NO_BROKER,
                f"the handle of task {self.task_id} has no broker; make it with one: TaskHandle(id, app.get_broker())",
                retryable=False,
            )
        )
