"""The title that `ps` shows for a child: its jobs, once they run for longer than a moment."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from horsies.run.contract import task_id_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

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
