"""One live line below the log of a worker that runs in a terminal."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from horsies.domain.plain_text import clean
from horsies.run.worker.in_flight import Stage

if TYPE_CHECKING:
    from horsies.run.worker.worker import Worker

_REDRAW_S = 1.0
_CLEAR = "\r\x1b[2K"


class StatusLine(logging.StreamHandler[TextIO]):
    """A log handler that keeps its last line: log records appear above it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if self._text:
            self._write(_CLEAR)
        super().emit(record)
        self._write(self._text)

    def show(self, text: str) -> None:
        self._text = clean(text)[: shutil.get_terminal_size().columns - 1]
        self._write(_CLEAR + self._text)

    def clear(self) -> None:
        self._text = ""
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed: that must not keep the worker from its stop
            self.stream.write(text)
            self.stream.flush()


async def keep_up_to_date(line: StatusLine, worker: Worker) -> None:
    """Redraw once a second until cancelled."""
    finished, failed, then = worker.events.finished, worker.events.failed, time.monotonic()
    try:
        while True:
            await asyncio.sleep(_REDRAW_S)
            now, events = time.monotonic(), worker.events
            rate, bad = (events.finished - finished) / (now - then), (events.failed - failed) / (now - then)
            finished, failed, then = events.finished, events.failed, now
            state = "draining  " if worker.claimer.draining else ""
            state += "".join(f"stuck: {name} {since:.0f}s  " for name, since in worker.stuck.items())
            line.show(
                f"{state}running {worker.flow.tasks.count(Stage.RUNNING)}  "
                f"claimed {worker.flow.tasks.count(Stage.CLAIMED)}  "
                f"done {rate:.0f}/s ({events.finished})  failed {bad:.0f}/s ({events.failed})  "
                f"memory {worker.snapshots.memory_mb:.0f} MB"
            )
    finally:
        line.clear()
