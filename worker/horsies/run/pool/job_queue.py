"""The jobs of one kind, plain or `async def`, in one child: which have started, when they time out, how they end."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from horsies.run.contract import TASK_TIMEOUT, ChildResult, task_id_of
from horsies.run.frames import Channel
from horsies.run.outcomes import failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from horsies.domain.progress_pace import Reading
    from horsies.run.contract import ChildSpec, Job
    from horsies.run.guard import LeaseTable
    from horsies.run.outcomes import Outcome
    from horsies.run.progress_table import ProgressTable


STOP_GRACE_S: Final = 5.0
_UNREAD_S: Final = 1.0  # 16 MB take 50 ms


class RunningJob:
    """A job between submit and result."""

    __slots__ = ("begun", "job", "number", "slot", "stop", "timer")

    def __init__(self, number: int, job: Job, slot: int) -> None:
        self.number = number
        self.slot = slot
        self.job = job
        self.begun = False
        self.stop: tuple[str, str] | None = None  # asked to stop: the code and the message it ends with
        self.timer: asyncio.TimerHandle | None = None


class LostJobs(NamedTuple):
    """The jobs of a dead child by key, and why it was killed if that is known."""

    started: list[str]
    waiting: list[str]
    causes: list[str]


class QueueOwner(Protocol):
    """The child, as far as its queues need it."""

    spec: ChildSpec
    table: LeaseTable
    progress: ProgressTable
    title: Title
    running: dict[str, float]
    control: Channel

    def lost(self) -> None: ...

    def kill(self) -> None: ...

    def read_outputs(self) -> None: ...

    def job_ended(self, key: str, result: ChildResult) -> None: ...

    def reported(self, key: str, reading: Reading) -> None: ...


class JobQueue:
    """Derives which jobs run in the child from the results, without messages about starts.

    The child takes jobs in the order of submission, at most `limit` at once, and sends each result before it starts the
    next: so a result also means that the next job has started.
    """

    def __init__(self, child: QueueOwner, kind: int, limit: int, slots: range) -> None:
        """`kind`: how the child knows it, 0 for plain jobs; `slots`: its part of the child's lease table."""
        self._loop = asyncio.get_running_loop()
        self.channel = Channel(self._loop, self._results, child.lost)
        self.limit = limit
        self._kind = kind
        self._child = child
        self._table = child.table
        self._free = list(slots)
        self._progress = child.progress
        self._terms = child.spec.terms
        self._running = child.running
        self._submitted: dict[int, RunningJob] = {}
        self._by_key: dict[str, RunningJob] = {}
        self._waiting: deque[RunningJob] = deque()
        self._begun = 0
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._submitted)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def task_name(self, key: str) -> str:
        return self._by_key[key].job.task_name

    def number(self, key: str) -> int:
        return self._by_key[key].number

    def has_begun(self, key: str) -> bool:
        """Return whether its code has been called, and its result has not come yet."""
        submitted = self._by_key.get(key)
        return submitted is not None and self._table.has_begun(submitted.slot, submitted.number)

    def before(self, key: str) -> Job | None:
        """Return the job that this one waits for: of those that have begun, the one that was submitted first."""
        if self.has_begun(key):
            return None
        return next((one.job for one in self._submitted.values() if self.has_begun(one.job.key)), None)

    def submit(self, job: Job, confirmed_at: int) -> None:
        self._last_number = number = self._last_number + 1
        slot = self._free.pop()
        submitted = self._submitted[number] = self._by_key[job.key] = RunningJob(number, job, slot)
        self._table.assign(slot, number, confirmed_at)
        self.channel.send(
            (number, job.key, job.task_name, job.args, job.kwargs, job.context, job.sent_at, job.good_until, slot)
        )
        if self._begun < self.limit:
            self._begin(submitted)
        else:
            self._waiting.append(submitted)

    def confirm(self, key: str, confirmed_at: int) -> None:
        self._table.confirm(self._by_key[key].slot, confirmed_at)

    def read_progress(self) -> None:
        """Report the progress of the jobs that have begun."""
        for submitted in self._submitted.values():
            self._report_progress(submitted)

    def stop(self, key: str, code: str, message: str) -> None:
        """Ask the child to stop this job, and kill the child if its code does not react."""
        self.channel.resume()  # its result may be unread
        submitted = self._by_key[key]
        if submitted.stop is not None:
            return
        submitted.stop = code, message
        self._child.control.send(("stop", self._kind, submitted.number, code, message))
        if submitted.begun:
            self._kill_later(submitted)

    def on_child_exit(self, lost: LostJobs) -> None:
        """Add the jobs of a dead child to `lost`, without those that were asked to stop, which have stopped.

        The child marks in shared memory, which outlives it, which jobs had begun: `RunningJob.begun` counts a job as
        begun as soon as the one before it has ended, when its arguments are not read yet.
        """
        self.channel.drain()
        for submitted in list(self._submitted.values()):
            began = self._table.has_begun(submitted.slot, submitted.number)
            self._report_progress(submitted)
            if submitted.stop is not None:
                code, message = submitted.stop
                if began:
                    message = f"{message}; its process had to be killed"
                    lost.causes.append(
                        f"task {task_id_of(submitted.job.key)} ({submitted.job.task_name}) did not stop ({code})"
                    )
                self._end(submitted, failed(code, message), 0.0, began=began)
                continue
            confirmed_at = self._table.confirmed_at(submitted.slot)
            if began and self._terms.is_over(confirmed_at):
                lost.causes.append(self._terms.over(confirmed_at))
            (lost.started if began else lost.waiting).append(submitted.job.key)
            if submitted.timer is not None:
                submitted.timer.cancel()
        self.channel.close()
        for submitted in self._submitted.values():
            self._table.release(submitted.slot)
        self._submitted.clear()
        self._by_key.clear()

    def _begin(self, submitted: RunningJob) -> None:
        submitted.begun = True
        self._begun += 1
        self._running[submitted.job.key] = monotonic()
        if submitted.stop is not None:
            self._kill_later(submitted)
        elif submitted.job.timeout_ms is not None:
            submitted.timer = self._loop.call_later(submitted.job.timeout_ms / 1_000, self._time_out, submitted)
        self._child.title.begun()

    def _report_progress(self, submitted: RunningJob) -> None:
        reading = self._progress.read(self._table.index(submitted.slot), submitted.number)
        if reading is not None:
            self._child.reported(submitted.job.key, reading)

    def _time_out(self, submitted: RunningJob) -> None:
        if self.channel.resume():  # it may have ended in time, with an unread result
            submitted.timer = self._loop.call_later(_UNREAD_S, self._time_out, submitted)
            return
        self.stop(submitted.job.key, TASK_TIMEOUT, f"stopped after {submitted.job.timeout_ms} ms, its timeout_ms")

    def _kill_later(self, submitted: RunningJob) -> None:
        if submitted.timer is not None:
            submitted.timer.cancel()
        submitted.timer = self._loop.call_later(STOP_GRACE_S, self._child.kill)

    def _results(self, results: list[Any]) -> None:
        self._child.read_outputs()
        for number, outcome, duration_s, began, span, logged in results:
            if logged:
                self._child.control.drain()
            if (submitted := self._submitted.get(number)) is not None:
                self._end(submitted, outcome, duration_s, began=began, span=span)

    def _end(
        self, submitted: RunningJob, outcome: Outcome, duration_s: float, *, began: bool, span: str | None = None
    ) -> None:
        key = submitted.job.key
        if self._progress.used:
            self._report_progress(submitted)
        del self._submitted[submitted.number], self._by_key[key]
        self._table.release(submitted.slot)
        self._free.append(submitted.slot)
        if submitted.timer is not None:
            submitted.timer.cancel()
        if submitted.begun:
            self._begun -= 1
            del self._running[key]
        else:
            self._waiting.remove(submitted)
        if self._waiting and self._begun < self.limit:
            self._begin(self._waiting.popleft())
        ok, text, code, message = outcome
        self._child.job_ended(key, ChildResult("ok" if ok else "err", text, code, message, duration_s, began, span))


PAUSE_S: Final = 0.05  # the name of a shorter job could not be read before its end
_ID_TAIL: Final = 8  # ids begin with the time, so neighbours differ only at the end


class Title:
    """Called at each begin and end, it sets at most one title in PAUSE_S, and none while jobs are short."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        idle: str,
        running: Mapping[str, float],
        name_of: Callable[[str], str],
        show: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._idle = idle
        self._running = running
        self._name_of = name_of
        self._show = show
        self._shown = idle
        self._timer: asyncio.TimerHandle | None = None

    def begun(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(PAUSE_S, self._update)

    def ended(self) -> None:
        if self._shown is not self._idle:
            self.begun()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _update(self) -> None:
        self._timer = None
        now = monotonic()
        long = [key for key, begin in self._running.items() if now - begin >= PAUSE_S / 2]
        title = self._text(long)
        if title != self._shown:
            self._show(title)
            self._shown = title
        if len(long) < len(self._running):
            self.begun()

    def _text(self, keys: list[str]) -> str:
        if not keys:
            return self._idle
        if len(keys) > 1:
            return f"{self._idle} · {len(keys)} tasks"
        return f"{self._idle} · {self._name_of(keys[0])} …{task_id_of(keys[0])[-_ID_TAIL:]}"
