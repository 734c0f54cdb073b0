"""The object by which `@app.task` replaces a function."""

from __future__ import annotations

import functools
import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from horsies.domain.codec import load_args, load_kwargs
from horsies.domain.codec.conversion import ConversionError
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Err
from horsies.domain.task_result import TaskError, TaskResult
from horsies.handle import TaskHandle
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.task.calls import TaskInvoker
from horsies.task.options import TaskSendOptions
from horsies.task.sending import BoundTask, sending_again
from horsies.waits_in_tasks import RUNNING_HERE, RunningTask
from horsies.workflow.context import call_kwargs
from horsies.workflow.nodes import NodeFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    from horsies.domain.errors import SourceLocation
    from horsies.handle import TaskSendError, TaskSendResult
    from horsies.task.calls import ExceptionCodes
    from horsies.task.requests import TaskRequests
    from horsies.workflow.nodes import NodeOptions

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")
CallT_co = TypeVar("CallT_co", covariant=True)
"""The result of calling the task: the TaskResult, or for `async def` a coroutine of it."""


class TaskFunction(BoundTask[P, T], Generic[P, T, E, CallT_co]):
    """Call it to run it in this process; `send` it to run it in a worker."""

    __name__: str

    def __init__(
        self,
        fn: Callable[P, Any],
        requests: TaskRequests,
        codes: ExceptionCodes,
        *,
        queue_name: str | None,
        timeout_ms: int | None,
        requeue_on_interrupt: bool | None,
        location: SourceLocation | None,
    ) -> None:
        super().__init__(requests)
        functools.update_wrapper(self, fn)
        self._original_fn = fn
        self._invoker = TaskInvoker(fn.__name__, requests.return_type, codes)
        self.task_name = requests.task_name
        self.task_queue_name = queue_name
        self.task_ok_type = requests.return_type.ok_type
        self.return_type = requests.return_type
        self.parameters = requests.parameters
        self.result_classes = requests.result_classes
        """The classes that a stored result of this task may have."""
        self.retry_policy = requests.retry_policy
        self.timeout_ms = timeout_ms
        self.requeue_on_interrupt = requeue_on_interrupt
        """None: the application's setting."""
        self.is_async = inspect.iscoroutinefunction(fn)
        self._running = RunningTask(self.task_name, self.is_async)
        self.location = location

    @property
    def task_options_json(self) -> str:
        return self._requests.options_json

    @property
    def exception_mapper(self) -> Mapping[type[BaseException], str] | None:
        mapper = self._invoker.codes.task_mapper
        return None if mapper is None else MappingProxyType(mapper)

    @property
    def default_unhandled_error_code(self) -> str | None:
        return self._invoker.codes.task_default

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> CallT_co:
        """Run the function in this process. Exceptions but KeyboardInterrupt are returned as an error result."""
        call = self._invoker.call_async if self.is_async else self._invoker.call
        return call(self._original_fn, args, kwargs)  # type: ignore[return-value]  # is_async decides, CallT_co follows

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any, Any]:
        """Execute a plain task with stored arguments, in a worker. Never raises."""
        call = self._call(args, kwargs)
        if isinstance(call, TaskResult):
            return call
        before = RUNNING_HERE.set(self._running)
        try:
            return self.return_type.to_stored(self._invoker.call(self._original_fn, *call))
        except KeyboardInterrupt as error:
            return self._invoker.failure(error)
        finally:
            RUNNING_HERE.reset(before)

    async def run_async(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any, Any]:
        """Execute an `async def` task with stored arguments, in a worker. Raises nothing but its own cancellation."""
        call = self._call(args, kwargs)
        if isinstance(call, TaskResult):
            return call
        before = RUNNING_HERE.set(self._running)
        try:
            return self.return_type.to_stored(await self._invoker.call_async(self._original_fn, *call))
        except KeyboardInterrupt as error:
            return self._invoker.failure(error)
        finally:
            RUNNING_HERE.reset(before)

    def _call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]] | TaskResult[Any, TaskError]:
        """Return the stored arguments as values of the annotated types, or the error of those that do not fit."""
        parameters = self._requests.parameters
        if (reason := parameters.why_not(args, kwargs)) is None:
            try:
                call = parameters.from_stored(args, kwargs)
            except ConversionError as error:
                reason = str(error)
            else:
                if (reason := parameters.why_not_by_type(*call)) is None:
                    return call
        code = OperationalErrorCode.WORKER_SERIALIZATION_ERROR
        return TaskResult(
            err=TaskError(error_code=code, message=f"task {self.task_name!r} was not run: the stored {reason}")
        )

    def declared_types(self) -> list[Any]:
        """Return all types of its signature."""
        return [*self.parameters.hints(), self.return_type.ok_type, self.return_type.err_type]

    def load(
        self, args: str | None, kwargs: str | None
    ) -> tuple[list[Any], dict[str, Any]] | TaskResult[Any, TaskError]:
        """Return the values of stored arguments, with those that a workflow adds; or the error of unreadable ones."""
        parameters = self.parameters
        positional, named = load_args(args, parameters.classes_for), load_kwargs(kwargs, parameters.classes_for)
        if isinstance(positional, Err):
            return TaskResult(err=positional.err_value)
        if isinstance(named, Err):
            return TaskResult(err=named.err_value)
        return positional.ok_value, call_kwargs(named.ok_value, parameters, parameters.classes)

    def why_not_run(self, args: str | None, kwargs: str | None) -> str | None:
        """Return why a worker would refuse these stored arguments, or None."""
        loaded = self.load(args, kwargs)
        call = loaded if isinstance(loaded, TaskResult) else self._call(*loaded)
        return call.err_value.message if isinstance(call, TaskResult) else None

    def restored(self, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]:
        """Return a stored result of this task with a value of the declared type."""
        return self.return_type.from_stored(result)

    def handle(self, task_id: str) -> TaskHandle[T]:
        """Return a handle to a task of this function that was sent elsewhere, for example by another request."""
        return TaskHandle(task_id, self._requests.app.get_broker(), self.return_type.from_stored, self.result_classes)

    def with_options(
        self,
        *,
        good_until: datetime | None = None,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        unique_key: str | None = None,
        connection: object = None,
        queue: str | None = None,
        timeout_ms: int | None = None,
        at: datetime | None = None,
    ) -> BoundTask[P, T]:
        """Return the task with options for one send; see TaskSendOptions."""
        options = TaskSendOptions(good_until, priority, delay, unique_key, connection, queue, timeout_ms, at)
        return BoundTask(self._requests, options)

    def node(self, **options: Unpack[NodeOptions]) -> NodeFactory[P, T]:
        """Return one step of a workflow: `add.node()(a=1, b=from_node(other))`, with the arguments by name."""
        return NodeFactory(self, options)

    def stored_options(self, good_until: datetime | None) -> str:
        """Return the task_options column of a task with this deadline; ValueError for an impossible one."""
        return self._requests.stored_options(good_until)

    def retry_send(self, error: TaskSendError) -> TaskSendResult[TaskHandle[T]]:
        """Store what a failed `send` would have stored, under the same id, so that it cannot be stored twice."""
        return self._answer(drive_blocking(sending_again(self._requests, error, delayed=False)))

    async def retry_send_async(self, error: TaskSendError) -> TaskSendResult[TaskHandle[T]]:
        """`retry_send` for a running event loop."""
        return self._answer(await drive_awaited(sending_again(self._requests, error, delayed=False)))

    def retry_schedule(self, error: TaskSendError) -> TaskSendResult[TaskHandle[T]]:
        """`retry_send` for a failed `schedule`; the delay counts again from now."""
        return self._answer(drive_blocking(sending_again(self._requests, error, delayed=True)))

    async def retry_schedule_async(self, error: TaskSendError) -> TaskSendResult[TaskHandle[T]]:
        """`retry_schedule` for a running event loop."""
        return self._answer(await drive_awaited(sending_again(self._requests, error, delayed=True)))

    def __repr__(self) -> str:
        return f"<task {self.task_name!r} at {self.location}>"
