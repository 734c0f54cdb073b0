"""Runs one job in the child process: stored arguments in, and always an outcome out, whatever user code does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from horsies.domain.codes import OperationalErrorCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.run.contract import task_id_of
from horsies.run.guard import LeaseTable
from horsies.run.outcomes import Outcome, TaskStopped, failed, outcome_of
from horsies.task.current import CurrentTask, begin_run, end_run, moment
from horsies.workflow.context import meta_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.domain.trace import RunContext, Tracing
    from horsies.run.child.hooks import ChildHooks
    from horsies.run.child.leases import ChildLeases
    from horsies.run.progress_table import ProgressTable
    from horsies.task import TaskFunction
    from horsies.task.current import Report

AnyTask: TypeAlias = "TaskFunction[..., Any, Any, Any]"
Tasks: TypeAlias = "Mapping[str, AnyTask]"
_log = logging.getLogger("horsies.tracing")
_LONGEST_CHAIN: Final = 100  # user code can link exceptions in a cycle


class Message(NamedTuple):
    """A job as `JobQueue.submit` sends it, in a plain tuple: marshal takes no other."""

    number: int
    key: str
    task_name: str
    args: str | None
    kwargs: str | None
    context: RunContext
    sent_at: float | None
    good_until: float | None
    """In seconds, as `sent_at`."""
    slot: int
    """In the table of leases."""

    @property
    def task_id(self) -> str:
        return task_id_of(self.key)


@dataclass(slots=True, eq=False)
class ChildRun:
    """A job that is executed. `stop` is set once it shall stop, `began` before the task's code is called."""

    number: int
    slot: int
    job: Message | None
    """None after its end: what user code has left running must not keep its arguments in memory."""
    leases: ChildLeases
    progress: ProgressTable
    stop: TaskStopped | None = None
    began: bool = False
    span: str | None = None
    """The traceparent of its span, if it is traced."""
    raised: BaseException | None = None
    """The exception it failed with, until `release`."""
    report: Report | None = None
    tracked: bool = False
    task: CurrentTask | None = None
    """Set when it is asked for."""

    def begin(self) -> None:
        """Mark the start in memory that the parent can read after a death; TaskStopped without a lease."""
        self.leases.begin(self.slot, self.number)
        self.began = True
        begin_run(self)

    def open_report(self) -> Report:
        """Called by the first `progress` or `track` of this run."""
        self.report = report = self.progress.writer(LeaseTable.index(self.slot), self.number)
        return report

    def release(self) -> None:
        """End the lease, and free what user code has left in its frames.

        Called when the outcome is written and no stop can arrive any more. A frame that refers to its exception, as
        `last = error` or the frame of `execute` does, forms a cycle with it: three failures that held 300 MB each kept
        989 MB in the child for another 2 000 tasks.
        """
        if self.began:
            end_run(self)
            self.leases.end(self.slot, self.number)
        _forget_frames(self.raised, self.stop)
        self.raised = self.stop = self.job = None

    def describe(self) -> CurrentTask | None:
        job = self.job  # a thread that the task has left behind may ask while the run ends
        if job is None:
            return None
        if self.task is None:
            queue, attempt, _ = job.context
            times = moment(job.sent_at), moment(job.good_until)
            self.task = CurrentTask(job.task_id, job.task_name, attempt, queue, *times, meta_in(job.kwargs))
        return self.task


def execute(tasks: Tasks, job: Message, run: ChildRun, tracing: Tracing | None, hooks: ChildHooks | None) -> Outcome:
    """Run a plain task, in a span if the application traces, between its hooks if it has any; never raises."""
    if tracing is None and hooks is None:
        return _execute(tasks, job, run, None)
    # A context of its own: the next job begins neither inside of this span nor with what a hook has set.
    return contextvars.copy_context().run(_execute_watched, tasks, job, run, tracing, hooks)


async def execute_async(
    tasks: Tasks, job: Message, run: ChildRun, tracing: Tracing | None, hooks: ChildHooks | None
) -> Outcome:
    """`execute` for an `async def` task, which has a context of its own."""
    if tracing is None:
        return await _execute_async(tasks, job, run, hooks)
    outcome: Outcome | None = None
    try:
        with tracing.running(job.task_id, job.task_name, job.context) as span:
            run.span = span.traceparent
            outcome = await _execute_async(tasks, job, run, hooks)
            ok, _, code, message = outcome
            if not ok:
                span.failed(code, message)
    except Exception:  # noqa: BLE001 - a tracer, or an exporter, that fails
        _log.exception("a run could not be traced")
    return await _execute_async(tasks, job, run, hooks) if outcome is None else outcome


def _execute_watched(
    tasks: Tasks, job: Message, run: ChildRun, tracing: Tracing | None, hooks: ChildHooks | None
) -> Outcome:
    if tracing is None:
        return _execute(tasks, job, run, hooks)
    outcome: Outcome | None = None
    try:
        with tracing.running(job.task_id, job.task_name, job.context) as span:
            run.span = span.traceparent
            outcome = _execute(tasks, job, run, hooks)
            ok, _, code, message = outcome
            if not ok:
                span.failed(code, message)
    except TaskStopped as stopped:  # before user code was called, or after it had returned
        outcome = outcome or _stopped(stopped, stopped, run)
    except Exception:  # noqa: BLE001 - a tracer, or an exporter, that fails
        _log.exception("a run could not be traced")
    return _execute(tasks, job, run, hooks) if outcome is None else outcome


def _execute(tasks: Tasks, job: Message, run: ChildRun, hooks: ChildHooks | None) -> Outcome:
    """Run a plain task. TaskStopped, raised by a signal handler at any point, determines its outcome."""
    result: TaskResult[Any, Any] | None = None
    outcome: Outcome | None = None
    try:
        try:
            prepared = _prepare(tasks, job)
            run.begin()
            if hooks is not None:
                hooks.run_started(run)
            result = prepared if isinstance(prepared, TaskResult) else prepared[0].run(prepared[1], prepared[2])
            outcome = _outcome(result, run)
        except TaskStopped as stopped:
            # A result that user code has already returned is not lost to a stop that came too late.
            outcome = _stopped(stopped, stopped, run) if result is None else _outcome(result, run)
        except BaseException as error:  # noqa: BLE001 - one job's arguments and values must not end the child
            outcome = _broken(error, run)
        if hooks is not None and run.began:
            hooks.run_ended(run, outcome)
    except TaskStopped as stopped:  # between two of these lines
        outcome = outcome or _stopped(stopped, stopped, run)
    return outcome


async def _execute_async(tasks: Tasks, job: Message, run: ChildRun, hooks: ChildHooks | None) -> Outcome:
    """Run an `async def` task; a cancellation that the parent did not ask for is an outcome as well."""
    try:
        prepared = _prepare(tasks, job)
        run.begin()
        if hooks is not None:
            await hooks.run_started_async(run)
        result = prepared if isinstance(prepared, TaskResult) else await prepared[0].run_async(prepared[1], prepared[2])
        outcome = _outcome(result, run)
    except asyncio.CancelledError as error:
        outcome = _broken(error, run) if run.stop is None else _stopped(run.stop, error, run)
    except TaskStopped as stopped:
        outcome = _stopped(stopped, stopped, run)
    except BaseException as error:  # noqa: BLE001 - one job's arguments and values must not end the child
        outcome = _broken(error, run)
    if hooks is not None and run.began:
        await hooks.run_ended_async(run, outcome)
    return outcome


def _prepare(tasks: Tasks, job: Message) -> tuple[AnyTask, list[Any], dict[str, Any]] | TaskResult[Any, TaskError]:
    task = tasks.get(job.task_name)
    if task is None:
        message = f"no task {job.task_name!r} is registered in this worker; import its module where the app is defined"
        return TaskResult(err=TaskError(error_code=OperationalErrorCode.WORKER_RESOLUTION_ERROR, message=message))
    loaded = task.load(job.args, job.kwargs)
    return loaded if isinstance(loaded, TaskResult) else (task, *loaded)


def _outcome(result: TaskResult[Any, Any], run: ChildRun) -> Outcome:
    raised = result.err.exception if isinstance(result.err, TaskError) else None
    run.raised = raised = raised if isinstance(raised, BaseException) else None
    if run.stop is not None and raised is not None and comes_from_a_stop(raised):
        return run.stop.outcome(raised)
    return outcome_of(result)


def _stopped(stop: TaskStopped, raised: BaseException, run: ChildRun) -> Outcome:
    run.raised = raised
    return stop.outcome(raised)


def comes_from_a_stop(raised: BaseException) -> bool:
    """Return whether a stop is the cause, also if clean-up code raised another exception on the way out."""
    link: BaseException | None = raised
    for _ in range(_LONGEST_CHAIN):
        if link is None or isinstance(link, TaskStopped | asyncio.CancelledError):
            break
        link = link.__cause__ or link.__context__
    return isinstance(link, TaskStopped | asyncio.CancelledError)


def _forget_frames(*raised: BaseException | None) -> None:
    """Remove the tracebacks of these exceptions, of their causes and contexts, and of those in a group."""
    waiting, seen = list(raised), set[int]()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        BaseException.with_traceback(error, None)  # assignment fails if the exception is a frozen dataclass
        waiting += (error.__cause__, error.__context__)
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions


def _broken(error: BaseException, run: ChildRun) -> Outcome:
    run.raised = error
    what = f"{type(error).__name__} while the arguments were read or the result was written"
    return failed(OperationalErrorCode.UNHANDLED_EXCEPTION, what, error)
