"""Inline mode: tasks run in this process when they are sent, and the calls to the database are answered from memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from horsies.broker import PostgresBroker, explained
from horsies.domain.codes import RetrievalCode
from horsies.domain.errors import HorsiesError
from horsies.domain.result import Err, Ok
from horsies.domain.task_result import TaskError, TaskResult
from horsies.testing.embedded import broker_replaced
from horsies.testing.inline_queue import Inline
from horsies.testing.memory.stored_rows import no_database, run_now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from horsies.app import Horsies
    from horsies.broker import Operation
    from horsies.domain.codec.classes import Classes
    from horsies.handle import BrokerResult
    from horsies.store.enqueue import Enqueued, EnqueueRequest
    from horsies.store.producer_client import Link
    from horsies.store.reading import TaskInfo, WorkflowOutcome
    from horsies.testing.inline_task import InlineTask

T = TypeVar("T")


@contextmanager
def inline(app: Horsies, *, at_once: bool = True, raises: bool = False) -> Iterator[Inline]:
    """Inside this block `app` needs no database: a send runs the task in this process before it returns.

    Arguments, results and errors are converted by the same JSON as in a worker, retries follow the task's policy.
    Delays take no time: `handle.get()` advances the clock as far as the task needs, `Inline.run(seconds)` by the given
    time. Tasks sent by a task run after that one has ended. Timeouts end a task as far as that is possible in this
    process (see horsies.testing.here). `connection=` is not waited for.

    The start of a workflow runs its whole graph, by the rules of the engine, and its handle does all that it does on a
    database. `Inline.started()` has the workflows for asserts, as `Inline.sent()` the tasks.

    With `at_once=False` nothing runs until `Inline.run()`, for tests of what is sent. With `raises=True` an exception
    of a task that is not retried is raised by the send, with its traceback, instead of being stored in the result.
    """
    queue = Inline(app, at_once=at_once, raises=raises)
    with broker_replaced(app, InlineBroker(app, queue)):
        yield queue


class InlineBroker(PostgresBroker):
    """Sends and reads use the queue in memory; everything else returns an error that says so."""

    def __init__(self, app: Horsies, queue: Inline) -> None:
        super().__init__(app.config.broker)
        self.app = app
        self._queue = queue

    async def ensure_schema_initialized(self) -> BrokerResult[None]:
        return Ok(None)

    def get_result(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]:
        return _answer(task_id, self._queue.wait(task_id, timeout_ms), timeout_ms, classes or self.classes)

    async def get_result_async(
        self, task_id: str, timeout_ms: int | None = None, classes: Classes | None = None
    ) -> TaskResult[Any, TaskError]:
        return _answer(task_id, await self._queue.wait_async(task_id, timeout_ms), timeout_ms, classes or self.classes)

    def get_task_info(
        self,
        task_id: str,
        *,
        include_result: bool = False,
        include_failed_reason: bool = False,
        include_attempts: bool = False,
    ) -> BrokerResult[TaskInfo | None]:
        task = self._queue.look(task_id)
        if task is None:
            return Ok(None)
        return Ok(
            task.info(
                include_result=include_result,
                include_failed_reason=include_failed_reason,
                include_attempts=include_attempts,
            )
        )

    async def get_task_info_async(
        self,
        task_id: str,
        *,
        include_result: bool = False,
        include_failed_reason: bool = False,
        include_attempts: bool = False,
    ) -> BrokerResult[TaskInfo | None]:
        return self.get_task_info(
            task_id,
            include_result=include_result,
            include_failed_reason=include_failed_reason,
            include_attempts=include_attempts,
        )

    def perform(self, operation: Operation[T]) -> BrokerResult[T]:
        """The caller's transaction is not waited for."""
        link: Any = InlineLink(self._queue, blocking=True)
        try:
            done: BrokerResult[T] = Ok(run_now(operation.act(link)))
        except (HorsiesError, ValueError) as error:
            done = Err(explained(operation.code, error, self.config))
        self._queue.run_if_at_once()
        return done

    async def perform_async(self, operation: Operation[T]) -> BrokerResult[T]:
        link: Any = InlineLink(self._queue, blocking=False)
        try:
            done: BrokerResult[T] = Ok(await operation.act(link))
        except (HorsiesError, ValueError) as error:
            done = Err(explained(operation.code, error, self.config))
        await self._queue.run_if_at_once_async()
        return done

    async def _connected(self) -> Link:
        raise no_database()


class InlineLink:
    """The part of a link that sends and workflows use; the waits of blocking code run tasks without an event loop."""

    def __init__(self, queue: Inline, *, blocking: bool) -> None:
        self._queue = queue
        self._blocking = blocking
        self.waiting_for_workflows = self  # the handle of a workflow waits with this part of it

    async def send(self, request: EnqueueRequest) -> Enqueued:
        return self._queue.add([request])[0]

    async def send_many(self, requests: Sequence[EnqueueRequest]) -> list[Enqueued]:
        return self._queue.add(requests)

    async def use(self, act: Callable[[Any], Awaitable[T]], *, limit_s: float | None = None) -> T:
        async with self._queue.connection.acquire() as connection:
            return await act(connection)

    async def until_final(self, workflow_id: str, timeout_s: float | None) -> WorkflowOutcome | None:
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        if self._blocking:
            return self._queue.wait_for_workflow(workflow_id, timeout_ms)
        return await self._queue.wait_for_workflow_async(workflow_id, timeout_ms)


def _answer(
    task_id: str, task: InlineTask | None, timeout_ms: int | None, classes: Classes
) -> TaskResult[Any, TaskError]:
    if task is None:
        return _failure(RetrievalCode.TASK_NOT_FOUND, "there is no such task in this inline()", task_id)
    if task.is_final:
        return task.result_of(classes)
    why = "and nothing here can end it" if timeout_ms is None else f"after {timeout_ms} ms"
    return _failure(RetrievalCode.WAIT_TIMEOUT, f"the task is still {task.status.value}, {why}", task_id)


def _failure(code: RetrievalCode, message: str, task_id: str) -> TaskResult[Any, TaskError]:
    return TaskResult(err=TaskError(error_code=code, message=message, data={"task_id": task_id}))
