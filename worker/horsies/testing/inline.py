"""Inline mode: tasks run in this process when they are sent, and the calls to the database are answered from memory."""

from __future__ import annotations

import operator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from horsies.broker import PostgresBroker, explained
from horsies.domain.errors import HorsiesError
from horsies.domain.result import Err, Ok
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.store.reading import StoredOutcome, WorkflowOutcome
from horsies.testing.embedded import broker_replaced
from horsies.testing.inline_queue import Inline
from horsies.testing.memory.rows import run_now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from horsies.app import Horsies
    from horsies.broker import Operation
    from horsies.handle import BrokerResult
    from horsies.store.enqueue import Enqueued, EnqueueRequest
    from horsies.store.loop_thread import CallSteps

T = TypeVar("T")
OutcomeT = TypeVar("OutcomeT", StoredOutcome, WorkflowOutcome)


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
    of a task that is not retried is raised by the send or the wait that runs it, with its traceback.
    """
    queue = Inline(app, at_once=at_once, raises=raises)
    with broker_replaced(app, InlineBroker(app, queue)):
        yield queue


class InlineBroker(PostgresBroker):
    """Sends, waits and reads use the queue in memory; everything else returns an error that says so."""

    def __init__(self, app: Horsies, queue: Inline) -> None:
        super().__init__(app.config.broker)
        self.app = app
        self._queue = queue

    def perform(self, operation: Operation[T]) -> BrokerResult[T]:
        return drive_blocking(self._performing(operation, InlineLink(self._queue, blocking=True)))

    async def perform_async(self, operation: Operation[T]) -> BrokerResult[T]:
        return await drive_awaited(self._performing(operation, InlineLink(self._queue, blocking=False)))

    def _performing(self, operation: Operation[T], link: Any) -> CallSteps[BrokerResult[T]]:
        """Do the work on the rows in memory. The caller's transaction is not waited for."""
        done: BrokerResult[T]
        try:
            done = Ok((yield run_now, _awaited, (operation.act(link),)))
        except (HorsiesError, ValueError) as error:
            if error is self._queue.raised:
                raise
            done = Err(explained(operation.code, error, self.config))
        if self._queue.runs_now:
            yield self._queue.run, self._queue.run_async, ()
        return done


class InlineLink:
    """The part of a link that the application uses."""

    def __init__(self, queue: Inline, *, blocking: bool) -> None:
        self._queue = queue
        self.waiting = InlineWaits(queue, queue.task_outcome, operator.eq, blocking)
        self.waiting_for_workflows = InlineWaits(queue, queue.workflows.outcome, queue.workflows.includes, blocking)

    async def send(self, request: EnqueueRequest) -> Enqueued:
        return self._queue.add([request])[0]

    async def send_many(self, requests: Sequence[EnqueueRequest]) -> list[Enqueued]:
        return self._queue.add(requests)

    async def use(self, act: Callable[[Any], Awaitable[T]], *, limit_s: float | None = None) -> T:
        async with self._queue.workflows.rows.acquire() as connection:
            return await act(connection)


@dataclass(frozen=True, slots=True)
class InlineWaits(Generic[OutcomeT]):
    """Waits for the ends of tasks, or of workflows. Those of blocking code run tasks without an event loop."""

    queue: Inline
    read: Callable[[str], OutcomeT | None]
    concerns: Callable[[str, str], bool]
    """Return whether the wait for the first id may end by a run of the second one, a task."""
    blocking: bool

    async def until_final(self, waited: str, timeout_s: float | None) -> OutcomeT | None:
        """Wait; not final if the time, or the tasks that can run here, did not suffice."""

        def is_done() -> bool:
            outcome = self.read(waited)
            return outcome is None or outcome.is_final

        steps = self.queue.steps(timeout_s, is_done, partial(self.concerns, waited), blocking=self.blocking)
        if self.blocking:
            drive_blocking(steps)
        else:
            await drive_awaited(steps)
        return self.read(waited)


async def _awaited(work: Awaitable[T]) -> T:
    return await work
