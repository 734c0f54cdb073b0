"""When the database could not be reached: nobody could beat then, so who was silent need not be dead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.config.resilience import WorkerResilienceConfig


class Outage:
    """The last one, as far as this worker has noticed. Others wait as long as it does between two tries to connect."""

    def __init__(self, resilience: WorkerResilienceConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_wait_s = 1.25 * resilience.db_retry_max_ms / 1000
        self._clock = clock
        self._began = self._seen = float("-inf")

    def noticed(self) -> None:
        """A connection could not be made."""
        now = self._clock()
        if now - self._seen > 2 * self._longest_wait_s:
            self._began = now
        self._seen = now

    def excuses(self, silence_s: float, beat_s: float) -> bool:
        """Whether one that lives may have been silent for so long: it had no database, and is going to beat soon."""
        patience_s = self._longest_wait_s + beat_s
        return self._clock() - self._seen < patience_s and self._seen - self._began + patience_s > silence_s
