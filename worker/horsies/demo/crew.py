"""The shop's workers: real `horsies worker` processes, some of which crash."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_APP: Final = "horsies.demo.shop:app"
_AGAIN_AFTER_S: Final = 2.0
_GRACE_S: Final = 1.5
_TIMEOUT_S: Final = 15.0


@dataclass(slots=True)
class Member:
    """One worker process. `dismissed`: its end is intended."""

    name: str
    processes: int
    process: asyncio.subprocess.Process
    dismissed: bool = False


class Crew:
    """A worker that ends unexpectedly is replaced. None outlives this process: the kernel ensures that."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        self._members: dict[str, Member] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._closing = False

    def pid_of(self, name: str) -> int:
        return self._members[name].process.pid

    async def start(self, name: str, processes: int) -> None:
        """Start a worker, from the main thread only: to the kernel, the starting thread is the parent."""
        with (self._directory / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *_command(processes),
                cwd=self._directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        member = self._members[name] = Member(name, processes, process)
        watcher = asyncio.create_task(self._watch(member))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def replace(self, name: str, number: signal.Signals) -> None:
        """End a worker with this signal, and start another one in its place."""
        member = self._members[name]
        await _end(member, number)
        await self.start(name, member.processes)

    async def close(self, *, cleanly: bool) -> None:
        self._closing = True
        number = signal.SIGTERM if cleanly else signal.SIGKILL
        await asyncio.gather(*(_end(member, number) for member in self._members.values()))

    async def _watch(self, member: Member) -> None:
        code = await member.process.wait()
        if member.dismissed or self._closing:
            return
        self._say(f"{member.name} ended with {code}, unexpectedly; another takes its place")
        await asyncio.sleep(_AGAIN_AFTER_S)
        if not self._closing:
            await self.start(member.name, member.processes)


async def _end(member: Member, number: signal.Signals) -> None:
    """Send the signal, and wait until the process has exited."""
    member.dismissed = True
    with suppress(ProcessLookupError):
        member.process.send_signal(number)
        try:
            await asyncio.wait_for(member.process.wait(), _TIMEOUT_S)
        except TimeoutError:
            member.process.kill()
            await member.process.wait()


def _command(processes: int) -> list[str]:
    leash = [sys.executable, "-P", "-m", "horsies.run.die_with_parent", str(os.getpid())]
    worker = [sys.executable, "-P", "-m", "horsies", "worker", _APP]
    options = ["--processes", str(processes), "--shutdown-grace", str(_GRACE_S), "--loglevel", "WARNING"]
    options.append("--with-scheduler")
    return [*leash, *worker, *options]
