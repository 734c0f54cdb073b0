"""The tasks in flight in this worker with the stage and progress of each, and the last ones that were."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from horsies.domain.progress_pace import Pace
from horsies.lifecycle.claim_token import ProgressReport
from horsies.lifecycle.finishing import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from horsies.domain.progress_pace import Reading
    from horsies.lifecycle.claim_token import Token
    from horsies.lifecycle.claiming import ClaimedTask
    from horsies.lifecycle.finishing import Outcome
    from horsies.run.contract import Job
    from horsies.run.metrics.exposition import TaskSeries
    from horsies.run.pool.child import Child


MOST = 20_000
"""At 2 000 tasks a second the last 10 s; about 8 MB."""
MOST_RESULT_CHARS = 16_000_000


_Key: TypeAlias = "tuple[str, datetime]"


def _key(token: Token) -> _Key:
    """Return the key of a token of this worker; a tuple is found five times as fast."""
    return token.task_id, token.claimed_at


class RecentOutcomes:
    """Bounded: of older ones only the token is kept, and of the oldest only the time up to which claims were forgotten.

    So a task that has run is never taken for a claim whose user code was not called.
    """

    def __init__(self, most: int = MOST, most_chars: int = MOST_RESULT_CHARS) -> None:
        self._most = most
        self._most_chars = most_chars
        # Ordered, because finding the first key of a plain dict passes over all keys deleted before it.
        self._ran: OrderedDict[_Key, None] = OrderedDict()
        self._outcomes: OrderedDict[_Key, Outcome] = OrderedDict()
        self._chars = 0
        self._forgotten_until: datetime | None = None

    def add(self, outcome: Outcome) -> None:
        """Forget a task: the database has stored its outcome, or has reported its token as stale."""
        if outcome.kind is OutcomeKind.NOT_BEGUN:
            return
        key = _key(outcome.token)
        if key in self._ran:  # stored a second time
            self._drop(key)
            del self._ran[key]
        self._ran[key] = None
        self._outcomes[key] = outcome
        self._chars += len(outcome.result_json or "")
        while self._chars > self._most_chars:
            self._drop(next(iter(self._outcomes)))
        if len(self._ran) > self._most:
            oldest, _ = self._ran.popitem(last=False)
            self._drop(oldest)
            self._forgotten_until = max(self._forgotten_until or oldest[1], oldest[1])

    def has_run(self, token: Token) -> bool:
        """Return whether its user code has begun, or may have."""
        forgotten = self._forgotten_until is not None and token.claimed_at <= self._forgotten_until
        return forgotten or _key(token) in self._ran

    def outcome(self, token: Token) -> Outcome | None:
        """Return its outcome; None if that is no longer known."""
        return self._outcomes.get(_key(token))

    def _drop(self, key: _Key) -> None:
        outcome = self._outcomes.pop(key, None)
        if outcome is not None:
            self._chars -= len(outcome.result_json or "")


class Stage(IntEnum):
    """FINISHING: its outcome waits to be stored. STORING: it is being stored, or the database has rejected it.

    Numbers, because they are counted ten times for a task, and the hash of another member is computed in Python.
    """

    CLAIMED = 1
    RUNNING = 2
    FINISHING = 3
    STORING = 4


@dataclass(slots=True, eq=False)
class InFlightTask:
    """A claimed task of this worker."""

    task: ClaimedTask
    is_async: bool
    timeout_ms: int | None
    requeue_on_interrupt: bool
    stage: Stage = Stage.CLAIMED
    child: Child | None = None
    since: float = field(default_factory=time.monotonic)
    large_arguments: tuple[str | None, str | None] | None = None
    job: Job | None = None
    confirmed_at: int = 0
    """Time, by `guard.clock`, at which a statement was sent that the database has confirmed and that shows it alive."""
    interrupted: bool = False
    """The shutdown has asked its child to stop it: if the child dies of that, it was no crash."""
    series: TaskSeries | None = None
    """The series that count its run, if this worker is scraped."""

    def confirm(self, sent_at: int) -> None:
        """Count its lease from a statement, sent at that time, that has shown the run alive."""
        self.confirmed_at = max(self.confirmed_at, sent_at)
        if self.child is not None and self.job is not None:
            self.child.confirm(self.job.key, self.confirmed_at)

    @property
    def task_id(self) -> str:
        return self.task.token.task_id


class InFlightTasks:
    """All tasks in flight by token, and the number of each kind in each stage.

    Not by id: while an old claim that expired in a stall is still executed, the same task may be claimed again.
    """

    def __init__(self) -> None:
        self._by_token: dict[Token, InFlightTask] = {}
        self._counts: dict[tuple[Stage, bool], int] = {(stage, kind): 0 for stage in Stage for kind in (False, True)}
        self.recent = RecentOutcomes()
        """Tasks that are no longer in flight."""

    def add(self, entry: InFlightTask) -> None:
        self._by_token[entry.task.token] = entry
        self._counts[entry.stage, entry.is_async] += 1

    def move(self, entry: InFlightTask, stage: Stage) -> None:
        self._counts[entry.stage, entry.is_async] -= 1
        self._counts[stage, entry.is_async] += 1
        entry.stage = stage

    def drop(self, entry: InFlightTask) -> None:
        del self._by_token[entry.task.token]
        self._counts[entry.stage, entry.is_async] -= 1

    def get(self, token: Token) -> InFlightTask | None:
        return self._by_token.get(token)

    def occupied(self, *, is_async: bool) -> int:
        """Return how much of the capacity is in use.

        It includes outcomes that wait to be stored: if the database stores more slowly than the children produce, the
        worker would otherwise go on claiming, and hold ever more results in memory.
        """
        return sum(self._counts[stage, is_async] for stage in (Stage.CLAIMED, Stage.RUNNING, Stage.FINISHING))

    def waiting(self, *, is_async: bool) -> int:
        return self._counts[Stage.CLAIMED, is_async]

    def tokens(self) -> list[Token]:
        return list(self._by_token)

    def count(self, stage: Stage) -> int:
        return self._counts[stage, False] + self._counts[stage, True]

    def at(self, stage: Stage) -> list[InFlightTask]:
        return [entry for entry in self._by_token.values() if entry.stage is stage]

    def __len__(self) -> int:
        return len(self._by_token)


class ProgressBook:
    """The reports of the runs of this worker, and which of them are not stored yet."""

    def __init__(self) -> None:
        self._running: dict[InFlightTask, tuple[Reading, Pace]] = {}
        self._changed: dict[InFlightTask, None] = {}
        self._final_reports: list[ProgressReport] = []

    def add(self, entry: InFlightTask, reading: Reading) -> None:
        """Take the last report of a run, the same one as before perhaps."""
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
        """Forget a run: its outcome is stored, or the claim is no longer this worker's."""
        if entry in self._running:
            if entry in self._changed and accepted:
                self._final_reports.append(self._report(entry, ended=True))
            del self._running[entry]
            self._changed.pop(entry, None)

    @contextmanager
    def to_store(self) -> Iterator[list[ProgressReport]]:
        """Yield the reports that are not stored yet. After an error they are offered again, or newer ones."""
        words, changed = self._final_reports, list(self._changed)
        self._final_reports, self._changed = [], {}
        try:
            yield [*words, *(self._report(entry, ended=False) for entry in changed)]
        except BaseException:
            self._final_reports = [*words, *self._final_reports]
            self._changed = {entry: None for entry in (*changed, *self._changed) if entry in self._running}
            raise

    def _report(self, entry: InFlightTask, *, ended: bool) -> ProgressReport:
        reading, pace = self._running[entry]
        return ProgressReport(entry.task.token, reading, pace.rate, pace.gap_s, ended)
