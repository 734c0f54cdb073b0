"""The process behind the demo: it starts the server, the workers and the customers, and removes everything.

Run as `python -m horsies.demo.stage DIRECTORY KEEP PROCESSES` with HORSIES_DATABASE_URL set. It runs until its stdin is
closed, which the kernel does however the demo dies, in a session of its own, so that ctrl+c in the terminal does not
reach it. It writes one JSON object a line to stdout: `{"ready": …}` or `{"failed": …}` first, then `{"said": …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from setproctitle import setproctitle

from horsies.config.url import DatabaseUrl
from horsies.demo import opening
from horsies.demo.customers import Customers
from horsies.demo.shop import app
from horsies.demo.story import Story
from horsies.domain.errors import HorsiesError
from horsies.store.connect import Database
from horsies.store.embedded import EmbeddedPlace, acquire
from horsies.store.schema import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.store.embedded import EmbeddedServer


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
        """End a worker with this signal, and start its replacement."""
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


def main() -> None:
    directory, keep, processes = Path(sys.argv[1]), sys.argv[2] == "keep", int(sys.argv[3])
    setproctitle(f"horsies: demo in {directory}")
    try:
        server = acquire(EmbeddedPlace(directory))
    except HorsiesError as error:
        _say(failed={"message": error.message, "help": error.help_text, "notes": error.notes})
        opening.remove(directory)
        return
    try:
        asyncio.run(_play(server, processes, keep=keep))
    finally:
        opening.vacate(server, keep=keep)


async def _play(server: EmbeddedServer, processes: int, *, keep: bool) -> None:
    began = time.monotonic()
    over = asyncio.create_task(_until_over())
    database = Database(DatabaseUrl.parse(server.url), "of the demo", server)
    async with database.connected("demo") as connection:
        await create(connection)
    directory = server.place.root

    def tell(text: str) -> None:
        _say(said=text, at_s=round(time.monotonic() - began, 1))

    crew, customers = Crew(directory, tell), Customers()
    story = Story(database, crew, customers, tell)
    playing: list[asyncio.Task[Any]] = []
    try:
        _say(ready=str(directory))
        await story.open(processes)
        playing = [asyncio.create_task(story.play()), asyncio.create_task(customers.shop())]
        ended, _ = await asyncio.wait([over, *playing], return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()  # none but `over` ends by itself: raise the exception of any other
    finally:
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await app.get_broker().close_async()
        await crew.close(cleanly=keep)


async def _until_over() -> None:
    """Wait until the other end of stdin is closed, or this process gets a signal to end."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def look() -> None:
        if not os.read(0, 1024):
            loop.remove_reader(0)
            over.set()

    loop.add_reader(0, look)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    await over.wait()


def _say(**words: Any) -> None:
    with suppress(OSError):  # the reader may have ended
        sys.stdout.write(json.dumps(words) + "\n")  # noqa: TID251 - for the command that has started this
        sys.stdout.flush()


if __name__ == "__main__":
    main()
