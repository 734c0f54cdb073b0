"""Drain mode: waiting tasks of the database are run until nothing is due, in this process or in real children."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from horsies.config.contexts import DatabaseChoice
from horsies.domain.states import TaskStatus
from horsies.lifecycle.advancing import advance
from horsies.lifecycle.claiming import ClaimRequest, Start, claim, large_arguments, next_due, start
from horsies.lifecycle.create_workflow import ready_children
from horsies.lifecycle.finishing import Outcome, OutcomeKind, finish
from horsies.lifecycle.node_tasks import resolved
from horsies.lifecycle.recovering import expire_pending
from horsies.run.events import Events, Observer
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.subworkflow_builder import build_child
from horsies.run.worker.worker import Worker, locator_of
from horsies.store.connect import open_database
from horsies.store.loop_thread import LoopThread, drive_awaited, drive_blocking
from horsies.store.schema import create, require_current
from horsies.store.statements import statement
from horsies.task.current import CurrentTask, moment
from horsies.testing.here import Ran, next_try, run_here, run_here_async
from horsies.workflow.context import meta_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    import asyncpg

    from horsies.app import Horsies
    from horsies.lifecycle.claiming import ClaimedTask
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.store.loop_thread import CallSteps
    from horsies.testing.here import EndedRun


_CHILDREN = 100
_LEASE_MS = 3_600_000  # no beats are sent, and a debugger may pause the task


class Claims:
    """Belongs to one event loop. `ran` counts the stored outcomes."""

    def __init__(self, app: Horsies, connection: asyncpg.Connection, seconds: float) -> None:
        self.ran = Ran()
        self._app = app
        self._connection = connection
        self._queues = queues_of(app)
        self._names = list(app.tasks)
        self._seconds_left = seconds
        self._identity = Identity()
        self._resources = AsyncExitStack()
        self._rng = random.Random(0)  # noqa: S311 - jitter, the same in each run of a test

    @classmethod
    async def open(cls, app: Horsies, seconds: float) -> Claims:
        async with AsyncExitStack() as stack:
            claims = cls(app, await connected(app, stack), seconds)
            claims._resources = stack.pop_all()
        return claims

    async def close(self) -> None:
        await self._resources.aclose()

    async def next(self) -> ClaimedTask | None:
        """Return the next task, RUNNING; None if nothing is due any more."""
        while True:
            for queue in self._queues:
                if (task := await self._claim(queue)) is not None:
                    return task
            waiting = await ready_children(self._connection, None, _CHILDREN)
            for workflow_id, index in waiting:
                await build_child(self._app, partial(nullcontext, self._connection), workflow_id, index)
            if waiting:
                continue
            if expired := (await expire_pending(self._connection)).expired:  # as a worker's sweep does
                self.ran += Ran(expired=expired)
                continue
            passed = await pass_time(self._connection, self._queues, self._seconds_left)
            if passed is None:
                return None
            self._seconds_left -= passed

    async def store(self, task: ClaimedTask, ended: EndedRun) -> bool:
        """True if it will be retried."""
        delay_s, ended = next_try(
            ended,
            task.task_options,
            retry_count=task.retry_count,
            max_retries=task.max_retries,
            now=datetime.now(UTC),
            good_until=None,  # checked by the statement, with the database's clock
            rng=self._rng,
        )
        kind = OutcomeKind.COMPLETED if ended.ok else OutcomeKind.FAILED
        outcome = Outcome(
            task.token,
            kind if delay_s is None else OutcomeKind.RETRY,
            ended.stored,
            ended.error_code,
            ended.error_message,
            retry_delay_s=delay_s,
        )
        finished = await finish(self._connection, self._identity.worker_id, [outcome])
        if task.is_workflow_task:
            await advance(self._connection, [task.token.task_id])
        retried = finished[task.token].status is TaskStatus.PENDING
        self.ran += Ran(retried=1) if retried else Ran(completed=int(ended.ok), failed=int(not ended.ok))
        return retried

    async def _claim(self, queue: str) -> ClaimedTask | None:
        who = self._identity
        while claimed := await claim(self._connection, who.worker_id, ClaimRequest(queue, 1, _LEASE_MS, self._names)):
            (task,) = claimed
            starts = [Start(task.token, who.pid, who.hostname, f"drain-{who.pid}")]
            verdicts = await start(self._connection, who.worker_id, starts)
            if task.token in verdicts.started:
                return await self._with_arguments(task)
            self.ran += Ran(expired=len(verdicts.expired))
            if task.is_workflow_task:
                await advance(self._connection, [task.token.task_id])
        return None

    async def _with_arguments(self, task: ClaimedTask) -> ClaimedTask:
        if task.large:
            fetched = await large_arguments(self._connection, task.token)
            args, kwargs = fetched or (None, None)
            task = replace(task, args=args, kwargs=kwargs)
        if task.is_workflow_task:
            task = replace(task, kwargs=await resolved(self._connection, task.kwargs))
        return task


def current_of(task: ClaimedTask) -> CurrentTask:
    """Return what `current_task()` returns in its run."""
    times, place = (moment(task.sent_at), moment(task.good_until)), meta_in(task.kwargs)
    return CurrentTask(task.token.task_id, task.task_name, task.retry_count + 1, task.queue_name, *times, place)


def queues_of(app: Horsies) -> list[str]:
    """Return the queues in the order in which a worker serves them."""
    queues = sorted(app.config.custom_queues or (), key=lambda queue: queue.priority)
    return [queue.name for queue in queues] or app.get_valid_queue_names()


async def connected(app: Horsies, stack: AsyncExitStack) -> asyncpg.Connection:
    """Connect to the application's database, and create the schema there unless it exists."""
    choice = DatabaseChoice(app.config.broker.url, "given in PostgresConfig")
    database = await stack.enter_async_context(open_database(choice))
    connection = await database.connect("drain")
    stack.push_async_callback(connection.close)
    await create(connection)
    await require_current(connection)
    return connection


async def pass_time(connection: asyncpg.Connection, queues: list[str], seconds: float) -> float | None:
    """Move times until the next task is due; return the remaining seconds, or None if none is due within them."""
    due_in, _ = await next_due(connection, queues)
    due = None if due_in is None or due_in > seconds else max(due_in, 0.0)
    passed = seconds if due is None else due
    if passed > 0:
        await connection.execute(statement(__name__, "pass_time"), queues, passed)
    return due


_LOOK_S = 0.02


class Expired(Observer):
    """Counts the tasks that expire, which the worker's status line does not show."""

    def __init__(self) -> None:
        self.count = 0

    def task_expired(self, entry: InFlightTask) -> None:
        self.count += 1

    def swept(self, text: str, counts: Mapping[str, Any]) -> None:
        """Count what the worker's own sweep expires: it may come before the drain, where runs take long."""
        self.count += counts.get("expired", 0)


async def drain_in_children(app: Horsies, seconds: float, processes: int) -> Ran:
    """Run until nothing is due and nothing runs; then stop the worker."""
    events, worker_expired = Events(), Expired()
    events.observers.append(worker_expired)
    async with AsyncExitStack() as stack:
        connection = await connected(app, stack)
        worker = Worker(app, WorkerSettings(locator_of(app), processes=processes), events)
        try:
            await worker.start()
        except BaseException:
            await worker.abort()
            raise
        stack.push_async_callback(worker.stop)
        expired = await _until_quiet(connection, worker, seconds)
    return Ran(events.finished, events.failed, events.retried, worker_expired.count + expired)


async def _until_quiet(connection: asyncpg.Connection, worker: Worker, seconds: float) -> int:
    """Return how many tasks have expired without being claimed."""
    queues, names = queues_of(worker.app), list(worker.app.tasks)
    expired = 0
    while True:
        while await _is_busy(connection, worker, queues, names):  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(_LOOK_S)
        # The worker's own sweep usually expires them seconds later.
        if done := (await expire_pending(connection)).expired:
            expired += done
            continue
        passed = await pass_time(connection, queues, seconds)
        if passed is None:
            return expired
        seconds -= passed
        worker.claimer.wake.set()  # no notification is sent when times are moved


async def _is_busy(connection: asyncpg.Connection, worker: Worker, queues: list[str], names: list[str]) -> bool:
    """Check twice: the first answer may be from between the end of a node's task and its advance."""
    for _ in range(2):
        if await connection.fetchval(statement(__name__, "is_busy"), queues, names):
            return True
        if worker.flow.outbox.pending + worker.advancer.pending:
            return True
    return False


def drain(app: Horsies, *, seconds: float = 0, processes: int = 0, raises: bool = False) -> Ran:
    """Run everything that is due in the database, and the tasks sent by that, until nothing is; return the outcomes.

    With `seconds` also the tasks that fall due within that time, including retries, as if it had passed: the times of
    all waiting tasks in the queues of `app` are moved. Tasks run in this process, one after the other, where they can
    be patched and debugged; with `processes` in that many children of a worker, as in production: there a crash fails
    only the task, and a timeout stops also what cannot be stopped here (see horsies.testing.here).

    With `raises=True` an exception of a task that is not retried is raised here, after its outcome is stored.
    """
    thread = LoopThread("horsies drain", on_stop=partial(asyncio.sleep, 0), after_fork=lambda: None)

    def blocking(work: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        return lambda *arguments: thread.run_sync(work(*arguments))

    try:
        return drive_blocking(_draining(app, seconds, processes, raises=raises, blocking=blocking))
    finally:
        thread.close(5.0)


async def drain_async(app: Horsies, *, seconds: float = 0, processes: int = 0, raises: bool = False) -> Ran:
    """`drain` for a running event loop: `async def` tasks run in that loop."""
    return await drive_awaited(_draining(app, seconds, processes, raises=raises, blocking=lambda work: work))


def _draining(
    app: Horsies, seconds: float, processes: int, *, raises: bool, blocking: Callable[..., Any]
) -> CallSteps[Ran]:
    """`blocking` makes a blocking call of one that is awaited."""
    if processes and raises:
        raise ValueError("raises=True needs the tasks in this process: leave out processes, or look at their results")
    if processes:
        ran: Ran = yield blocking(drain_in_children), drain_in_children, (app, seconds, processes)
        return ran
    claims: Claims = yield blocking(Claims.open), Claims.open, (app, seconds)
    try:
        while (claimed := (yield blocking(claims.next), claims.next, ())) is not None:
            function, current = app.tasks[claimed.task_name], current_of(claimed)
            call = function, claimed.args, claimed.kwargs, claimed.task_options, current
            ended: EndedRun = yield run_here, run_here_async, call
            if not (yield blocking(claims.store), claims.store, (claimed, ended)) and raises:
                ended.raise_exception()
    finally:
        yield blocking(claims.close), claims.close, ()
    return claims.ran
