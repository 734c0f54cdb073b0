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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setproctitle import setproctitle

from horsies.config.url import DatabaseUrl
from horsies.demo import opening
from horsies.demo.crew import Crew
from horsies.demo.customers import Customers
from horsies.demo.shop import app
from horsies.demo.story import Story
from horsies.domain.errors import HorsiesError
from horsies.store.connect import Database
from horsies.store.embedded import EmbeddedPlace, acquire
from horsies.store.schema import create

if TYPE_CHECKING:
    from horsies.store.embedded import EmbeddedServer


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
