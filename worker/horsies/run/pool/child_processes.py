"""The worker's child processes: starts them, replaces those that end, and renews all of them for new code."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.run.contract import ChildFailed
from horsies.run.pool.child import Child, ChildListener
from horsies.run.pool.process import Guard, shared_memory
from horsies.waits_in_tasks import WAIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.run.contract import ChildSpec
    from horsies.run.events import Events

_INTERRUPTED_S = 6.0  # a task that does not stop is killed with its child after 5 s
_RESPAWN_PAUSE_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)


class Slot:
    """One child, or the wait for the next one."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.child: Child | None = None
        self.failures = 0
        self.next: Child | None = None
        """Ready to take over when `child` has ended."""
        self.started = asyncio.Event()
        """Set when a child starts, cleared by `renew`."""


class Children:
    """`spec`: that of every child, with the name of the worker as its title."""

    def __init__(self, spec: ChildSpec, processes: int, jobs: ChildListener, events: Events) -> None:
        self._waits = os.fdopen(shared_memory("horsies waits", processes * WAIT_BYTES), "rb", buffering=0)
        self._spec = replace(spec, waits_fd=self._waits.fileno())
        self._jobs = jobs
        self._events = events
        self._guard: Guard | None = None
        self._slots = [Slot(index) for index in range(1, processes + 1)]
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start every child; ChildFailed if the application cannot be imported there."""
        ends = await asyncio.gather(*map(self._start_child, self._slots), return_exceptions=True)
        for failure in filter(None, ends):  # only now: no start may outlast the close() that follows a failure
            raise failure
        self._keepers = [asyncio.create_task(self._keep(slot)) for slot in self._slots]

    @property
    def alive(self) -> list[Child]:
        return [slot.child for slot in self._slots if slot.child is not None and not slot.child.has_ended]

    async def renew(self, grace_s: float, on_loaded: Callable[[Child], Awaitable[None]]) -> None:
        """Replace every child by one that imports the changed application; ChildFailed if it cannot be imported.

        The first new one is started beside the others, which go on if it fails. Otherwise `on_loaded` gets it when the
        others take nothing more; they end after their tasks, which are interrupted after `grace_s`.
        """
        first = self._slots[0]
        first.next = await self._new_child(first)
        try:
            old = self.alive
            for slot in self._slots:
                slot.started.clear()
            for child in old:
                child.retire()
            await on_loaded(first.next)
            await asyncio.gather(*(self._retire(child, grace_s) for child in old))
            await asyncio.gather(*(slot.started.wait() for slot in self._slots))
        finally:
            if first.next is not None:
                await first.next.close(0.0)
                first.next = None

    async def close(self, grace_s: float) -> None:
        """End all children; tasks that still run are reported as lost with them."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*(child.close(grace_s) for child in self.alive))
        await asyncio.gather(*self._keepers, return_exceptions=True)
        if self._guard is not None:
            await self._guard.close()
        self._waits.close()

    async def _retire(self, child: Child, grace_s: float) -> None:
        closing = asyncio.create_task(child.close(grace_s + _INTERRUPTED_S))
        await asyncio.wait([closing], timeout=grace_s)
        if not closing.done():
            self._jobs.interrupt(child)
        await closing

    async def _keep(self, slot: Slot) -> None:
        """Start the next child each time one has ended; after a failure it is tried again, at growing intervals."""
        while True:
            if slot.child is not None:
                await slot.child.wait()
                slot.child = None
            await asyncio.sleep(_RESPAWN_PAUSE_S[min(slot.failures, len(_RESPAWN_PAUSE_S) - 1)])
            try:
                await self._start_child(slot)
            except (ChildFailed, OSError) as error:
                slot.failures += 1
                self._events.warn("child did not start", child=slot.index, error=str(error), failures=slot.failures)

    async def _start_child(self, slot: Slot) -> None:
        child, slot.next = slot.next, None
        if child is None or child.remaining == 0:
            child = await self._new_child(slot)
        slot.child, slot.failures = child, 0
        slot.started.set()
        self._jobs.joined(child)

    async def _new_child(self, slot: Slot) -> Child:
        if self._guard is None or self._guard.ended:
            self._guard = Guard(self._spec.terms, self._guard_ended)
        title = f"horsies: child {slot.index} of {self._spec.title}"
        spec = replace(self._spec, index=slot.index, title=title, log_level=self._events.child_level)
        return await Child.start(spec, self._guard, self._jobs)

    def _guard_ended(self, guard: Guard, returncode: int) -> None:
        """Kill its children, which on Linux the kernel has done already."""
        self._events.warn("guard exited", pid=guard.pid, returncode=returncode)
        for child in self.alive:
            if child.guard is guard:
                child.kill()
