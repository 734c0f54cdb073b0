"""The loops of a worker or a scheduler: one shape for all, run by one supervisor. In an outage new work waits."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from horsies.findings.blockers import lock_holders
from horsies.run.log_format import Seconds
from horsies.store.connect import is_transient
from horsies.store.isolate_bad_rows import is_blocked
from horsies.store.pool import CONNECTION_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies.config.app import WorkerResilienceConfig
    from horsies.run.events import Events
    from horsies.store.dedicated_connection import DedicatedConnection


BEATS = "beat"
"""The name of the loop that tries first, and most often: sweeps wait for it for a limited time, see
horsies_spare_period."""
LONGEST_PAUSE_S = 2.5


class Outage:
    """One state for all loops of the worker. Any transient failure counts: a lost connection, a lock, a full disk.

    It does not apply to other workers, which may reach the database when this one cannot. Whether a silent run is lost
    is decided by the sweep, from the pulse in the database (`pulse` of the schema): after a gap in which no worker
    could beat, it leaves runs for 1.25 heartbeat intervals and half an interval to connect, at least 1 s and at most 5
    s of that; until then only silence in writable time counts. Without a gap it leaves nothing: a worker that alone is
    cut off has to stop its runs before running_stale_threshold_ms, like any other.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noticed = self._beaten = float("-inf")
        self._has_ended: Callable[[float], bool] = lambda _moment: False
        self._beat: Callable[[], None] = lambda: None
        self._on_over: Callable[[], None] = lambda: None
        self.holds_back = False
        """True while new claims and starts have to wait."""

    def watch(self, has_ended: Callable[[float], bool], beat: Callable[[], None], on_over: Callable[[], None]) -> None:
        """`has_ended`: whether an outcome from before a moment still waits. `beat`: beat for all runs."""
        self._has_ended, self._beat, self._on_over = has_ended, beat, on_over

    def step_failed(self) -> None:
        """The step of a loop has failed with a transient error."""
        self._noticed = self._clock()
        self.holds_back = True
        self._beat()

    def step_succeeded(self, loop: str, began: float) -> None:
        """The step of a loop that began then has succeeded."""
        if loop == BEATS and began >= self._noticed:
            self._beaten = began
        if self.holds_back and self._beaten >= self._noticed and not self._has_ended(self._noticed):
            self.holds_back = False
            self._on_over()


WATCH_S = 1.0
_HURRIED_PAUSE_S = 0.5
_BLOCKED_S = 0.5
_UNBLOCKED_AFTER_S = 2.0
_HOLDER_WITHIN_S = 1.0
LEAST_PAUSE_S = 0.1
STALLED_S = 2.0
WRITING = ("claim", "start", "finish", BEATS)
MARGIN_S = 15.0  # beyond the pause and the longest step that a loop allows itself


class Wake:
    """A reason to run now. If it is set while no loop waits, it is remembered once.

    asyncio.wait_for(event.wait(), …) creates an asyncio task each time, 30 µs on the path of every single task.
    """

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until it is set or the time is over."""
        if not self._set:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            alarm = loop.call_later(timeout_s, self.set)
            try:
                await self._waiter
            finally:
                alarm.cancel()
                self._waiter = None
        self._set = False


class Loop(Protocol):
    """Work that the worker repeats: at once when woken, otherwise after `interval_s`."""

    name: str
    interval_s: float
    step_timeout_s: float
    wake: Wake
    dedicated: DedicatedConnection

    async def step(self) -> None: ...


class Supervisor:
    """Runs loops until they are stopped. A step that fails is tried again after a delay; no failure ends a loop.

    Their tasks are in no TaskGroup: that would end the beats of all runs because of an error in any other loop, and a
    stop ends them one after the other.

    A loop that has not succeeded for too long is reported: a worker must not look alive while it claims nothing.
    """

    def __init__(self, resilience: WorkerResilienceConfig, events: Events) -> None:
        self._resilience = resilience
        self._events = events
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loops: dict[str, Loop] = {}
        self._reported: set[str] = set()
        self._hurried = False
        self._news = asyncio.Event()
        self._began: dict[str, float] = {}
        """Since when a step is under way."""
        self._blocked: tuple[float, float] | None = None
        """While a lock or a full disk prevents loops from writing: when that was first and last seen."""
        self.outage = Outage()
        self.last_success: dict[str, float] = {}
        """By the name of the loop; for one that has not succeeded yet, its start."""

    def start(self, loops: Sequence[Loop]) -> None:
        self._tasks["watch"] = asyncio.create_task(self._watch(), name="horsies watch")
        for loop in loops:
            self._loops[loop.name] = loop
            self.last_success[loop.name] = time.monotonic()
            self._tasks[loop.name] = asyncio.create_task(self._drive(loop), name=f"horsies {loop.name}")

    async def stop(self, *names: str) -> None:
        """End these loops, each at the next point where it waits."""
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for name in names:
            self._loops.pop(name, None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hurry(self) -> None:
        """Let no failed step wait long for its next try: outcomes not stored when the worker ends are lost."""
        self._hurried = True
        self._end_pauses()

    async def stop_all(self) -> None:
        await self.stop(*self._tasks)

    @property
    def names(self) -> list[str]:
        return list(self._loops)

    def stuck(self) -> dict[str, float]:
        """The loops that should have succeeded by now, and the seconds since they last did."""
        now = time.monotonic()
        since = {name: now - self.last_success[name] for name in self._loops}
        return {
            name: since[name]
            for name, loop in self._loops.items()
            if since[name] > loop.interval_s + loop.step_timeout_s + MARGIN_S
        }

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            stuck = self.stuck()
            for name in stuck.keys() - self._reported:
                self._events.error("loop stuck", loop=name, since=Seconds(stuck[name]))
            self._reported |= stuck.keys()
            self._log_unblocked()
            now = time.monotonic()
            if any(now - self._began.get(name, now) > STALLED_S for name in WRITING):
                self.outage.step_failed()  # a server that hangs refuses nothing

    async def _pause(self, delay_s: float) -> None:
        """Wait this long, or until another loop succeeds, or the worker is in a hurry."""
        if self._hurried:
            await asyncio.sleep(delay_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._news.wait()

    def _end_pauses(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _delay_s(self, loop: Loop, failures: int) -> float:
        delay = backoff_s(self._resilience, failures)
        if self._hurried:
            return min(delay, _HURRIED_PAUSE_S)
        if loop.name == BEATS:
            return min(delay, max(loop.interval_s, LEAST_PAUSE_S), LONGEST_PAUSE_S)
        return delay

    async def _note_blocked(self, loop: Loop, error: Exception) -> None:
        """Logged once for all loops that wait for the same thing, with the session that holds the lock."""
        now = time.monotonic()
        is_news, self._blocked = self._blocked is None, (now if self._blocked is None else self._blocked[0], now)
        if is_news:
            self._events.blocked(loop.name, error, await _holder_of_lock(loop.dedicated))

    def _log_unblocked(self) -> None:
        """Log the end once no loop was blocked for a while; one success alone may have had nothing to write."""
        if self._blocked is not None and time.monotonic() - self._blocked[1] > _UNBLOCKED_AFTER_S:
            self._events.warn("writing again", after=Seconds(self._blocked[1] - self._blocked[0]))
            self._blocked = None

    async def _drive(self, loop: Loop) -> None:
        failures = 0
        while True:
            self._began[loop.name] = began = time.monotonic()
            try:
                async with asyncio.timeout(loop.step_timeout_s):
                    await loop.step()
            except Exception as error:  # noqa: BLE001 - a loop ends only when stopped; its next step reads the rows again
                self._began.pop(loop.name, None)
                failures += 1
                if is_blocked(error):
                    self.outage.step_failed()
                    await self._note_blocked(loop, error)
                    # Each heartbeat that fails this way lets this worker's runs go on for a moment longer.
                    await self._pause(LEAST_PAUSE_S if loop.name == BEATS else _BLOCKED_S)
                    continue
                if is_transient(error):
                    loop.dedicated.discard()
                    self.outage.step_failed()
                delay = self._delay_s(loop, failures)
                self._events.loop_failed(loop.name, error, failures, delay, transient=is_transient(error))
                await self._pause(delay)
                continue
            self._began.pop(loop.name, None)
            self.outage.step_succeeded(loop.name, began)
            self._events.loop_stepped(loop.name, time.monotonic() - began)
            if failures or loop.name in self._reported:
                self._events.note("loop recovered", loop=loop.name, after_failures=failures)
                self._reported.discard(loop.name)
                failures = 0
                self._end_pauses()  # the failure of this loop also affected the others
            self.last_success[loop.name] = time.monotonic()
            await loop.wake.wait(loop.interval_s)


async def _holder_of_lock(dedicated: DedicatedConnection) -> str | None:
    """Return which session has locked a table of ours; None if none has, as for a full disk or a locked row."""
    with suppress(*CONNECTION_ERRORS, TimeoutError):
        async with asyncio.timeout(_HOLDER_WITHIN_S), dedicated.acquire() as connection:
            found = await lock_holders(connection)
            return found[0].cause if found else None
    return None


def backoff_s(resilience: WorkerResilienceConfig, failures: int) -> float:
    """Doubling from initial to max, ±25 %, never below 0.1 s."""
    base: float = min(resilience.db_retry_initial_ms * 2.0 ** min(failures - 1, 20), resilience.db_retry_max_ms) / 1000
    return max(LEAST_PAUSE_S, base * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing
