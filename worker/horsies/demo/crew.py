"""The worker processes of the demo."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_APP: Final = "horsies.demo.shop:app"
_AGAIN_AFTER_S: Final = 2.0
_GRACE_S: Final = 1.5
_TIMEOUT_S: Final = 15.0


class Crew:
    """The worker processes. One that ends unexpectedly is replaced; none outlives this process: the kernel ends it."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        self._workers: dict[str, tuple[asyncio.subprocess.Process, int]] = {}
        """Those that should run, with their numbers of child processes."""
        self._watchers: set[asyncio.Task[None]] = set()

    def pid_of(self, name: str) -> int:
        return self._workers[name][0].pid

    async def start(self, name: str, processes: int) -> None:
        """Start a worker, from the main thread only: to the kernel, the starting thread is the parent."""
        tied_to_us = [sys.executable, "-P", "-m", "horsies.run.die_with_parent", str(os.getpid())]
        worker = [sys.executable, "-P", "-m", "horsies", "worker", _APP, "--processes", str(processes)]
        options = ["--shutdown-grace", str(_GRACE_S), "--loglevel", "WARNING", "--with-scheduler"]
        with (self._directory / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*tied_to_us, *worker, *options),
                cwd=self._directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._workers[name] = process, processes
        watcher = asyncio.create_task(self._watch(name, process))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def replace(self, name: str, number: signal.Signals) -> None:
        """End a worker with this signal, and start its replacement."""
        process, processes = self._workers.pop(name)
        await _end(process, number)
        await self.start(name, processes)

    async def close(self, *, cleanly: bool) -> None:
        workers, self._workers = self._workers, {}
        number = signal.SIGTERM if cleanly else signal.SIGKILL
        await asyncio.gather(*(_end(process, number) for process, _ in workers.values()))

    async def _watch(self, name: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        expected, processes = self._workers.get(name, (None, 0))
        if process is expected:
            self._say(f"{name} ended with {code}, unexpectedly; another takes its place")
            await asyncio.sleep(_AGAIN_AFTER_S)
            if name in self._workers:  # the demo may have been closed
                await self.start(name, processes)


async def _end(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send the signal, and wait until the process has exited."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), _TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
