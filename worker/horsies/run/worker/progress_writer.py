"""The progress of runs, from the memory of the children to the database: once a second, if there is any."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from horsies.domain.progress_pace import Pace
from horsies.lifecycle.claim_token import ProgressReport, store_progress
from horsies.run.loops import Wake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.domain.progress_pace import Reading
    from horsies.run.settings import Identity
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

_MOST_AT_ONCE: Final = 1_000
_PATIENCE_S: Final = 2.0
"""A thousand reports take 6 ms."""


class ProgressBook:
    """The reports of the runs of this worker, and which of them are not stored yet."""

    def __init__(self) -> None:
        self._running: dict[InFlightTask, tuple[Reading, Pace]] = {}
        self._changed: dict[InFlightTask, None] = {}
        self._last_words: list[ProgressReport] = []

    def heard(self, entry: InFlightTask, reading: Reading) -> None:
        """The last report of a run, the same one as before perhaps."""
        known, now = self._running.get(entry), time.monotonic()
        if known is None:
            pace = Pace(reading, now)
        elif reading != known[0]:
            pace = known[1]
            pace.moved(reading, now)
        else:
            return
        self._running[entry] = reading, pace
        self._changed[entry] = None

    def ended(self, entry: InFlightTask, *, accepted: bool) -> None:
        """The database has stored its outcome, or has told that the claim was no longer this worker's."""
        if entry in self._running:
            if entry in self._changed and accepted:
                self._last_words.append(self._report(entry, ended=True))
            del self._running[entry]
            self._changed.pop(entry, None)

    @contextmanager
    def to_store(self) -> Iterator[list[ProgressReport]]:
        """The reports that are not stored yet. After an error they are offered again, or newer ones of these runs."""
        words, changed = self._last_words, list(self._changed)
        self._last_words, self._changed = [], {}
        try:
            yield [*words, *(self._report(entry, ended=False) for entry in changed)]
        except BaseException:
            self._last_words = [*words, *self._last_words]
            self._changed = {entry: None for entry in (*changed, *self._changed) if entry in self._running}
            raise

    def _report(self, entry: InFlightTask, *, ended: bool) -> ProgressReport:
        reading, pace = self._running[entry]
        return ProgressReport(entry.task.token, reading, pace.rate, pace.gap_s, ended)


class ProgressWriter:
    """The loop that stores reports; not with the heartbeats, which come twice a minute and must not be held up."""

    name = "progress"
    interval_s = 1.0
    step_timeout_s = 20.0

    def __init__(self, identity: Identity, dedicated: DedicatedConnection, flow: TaskFlow) -> None:
        self.wake = Wake()
        self.dedicated = dedicated
        self._worker_id = identity.worker_id
        self._flow = flow

    async def step(self) -> None:
        for child in self._flow.children:
            child.read_progress()
        # The table of reports may be locked. No loop that shares this connection has to wait for that, and no claim.
        with suppress(TimeoutError), self._flow.progress.to_store() as reports:
            for begin in range(0, len(reports), _MOST_AT_ONCE):
                async with asyncio.timeout(_PATIENCE_S), self.dedicated.acquire() as connection:
                    await store_progress(connection, self._worker_id, reports[begin : begin + _MOST_AT_ONCE])
