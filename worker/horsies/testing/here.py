"""Executes one task in this process, between the same stored texts as in a worker, and counts the outcomes."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import with_retries_spent
from horsies.domain.retry import RETRIES_SPENT, RetryAt, RetryRule, decide, timeout_of
from horsies.domain.task_result import TaskError, TaskResult
from horsies.run.outcomes import outcome_of
from horsies.task.current import ignore_report, running
from horsies.testing.limits import run_limited, run_limited_async

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from horsies.registry import AnyTask
    from horsies.task.current import CurrentTask, Report


@dataclass(frozen=True, slots=True)
class Ran:
    """Executions by their outcome; after a `retried` one the task waits for its next try."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    expired: int = 0

    def __add__(self, other: Ran) -> Ran:
        return Ran(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The values that would be stored of an execution; `exception` is what user code raised, if it did."""

    ok: bool
    stored: str
    error_code: str | None
    error_message: str | None
    exception: BaseException | None

    def raise_exception(self) -> None:
        if self.exception is not None:
            raise self.exception

    def raise_if_meant_for_the_test(self) -> None:
        """ctrl+c, and exceptions by which test frameworks fail or skip a test, are not failures of a task."""
        if self.exception is not None and not isinstance(
            self.exception, Exception | SystemExit | asyncio.CancelledError
        ):
            raise self.exception


@dataclass(slots=True, eq=False)
class RunHere:
    """The run that `current_task` finds in this process. Progress is not kept."""

    current: CurrentTask
    report: Report | None = ignore_report
    tracked: bool = False

    def open_report(self) -> Report:
        return ignore_report

    def describe(self) -> CurrentTask | None:
        return self.current


def run_here(
    task: AnyTask, args: str | None, kwargs: str | None, task_options: str | None, current: CurrentTask
) -> EndedRun:
    """Run in this thread, unless it runs an event loop: in a worker a plain task has none, and may start one."""
    with running(RunHere(current)):
        return _run_here(task, args, kwargs, task_options)


def _run_here(task: AnyTask, args: str | None, kwargs: str | None, task_options: str | None) -> EndedRun:
    values = task.load(args, kwargs)
    if isinstance(values, TaskResult):
        return _ended(values)
    limit = timeout_of(task_options, task.timeout_ms)
    if not task.is_async and not loop_runs_here():
        return _ended(run_limited(limit, partial(task.run, *values)))
    with ThreadPoolExecutor(1, thread_name_prefix="horsies inline") as thread:
        in_our_context = partial(contextvars.copy_context().run, _run, task, limit, *values)
        return _ended(thread.submit(in_our_context).result())


async def run_here_async(
    task: AnyTask, args: str | None, kwargs: str | None, task_options: str | None, current: CurrentTask
) -> EndedRun:
    """An `async def` task in the running loop, for its fixtures; a plain one in another thread."""
    values = task.load(args, kwargs)
    if isinstance(values, TaskResult):
        return _ended(values)
    limit = timeout_of(task_options, task.timeout_ms)
    with running(RunHere(current)):
        if task.is_async:
            result = await run_limited_async(limit, partial(task.run_async, *values))
        else:
            result = await asyncio.to_thread(run_limited, limit, partial(task.run, *values))
    return _ended(result)


def next_try(
    ended: EndedRun,
    task_options: str | None,
    *,
    retry_count: int,
    max_retries: int,
    now: datetime,
    good_until: datetime | None,
    rng: Random,
) -> tuple[float | None, EndedRun]:
    """The delay before the next try, None if this was the last one; and what is stored then."""
    if ended.ok:
        return None, ended
    decision = decide(
        RetryRule.from_text(task_options),
        error_code=ended.error_code,
        retry_count=retry_count,
        max_retries=max_retries,
        now=now,
        good_until=good_until,
        rng=rng,
    )
    if decision == RETRIES_SPENT:
        stored = with_retries_spent(ended.stored, retry_count=retry_count, max_retries=max_retries)
        return None, replace(ended, stored=stored)
    return decision.delay_s if isinstance(decision, RetryAt) else None, ended


def _run(task: AnyTask, limit: int | None, args: list[Any], kwargs: dict[str, Any]) -> TaskResult[Any, Any]:
    if task.is_async:
        return asyncio.run(run_limited_async(limit, partial(task.run_async, args, kwargs)))
    return run_limited(limit, partial(task.run, args, kwargs))


def loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _ended(result: TaskResult[Any, Any]) -> EndedRun:
    error = result.err
    raised = error.exception if isinstance(error, TaskError) else None
    ended = EndedRun(*outcome_of(result), raised if isinstance(raised, BaseException) else None)
    ended.raise_if_meant_for_the_test()
    return ended
