"""Runs one job in the child process: stored arguments in, and always an outcome out, whatever user code does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from horsies.domain.codec import load_args, load_kwargs
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Err
from horsies.domain.task_result import TaskError, TaskResult
from horsies.run.guard import LeaseTable
from horsies.run.outcomes import Outcome, TaskStopped, failed, outcome_of
from horsies.task.progress import begin_reports, end_reports
from horsies.workflow.context import call_kwargs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.domain.trace import RunContext, Tracing
    from horsies.run.child_leases import ChildLeases
    from horsies.run.progress_table import ProgressTable
    from horsies.task import TaskFunction
    from horsies.task.progress import Report

AnyTask: TypeAlias = "TaskFunction[..., Any, Any, Any]"
Tasks: TypeAlias = "Mapping[str, AnyTask]"
Message: TypeAlias = "tuple[int, str, str, str | None, str | None, RunContext | None, int]"
"""A job as it is sent: number, key, task name, args, kwargs, what tracing needs, its slot in the table of leases."""

_log = logging.getLogger("horsies.tracing")
_LONGEST_CHAIN: Final = 100  # user code can link exceptions in a cycle


@dataclass(slots=True, eq=False)
class Run:
    """A job in execution. `stop` is set once it has been asked to stop, `began` before the task's code is called."""

    number: int
    slot: int
    leases: ChildLeases
    progress: ProgressTable
    stop: TaskStopped | None = None
    began: bool = False
    span: str | None = None
    """The traceparent of its span, if it is traced."""
    raised: BaseException | None = None
    """The exception it failed with, until `let_go`."""
    report: Report | None = None
    tracked: bool = False

    def begin(self) -> None:
        """Mark the start in memory that the parent can read after a death; TaskStopped without a lease."""
        self.leases.begin(self.slot, self.number)
        self.began = True
        begin_reports(self)

    def open_report(self) -> Report:
        """Called by the first `progress` or `track` of this run."""
        self.report = report = self.progress.writer(LeaseTable.place(self.slot), self.number)
        return report

    def let_go(self) -> None:
        """End the lease, and free what user code has left in its frames.

        Called when the outcome is written and no stop can arrive any more. A frame that refers to its exception, as
        `last = error` or the frame of `execute` does, forms a cycle with it: three failures that held 300 MB each kept
        989 MB in the child for another 2 000 tasks.
        """
        if self.began:
            end_reports(self)
            self.leases.end(self.slot, self.number)
        _forget_frames(self.raised, self.stop)
        self.raised = self.stop = None


def execute(tasks: Tasks, job: Message, run: Run, tracing: Tracing | None) -> Outcome:
    """Run a plain task, in a span if the application traces; never raises."""
    if tracing is None or (context := job[5]) is None:
        return _execute(tasks, job, run)
    # A context of its own: whatever a stop interrupts, the next job does not begin inside of this span.
    return contextvars.copy_context().run(_execute_traced, tasks, job, run, tracing, context)


async def execute_async(tasks: Tasks, job: Message, run: Run, tracing: Tracing | None) -> Outcome:
    """`execute` for an `async def` task."""
    if tracing is None or (context := job[5]) is None:
        return await _execute_async(tasks, job, run)
    outcome: Outcome | None = None
    try:
        with tracing.running(_id_of(job), job[2], context) as span:
            run.span = span.traceparent
            outcome = await _execute_async(tasks, job, run)
            if not outcome[0]:
                span.failed(*outcome[2:])
    except Exception:  # noqa: BLE001 - a tracer, or an exporter, that fails
        _log.exception("a run could not be traced")
    return await _execute_async(tasks, job, run) if outcome is None else outcome


def _execute_traced(tasks: Tasks, job: Message, run: Run, tracing: Tracing, context: RunContext) -> Outcome:
    outcome: Outcome | None = None
    try:
        with tracing.running(_id_of(job), job[2], context) as span:
            run.span = span.traceparent
            outcome = _execute(tasks, job, run)
            if not outcome[0]:
                span.failed(*outcome[2:])
    except TaskStopped as stopped:  # before user code was called, or after it had returned
        outcome = outcome or _stopped(stopped, stopped, run)
    except Exception:  # noqa: BLE001 - a tracer, or an exporter, that fails
        _log.exception("a run could not be traced")
    return _execute(tasks, job, run) if outcome is None else outcome


def _id_of(job: Message) -> str:
    return job[1].partition("/")[0]


def _execute(tasks: Tasks, job: Message, run: Run) -> Outcome:
    """Run a plain task. TaskStopped, raised by a signal handler at any point, determines its outcome."""
    result: TaskResult[Any, Any] | None = None
    try:
        prepared = _prepare(tasks, job)
        run.begin()
        result = prepared if isinstance(prepared, TaskResult) else prepared[0].run(prepared[1], prepared[2])
        return _outcome(result, run)
    except TaskStopped as stopped:
        # A result that user code has already returned is not lost to a stop that came too late.
        return _stopped(stopped, stopped, run) if result is None else _outcome(result, run)
    except BaseException as error:  # noqa: BLE001 - one job's arguments and values must not end the child
        return _broken(error, run)


async def _execute_async(tasks: Tasks, job: Message, run: Run) -> Outcome:
    """Run an `async def` task; a cancellation that the parent did not ask for is an outcome as well."""
    try:
        prepared = _prepare(tasks, job)
        run.begin()
        result = prepared if isinstance(prepared, TaskResult) else await prepared[0].run_async(prepared[1], prepared[2])
        return _outcome(result, run)
    except asyncio.CancelledError as error:
        return _broken(error, run) if run.stop is None else _stopped(run.stop, error, run)
    except TaskStopped as stopped:
        return _stopped(stopped, stopped, run)
    except BaseException as error:  # noqa: BLE001 - one job's arguments and values must not end the child
        return _broken(error, run)


def _prepare(tasks: Tasks, job: Message) -> tuple[AnyTask, list[Any], dict[str, Any]] | TaskResult[Any, TaskError]:
    _, _, name, args, kwargs, _, _ = job
    task = tasks.get(name)
    if task is None:
        return TaskResult(err=_unknown(name))
    positional, named = load_args(args), load_kwargs(kwargs)
    if isinstance(positional, Err):
        return TaskResult(err=positional.err_value)
    if isinstance(named, Err):
        return TaskResult(err=named.err_value)
    return task, positional.ok_value, call_kwargs(named.ok_value, task.parameters)


def _outcome(result: TaskResult[Any, Any], run: Run) -> Outcome:
    run.raised = raised = _exception_of(result.err)
    if run.stop is not None and raised is not None and comes_from_a_stop(raised):
        return run.stop.outcome(raised)
    return outcome_of(result)


def _stopped(stop: TaskStopped, raised: BaseException, run: Run) -> Outcome:
    run.raised = raised
    return stop.outcome(raised)


def _exception_of(error: object) -> BaseException | None:
    raised = error.exception if isinstance(error, TaskError) else None
    return raised if isinstance(raised, BaseException) else None


def comes_from_a_stop(raised: BaseException) -> bool:
    """Whether a stop is the cause, also if clean-up code raised another exception on the way out."""
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


def _unknown(name: str) -> TaskError:
    return TaskError(
        error_code=OperationalErrorCode.WORKER_RESOLUTION_ERROR,
        message=f"no task {name!r} is registered in this worker; import its module where the app is defined",
    )


def _broken(error: BaseException, run: Run) -> Outcome:
    run.raised = error
    what = f"{type(error).__name__} while the arguments were read or the result was written"
    return failed(OperationalErrorCode.UNHANDLED_EXCEPTION, what, error)
