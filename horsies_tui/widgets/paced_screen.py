"""A screen that draws no faster than the terminal takes it: over a slow link, what was never seen is not drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

if TYPE_CHECKING:
    from textual.drivers._writer_thread import WriterThread

ResultT = TypeVar("ResultT")


class PacedScreen(Screen[ResultT]):
    """Textual queues thirty frames, then stops the loop until one is gone: 12 s of pages at 30 kB/s.

    Here a frame waits until the one before has left, and then shows how things are at that moment.
    """

    def _on_timer_update(self) -> None:
        writer: WriterThread | None = getattr(self.app._driver, "_writer_thread", None)  # noqa: SLF001
        if writer is None or writer._queue.empty():  # noqa: SLF001 - textual tells nobody how it stands
            super()._on_timer_update()
