"""Writes ended tasks to their workflows: one transaction at a time; tasks that end meanwhile go into the next one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from horsies.lifecycle.advancing import advance, family_by_family, nodes_started
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.isolate_bad_rows import ROW_ERRORS, is_about_one_row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from horsies.run.worker.subworkflow_builder import SubworkflowBuilder
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

T = TypeVar("T")

_LARGEST_BATCH = 200
# The node of a shorter task is never shown as RUNNING: a transaction for that would cost as much as its end.
_SHORT_TASK_S = 0.05
# Another worker's advance of the family takes some milliseconds; a session left open with the lock, seconds.
_FIRST_DELAY_S = 0.005
_LONGEST_DELAY_S = 2.0


@dataclass(slots=True)
class _Postponed:
    """Ended tasks of a family that is locked, and when to try again."""

    delay_s: float = _FIRST_DELAY_S / 2
    due: float = 0.0
    task_ids: dict[str, None] = field(default_factory=dict)


class Advancer(WorkerLoop):
    """The second transaction of a finish. If the worker dies before it, the sweep repairs the workflow.

    It also marks nodes as RUNNING: user code does not wait for that, and if the task has ended meanwhile nothing is
    written.
    """

    name = "advance"
    interval_s = 5.0
    step_timeout_s = 60.0

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow, subworkflow_builder: SubworkflowBuilder) -> None:
        super().__init__(dedicated, flow)
        self._subworkflow_builder = subworkflow_builder
        self._started: dict[str, float] = {}
        """Start times, in their order; written once the first task has run for some time."""
        self._alarm: asyncio.TimerHandle | None = None
        self._spans: dict[str, str] = {}
        self._ended: dict[str, object] = {}
        """Each with a mark: a task that ends again during its advance is advanced again."""
        self._postponed: dict[str, _Postponed] = {}
        """By the root of the family that another session has locked."""

    @property
    def pending(self) -> int:
        """The number of ended tasks that are not advanced yet."""
        return len(self._ended) + sum(len(aside.task_ids) for aside in self._postponed.values())

    def started(self, task_id: str) -> None:
        """Note that the task of a node has started."""
        self._started[task_id] = time.monotonic()
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(_SHORT_TASK_S, self._check_started)

    def ended(self, task_id: str, span: str | None = None) -> None:
        """The task of a node may have ended: finished, expired, or ended by an operator or a sweep. `span`: if the run
        was traced, its traceparent, to which the next nodes link."""
        self._started.pop(task_id, None)
        if span is not None:
            self._spans[task_id] = span
        self._ended[task_id] = object()
        self.wake.set()

    async def step(self) -> None:
        self._resume_postponed()
        if self._ended:
            await self._advance(dict(islice(self._ended.items(), _LARGEST_BATCH)))
        if running := self._running():
            await self._run_nodes(running)
        if self._ended or self._running():
            self.wake.set()

    def _check_started(self) -> None:
        self._alarm = None
        if self._started:
            due_in = next(iter(self._started.values())) + _SHORT_TASK_S - time.monotonic()
            if due_in <= 0:
                self.wake.set()
                due_in = _SHORT_TASK_S
            self._alarm = asyncio.get_running_loop().call_later(due_in, self._check_started)

    def _running(self) -> list[str]:
        """Return the started tasks that have already run for longer than a short task."""
        since = time.monotonic() - _SHORT_TASK_S
        return [task_id for task_id, at in islice(self._started.items(), _LARGEST_BATCH) if at <= since]

    async def _advance(self, marks: dict[str, object]) -> None:
        leave = self._blocked()
        locked: dict[str, str] = {}
        step = partial(advance, spans=self._spans) if self._spans else advance
        async with self.dedicated.acquire() as connection:
            for answers, left in await self._isolate_bad_workflows(
                list(marks), lambda ids: family_by_family(step, connection, ids, leave)
            ):
                locked |= left
                for done in answers:
                    for workflow_id, status in done.finished:
                        self._events.note("workflow", id=workflow_id, status=status.value)
                    if done.enqueued:
                        self._flow.enqueued()
                    if done.ready_children:
                        self._subworkflow_builder.wake.set()
        for task_id, mark in marks.items():
            if self._ended[task_id] is mark:
                del self._ended[task_id]
                if task_id not in locked:
                    self._spans.pop(task_id, None)
        self._postpone(locked, leave)
        self._flow.quiet.set()

    async def _run_nodes(self, task_ids: list[str]) -> None:
        leave = self._blocked()
        async with self.dedicated.acquire() as connection:
            answers = await self._isolate_bad_workflows(
                task_ids, lambda ids: family_by_family(nodes_started, connection, ids, leave)
            )
        for task_id in task_ids:
            self._started.pop(task_id, None)
        for _, locked in answers:
            for task_id in locked.keys() - self._ended.keys():
                self.started(task_id)  # as if it had just started: checked again after the same time

    def _blocked(self) -> list[str]:
        """Return the roots of families that were locked a moment ago."""
        now = time.monotonic()
        return [root for root, aside in self._postponed.items() if aside.due > now]

    def _postpone(self, locked: Mapping[str, str], leave: Collection[str]) -> None:
        """Schedule another try for locked tasks; drop those that were tried and are no longer locked."""
        for root in self._postponed.keys() - set(leave) - set(locked.values()):
            if not self._postponed[root].task_ids:
                del self._postponed[root]
        now = time.monotonic()
        for root in set(locked.values()).difference(leave):
            aside = self._postponed.setdefault(root, _Postponed())
            aside.delay_s = min(2 * aside.delay_s, _LONGEST_DELAY_S)
            aside.due = now + aside.delay_s
            asyncio.get_running_loop().call_later(aside.delay_s, self.wake.set)
        for task_id, root in locked.items():
            self._postponed[root].task_ids[task_id] = None

    def _resume_postponed(self) -> None:
        now = time.monotonic()
        for aside in self._postponed.values():
            if aside.due <= now:
                for task_id in aside.task_ids:
                    self._ended.setdefault(task_id, object())
                aside.task_ids.clear()

    async def _isolate_bad_workflows(
        self, task_ids: list[str], do: Callable[[Collection[str]], Awaitable[T]]
    ) -> list[T]:
        """Do it for all, or one by one if a workflow cannot be changed, being damaged or forbidden by a trigger."""
        try:
            return [await do(task_ids)]
        except (asyncpg.PostgresError, *ROW_ERRORS) as error:
            if not is_about_one_row(error):
                raise
            if len(task_ids) > 1:
                return [answer for each in task_ids for answer in await self._isolate_bad_workflows([each], do)]
            # The sweep tries it again, and reports it again.
            self._events.warn("workflow not advanced", task=task_ids[0], error=f"{type(error).__name__}: {error}")
            return []
