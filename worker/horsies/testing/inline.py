"""Inline mode: tasks run in this process when they are sent, and the calls to the database are answered from memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from horsies.broker import PostgresBroker
from horsies.domain.codes import RetrievalCode
from horsies.domain.result import Err, Ok
from horsies.domain.task_result import TaskError, TaskResult
from horsies.handle import BrokerErrorCode, BrokerOperationError
from horsies.store.connect import DatabaseUnavailable
from horsies.store.enqueue import EnqueueOutcome
from horsies.testing.inline_queue import Inline
from horsies.testing.seam import broker_replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies.app import Horsies
    from horsies.domain.infos import TaskInfo
    from horsies.handle import BrokerResult
    from horsies.store.enqueue import Enqueued, EnqueueRequest
    from horsies.store.producer_client import Link
    from horsies.testing.inline_task import InlineTask


@contextmanager
def inline(app: Horsies, *, at_once: bool = True, raises: bool = False) -> Iterator[Inline]:
    """Inside this block `app` needs no database: a send runs the task in this process before it returns.

    Arguments, results and errors are converted by the same JSON as in a worker, retries follow the task's policy.
    Delays take no time: `handle.get()` advances the clock as far as the task needs, `Inline.run(seconds)` by the given
    time. Tasks sent by a task run after that one has ended. Timeouts are not enforced, and `connection=` is not waited
    for.

    With `at_once=False` nothing runs until `Inline.run()`, for tests of what is sent. With `raises=True` an exception
    of a task that is not retried is raised by the send, with its traceback, instead of being stored in the result.
    """
    queue = Inline(app.tasks, at_once=at_once, raises=raises)
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

    def send(self, request: EnqueueRequest, *, connection: object = None) -> BrokerResult[Enqueued]:
        return _stored(self._queue.send([request])[0])

    async def send_async(self, request: EnqueueRequest, *, connection: object = None) -> BrokerResult[Enqueued]:
        return _stored((await self._queue.send_async([request]))[0])

    def send_many(
        self, requests: Sequence[EnqueueRequest], *, connection: object = None
    ) -> BrokerResult[list[Enqueued]]:
        return Ok(self._queue.send(requests))

    async def send_many_async(
        self, requests: Sequence[EnqueueRequest], *, connection: object = None
    ) -> BrokerResult[list[Enqueued]]:
        return Ok(await self._queue.send_async(requests))

    def get_result(self, task_id: str, timeout_ms: int | None = None) -> TaskResult[Any, TaskError]:
        return _answer(task_id, self._queue.wait(task_id, timeout_ms), timeout_ms)

    async def get_result_async(self, task_id: str, timeout_ms: int | None = None) -> TaskResult[Any, TaskError]:
        return _answer(task_id, await self._queue.wait_async(task_id, timeout_ms), timeout_ms)

    def get_task_info(
        self,
        task_id: str,
        *,
        include_result: bool = False,
        include_failed_reason: bool = False,
        include_attempts: bool = False,
    ) -> BrokerResult[TaskInfo | None]:
        task = self._queue.look(task_id)
        info = None if task is None else task.info(include_result=include_result, include_attempts=include_attempts)
        return Ok(info)

    async def get_task_info_async(
        self,
        task_id: str,
        *,
        include_result: bool = False,
        include_failed_reason: bool = False,
        include_attempts: bool = False,
    ) -> BrokerResult[TaskInfo | None]:
        return self.get_task_info(task_id, include_result=include_result, include_attempts=include_attempts)

    async def _connected(self) -> Link:
        raise DatabaseUnavailable(
            "inside inline() there is no database",
            help_text="sends, results and info work here; for the rest use embedded_database() of horsies.testing",
            transient=False,
        )


def _stored(enqueued: Enqueued) -> BrokerResult[Enqueued]:
    if enqueued.outcome is not EnqueueOutcome.MISMATCH:
        return Ok(enqueued)
    message = f"the id {enqueued.task_id} belongs to a task with other contents; send under a new id"
    return Err(BrokerOperationError(BrokerErrorCode.PAYLOAD_MISMATCH, message, retryable=False))


def _answer(task_id: str, task: InlineTask | None, timeout_ms: int | None) -> TaskResult[Any, TaskError]:
    if task is None:
        return _failure(RetrievalCode.TASK_NOT_FOUND, "there is no such task in this inline()", task_id)
    if task.result is not None:
        return task.result
    why = "and nothing here can end it" if timeout_ms is None else f"after {timeout_ms} ms"
    return _failure(RetrievalCode.WAIT_TIMEOUT, f"the task is still {task.status.value}, {why}", task_id)


def _failure(code: RetrievalCode, message: str, task_id: str) -> TaskResult[Any, TaskError]:
    return TaskResult(err=TaskError(error_code=code, message=message, data={"task_id": task_id}))
