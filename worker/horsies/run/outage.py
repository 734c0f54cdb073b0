"""After the database could not be reached or written: first outcomes and beats, then new claims."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._look: Callable[[], None] = lambda: None
        self._on_over: Callable[[], None] = lambda: None
        self.holds_back = False
        """Whether new claims and starts have to wait."""

    def watch(self, has_ended: Callable[[float], bool], look: Callable[[], None], on_over: Callable[[], None]) -> None:
        """`has_ended`: whether an outcome from before a moment still waits. `look`: beat for all runs now."""
        self._has_ended, self._look, self._on_over = has_ended, look, on_over

    def noticed(self) -> None:
        """The step of a loop has failed with a transient error."""
        self._noticed = self._clock()
        self.holds_back = True
        self._look()

    def through(self, loop: str, began: float) -> None:
        """The step of a loop that began then has succeeded."""
        if loop == BEATS and began >= self._noticed:
            self._beaten = began
        if self.holds_back and self._beaten >= self._noticed and not self._has_ended(self._noticed):
            self.holds_back = False
            self._on_over()
