"""A screen that draws no faster than the terminal reads: over a slow link, outdated frames are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

if TYPE_CHECKING:
    from textual.drivers._writer_thread import WriterThread

ResultT = TypeVar("ResultT")


class PacedScreen(Screen[ResultT]):
    """Textual queues thirty frames, then blocks the loop until one is written: 12 s of pages at 30 kB/s.

    Here a frame waits until the previous one is written, and then shows the current state.
    """

    def _on_timer_update(self) -> None:
        writer: WriterThread | None = getattr(self.app._driver, "_writer_thread", None)  # noqa: SLF001
        if writer is None or writer._queue.empty():  # noqa: SLF001 - textual has no public way to ask
            super()._on_timer_update()
