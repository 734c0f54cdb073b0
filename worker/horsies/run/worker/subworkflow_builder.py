"""Builds the workflows of sub-workflow nodes: their definitions are user code, which must not run in a transaction."""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.domain.trace import trace_of
from horsies.lifecycle.create_workflow import TooDeepError, fail_child, read_child, ready_children, start_child
from horsies.run.threads import build_in_thread
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.connect import is_transient
from horsies.store.isolate_bad_rows import ROW_ERRORS, is_about_a_row
from horsies.workflow.subworkflow_plan import BuildFailed, ChildPlanError, UnknownDefinition, child_plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from horsies.app import Horsies
    from horsies.domain.plan import WorkflowPlan
    from horsies.lifecycle.create_workflow import ReadyChild
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

    Acquire: TypeAlias = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]
    MakePlan: TypeAlias = Callable[[Horsies, ReadyChild], Awaitable[WorkflowPlan]]

CHANNEL = "horsies_workflow_ready"
_BATCH = 100
# A build that takes longer runs beside the next ones: one that hangs would block all others.
_BUILD_WAIT_S = 0.25
_MOST_SLOW = 32
_MOST_HANGING = 4  # of one definition, each for good: Python cannot end a thread
# During a deployment, some workers do not know its definitions yet, and others do: these check at least this often.
_FOR_OTHERS_S = 5.0
_LOCKED_AGAIN_S = 1.0
# Every worker is notified of a child at the same moment, and one is enough to build it: most find it already built.
_SPREAD_S = 0.05


class SubworkflowBuilder(WorkerLoop):
    """Builds the child workflows of READY nodes: after a notification, and at intervals, since one may be missed.

    The node stays READY until its child is stored, in one transaction. If a worker dies before that, another one builds
    the child.
    """

    name = "children"
    interval_s = _FOR_OTHERS_S
    step_timeout_s = 60.0

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow) -> None:
        super().__init__(dedicated, flow)
        self._app = flow.app
        self._building: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._left_until: dict[tuple[str, int], float] = {}
        """Nodes whose definition is not known here, left to other workers for a while."""
        self._locked_until: dict[tuple[str, int], float] = {}
        """Nodes of families that another session had locked when their child was to start."""

    def notice(self) -> None:
        """Wake up for an announced node."""
        delay_s = random.uniform(0.0, _SPREAD_S)  # noqa: S311 - spreads load, guards nothing
        asyncio.get_running_loop().call_later(delay_s, self.wake.set)

    async def step(self) -> None:
        self._collect()
        async with self.dedicated.acquire() as connection:
            waiting = await ready_children(connection, None, _BATCH)
        self._left_until = {key: due for key in waiting if (due := self._left_until.get(key)) is not None}
        now = time.monotonic()
        self._locked_until = {key: due for key, due in self._locked_until.items() if due > now}
        busy = self._building.keys() | self._locked_until.keys()
        new = [key for key in waiting if key not in busy and self._left_until.get(key, 0.0) <= now]
        for key in new:
            if len(self._building) == _MOST_SLOW:
                break
            self._building[key] = asyncio.create_task(self._build(*key))
            await asyncio.wait([self._building[key]], timeout=_BUILD_WAIT_S)
            self._collect()
        if new and len(waiting) == _BATCH:
            self.wake.set()

    async def close(self) -> None:
        """Give up running builds; their nodes stay READY, for other workers."""
        for task in self._building.values():
            task.cancel()
        await asyncio.gather(*self._building.values(), return_exceptions=True)

    def _collect(self) -> None:
        """Remove finished builds; an error of the database is raised in this loop."""
        ended = [key for key, task in self._building.items() if task.done()]
        errors = [error for key in ended if (error := self._building.pop(key).exception()) is not None]
        if errors:
            raise errors[0]

    async def _build(self, workflow_id: str, index: int) -> None:
        leave = (workflow_id, index) not in self._left_until
        refused: Exception | None
        try:
            refused = await build_child(self._app, self.dedicated.acquire, workflow_id, index, leave_unknown=leave)
        except asyncpg.LockNotAvailableError:
            self._locked_until[workflow_id, index] = time.monotonic() + _LOCKED_AGAIN_S
            asyncio.get_running_loop().call_later(_LOCKED_AGAIN_S, self.wake.set)
            return
        except (asyncpg.PostgresError, *ROW_ERRORS) as error:
            if is_transient(error) or not is_about_a_row(error):
                raise
            refused = error  # the node stays READY, and is tried again
        if leave and isinstance(refused, UnknownDefinition):
            self._left_until[workflow_id, index] = time.monotonic() + _FOR_OTHERS_S
            asyncio.get_running_loop().call_later(_FOR_OTHERS_S + _SPREAD_S, self.wake.set)
            self._events.warn(
                "child workflow left to other workers", workflow=workflow_id, node=index, error=str(refused)
            )
            return
        if refused is not None:
            self._events.warn("child workflow not built", workflow=workflow_id, node=index, error=str(refused))
        self._flow.enqueued()


async def plan_in_thread(app: Horsies, child: ReadyChild) -> WorkflowPlan:
    """Build its definition, for as long as a worker waits for user code."""
    build = partial(child_plan, app, child.definition_key, child.kwargs_json)
    what = f"the definition {child.definition_key!r}"
    try:
        return await build_in_thread(build, name=child.definition_key, what=what, most_hanging=_MOST_HANGING)
    except TimeoutError as error:
        raise BuildFailed(str(error)) from None


async def build_child(
    app: Horsies,
    acquire: Acquire,
    workflow_id: str,
    index: int,
    *,
    leave_unknown: bool = False,
    make_plan: MakePlan = plan_in_thread,
) -> ChildPlanError | None:
    """Start the child of this node, or fail the node with the reason; no connection is held while user code runs.

    With `leave_unknown`, a node whose definition is not known here is left to workers that know it.
    """
    async with acquire() as connection:
        child = await read_child(connection, workflow_id, index)
    if child is None:
        return None
    try:
        plan = await make_plan(app, child)
        await _start(acquire, child, plan)
    except ChildPlanError as error:
        if leave_unknown and isinstance(error, UnknownDefinition):
            return error
        async with acquire() as connection:
            await fail_child(connection, workflow_id, index, _refusal_of(child, error))
        return error
    return None


async def _start(acquire: Acquire, child: ReadyChild, plan: WorkflowPlan) -> None:
    try:
        async with acquire() as connection:
            traced = plan.traced(trace_of(child.task_options))
            await start_child(connection, child.workflow_id, child.index, traced)
    except (TooDeepError, asyncpg.DataError) as error:  # errors of data: a name too long, a number that no column holds
        raise BuildFailed(f"the child workflow {plan.name!r:.300} cannot be stored: {error}") from error


def _refusal_of(child: ReadyChild, error: ChildPlanError) -> str:
    """Return the result of a node whose child cannot be built."""
    if isinstance(error, UnknownDefinition):
        code = OperationalErrorCode.SUBWORKFLOW_LOAD_FAILED
    elif isinstance(error, BuildFailed):
        code = OperationalErrorCode.WORKFLOW_ENQUEUE_FAILED
    else:
        code = OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    data = {"workflow_id": child.workflow_id, "task_index": child.index, "definition_key": child.definition_key}
    return dump_task_result(TaskResult(err=TaskError(error_code=code, message=str(error), data=data)))
