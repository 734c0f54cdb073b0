"""PENDING tasks whose name this worker does not know: an unfinished deployment, or a misspelt name."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.claiming import ClaimRequest, claim, start
from horsies.run.contract import ChildResult
from horsies.run.worker.in_flight import InFlightTask, Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg

    from horsies.run.worker.advancer import Advancer
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

_BATCH = 100
_SETTLE_S = 0.5  # known tasks have been claimed by then, so that the query need not read past them
_SELDOM_S = 60.0


class UnknownTasks(WorkerLoop):
    """The loop that logs each such name once, and leaves or fails the tasks, as configured.

    To be failed they are claimed, started and finished like any task, so that caps, tokens and history stay valid.
    """

    name = "unknown_tasks"

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow, claimer: Claimer, advancer: Advancer) -> None:
        super().__init__(dedicated, flow)
        config, settings = flow.app.config, flow.settings
        self._fail = (settings.unknown_tasks or config.unknown_tasks) == "fail"
        self.interval_s = claimer.interval_s if self._fail else _SELDOM_S
        self._claimer = claimer
        self._advancer = advancer
        self._app_name = settings.locator
        self._logged: set[str] = set()
        self._waiting: list[InFlightTask] = []
        self._alarm: asyncio.TimerHandle | None = None

    def notice(self) -> None:
        """Check soon, once for all tasks that arrive until then: one may have been enqueued."""
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(_SETTLE_S, self.wake.set)

    def take_all(self) -> list[InFlightTask]:
        """Take claimed tasks that are not started, to be released."""
        waiting, self._waiting = self._waiting, []
        return waiting

    async def step(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        # Names that were logged need not be counted again: for 300 names with a thousand tasks each the server counted
        # 300,000 rows every half second.
        known = [*self._rules.sync_names, *self._rules.async_names, *self._logged]
        async with self.dedicated.acquire() as connection:
            await self._start(connection)  # left by a step that failed
            rows = await connection.fetch(statement(__name__, "unknown_names"), list(self._rules.queues), known)
            if not self._fail:
                self._log({row["task_name"]: row["waiting"] for row in rows})
            elif rows and not self._claimer.holds_back:
                await self._claim(connection, [row["task_name"] for row in rows])
                await self._start(connection)

    def _log(self, waiting: dict[str, int]) -> None:
        for name in waiting.keys() - self._logged:
            self._logged.add(name)
            self._events.warn(
                "unknown task",
                task=name,
                waiting=waiting[name],
                help="no task of that name is registered here; it stays PENDING for a worker that has it",
            )

    async def _claim(self, connection: asyncpg.Connection, names: list[str]) -> None:
        rules, tasks = self._rules, self._flow.tasks
        async with self._claimer.claiming:
            for queue in rules.queues:
                room = _BATCH - len(self._waiting)
                if rules.max_claimed:
                    room = min(room, rules.max_claimed - tasks.count(Stage.CLAIMED))
                if room <= 0:
                    self.notice()
                    return
                try:
                    if rules.capped:
                        claimed = (await rules.claim_capped(connection, [queue], room, names)).tasks
                    else:
                        request = ClaimRequest(queue, room, rules.lease_ms, names)
                        claimed = await claim(connection, rules.worker_id, request)
                except BaseException as error:
                    self._claimer.failed(error)
                    raise
                entries = [
                    InFlightTask(each, is_async=False, timeout_ms=None, requeue_on_interrupt=True) for each in claimed
                ]
                for entry in entries:
                    tasks.add(entry)
                self._waiting += entries
                if claimed:
                    self.wake.set()  # there may be more

    async def _start(self, connection: asyncpg.Connection) -> None:
        """Make them RUNNING here, in no child, with an outcome at once, which the finisher stores."""
        if not self._waiting:
            return
        rules, pid = self._rules, os.getpid()
        starts = [rules.start_of(entry.task, pid) for entry in self._waiting]
        verdicts = await start(connection, rules.worker_id, starts, rules.caps_on_running)
        for entry in self.take_all():
            if entry.task.token in verdicts.started:
                self._flow.outbox.result(entry, self._refusal(entry.task.task_name))
            elif entry.task.token in verdicts.waiting:
                self._waiting.append(entry)
            else:
                self._flow.tasks.drop(entry)
                if entry.task.token in verdicts.expired:
                    self._events.task_expired(entry)
                    if entry.task.is_workflow_task:
                        self._advancer.ended(entry.task_id)
        self._flow.has_room()  # they used some slots for a moment

    def _refusal(self, name: str) -> ChildResult:
        message = (
            f"no task {name!r} is registered in {self._app_name}; import its module where the app is defined, or, if "
            'another application serves this queue too, set unknown_tasks="leave"'
        )
        code = OperationalErrorCode.WORKER_RESOLUTION_ERROR
        error = TaskError(error_code=code, message=message, data={"task_name": name, "app": self._app_name})
        return ChildResult("err", dump_task_result(TaskResult(err=error)), code.value, message, 0.0, began=False)
