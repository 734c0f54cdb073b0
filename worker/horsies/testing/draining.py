"""Drain mode: waiting tasks of the database are run until nothing is due, in this process or in real children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.store.loop_thread import LoopThread
from horsies.testing.claims import Claims, current_of
from horsies.testing.here import run_here, run_here_async
from horsies.testing.real_worker import drain_in_children

if TYPE_CHECKING:
    from horsies.app import Horsies
    from horsies.testing.here import Ran


def drain(app: Horsies, *, seconds: float = 0, processes: int = 0, raises: bool = False) -> Ran:
    """Run everything that is due in the database, and the tasks sent by that, until nothing is; returns the outcomes.

    With `seconds` also the tasks that fall due within that time, including retries, as if it had passed: the times of
    all waiting tasks in the queues of `app` are moved. Tasks run in this process, one after the other, where they can
    be patched and debugged; with `processes` in that many children of a worker, as in production: there a crash fails
    only the task, and a timeout stops also what cannot be stopped here (see horsies.testing.limits).

    With `raises=True` an exception of a task that is not retried is raised here, after its outcome is stored.
    """
    _check(processes, raises=raises)
    thread = LoopThread("horsies drain", on_stop=_nothing, after_fork=lambda: None)
    try:
        if processes:
            return thread.run_sync(drain_in_children(app, seconds, processes))
        claims = thread.run_sync(Claims.open(app, seconds))
        try:
            while (claimed := thread.run_sync(claims.next())) is not None:
                function, current = app.tasks[claimed.task_name], current_of(claimed)
                ended = run_here(function, claimed.args, claimed.kwargs, claimed.task_options, current)
                if not thread.run_sync(claims.store(claimed, ended)) and raises:
                    ended.raise_exception()
        finally:
            thread.run_sync(claims.close())
        return claims.ran
    finally:
        thread.close(5.0)


async def drain_async(app: Horsies, *, seconds: float = 0, processes: int = 0, raises: bool = False) -> Ran:
    """`drain` for a running event loop: `async def` tasks run in that loop."""
    _check(processes, raises=raises)
    if processes:
        return await drain_in_children(app, seconds, processes)
    claims = await Claims.open(app, seconds)
    try:
        while (claimed := await claims.next()) is not None:
            function, current = app.tasks[claimed.task_name], current_of(claimed)
            ended = await run_here_async(function, claimed.args, claimed.kwargs, claimed.task_options, current)
            if not await claims.store(claimed, ended) and raises:
                ended.raise_exception()
    finally:
        await claims.close()
    return claims.ran


def _check(processes: int, *, raises: bool) -> None:
    if processes and raises:
        raise ValueError("raises=True needs the tasks in this process: leave out processes, or look at their results")


async def _nothing() -> None:
    """The connection is closed by then."""
