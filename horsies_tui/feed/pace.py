"""The times of the next reads: never faster than the database answers, and rare when nothing has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The intervals of a feed in seconds."""

    tick_s: float = 0.25
    """Notifications are merged into one read per tick: 1,000 a second cost 4 reads."""
    poll_s: float = 2.0
    """The interval if the server sends no notifications."""
    reconcile_s: float = 15.0
    """The interval if it does: a notification may be lost, and a heartbeat sends none."""
    settle_s: float = 2.0
    """How long the operator must not have pressed a key before rows may change their places."""
    slow_factor: float = 5.0
    """A read that took a second is repeated every five."""
    grace_s: float | None = None
    """By how much a slow read may be put off until what is shown counts as old; None: for ever, it says so itself."""


USUAL: Final = Rhythm()
GRACE_S: Final = 3.0
"""The `grace_s` of what an operator takes for the present state: rows of lists, and what a verdict rests on."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of waiting for an answer, in seconds."""

    slow_s: float = 1.0
    """From then on the read is shown as slow, while it is still awaited."""
    statement_s: float = 2.0
    """Then the server cancels the statement."""
    read_s: float = 3.0
    """Then the connection is dropped: a server that is frozen or unreachable cancels nothing itself."""


PATIENT: Final = Patience()


class DataAge:
    """The time when the shown data were read, and since when there has been something newer."""

    def __init__(self) -> None:
        self.read_at: float | None = None
        """When the read began whose answer is shown; None: nothing is."""
        self._asked_at: float | None = None
        self._changed_at: float | None = None
        self._lacked_at: float | None = None
        """The first change before the read under way, which will have it if it is answered."""

    @property
    def changed_at(self) -> float | None:
        """The first change that is not shown."""
        return self._changed_at if self._lacked_at is None else self._lacked_at

    def mark(self, now: float) -> None:
        if self._changed_at is None:
            self._changed_at = now

    def begin(self, now: float) -> None:
        self._asked_at, self._lacked_at, self._changed_at = now, self.changed_at, None

    def end(self, *, done: bool) -> None:
        """The read that began last was answered, or not."""
        if done:
            self.read_at = self._asked_at
        else:
            self._changed_at = self.changed_at
        self._lacked_at = None


class ReadPace:
    """Decides when one kind of read is due. Callers pass times from one monotonic clock."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._began: float | None = None
        self._cost = 0.0
        self.dirty = True
        self.age = DataAge()
        """Of a read in parts: that of the part which is read now."""
        self.unanswered: set[int] = set()
        """The parts of a read in parts whose last read was given up: what is known of them is old."""
        self.often_s: float | None = None
        """The interval while something is shown that changes without a notification, as the progress of a task."""

    def mark(self, now: float) -> None:
        """Something may have changed."""
        self.age.mark(now)
        self.dirty = True

    def renew(self) -> None:
        """Make it due at once: the request has changed, or the operator asked for a retry after a slow read."""
        self.dirty, self._cost, self._began = True, 0.0, None

    def distrust(self) -> None:
        """What was read may have been old already: read all of it again."""
        self.renew()

    def begin(self, now: float) -> None:
        """A read begins; later changes need another read."""
        self._began, self.dirty = now, False
        self.age.begin(now)

    def end(self, now: float, *, done: bool, was_blocked: bool = False) -> None:
        """The read ended; `done` False: it was given up and is still due. `was_blocked`: it waited for a lock."""
        self._cost = 0.0 if self._began is None or was_blocked else now - self._began
        self.dirty = self.dirty or not done
        self.age.end(done=done)

    @property
    def earliest_at(self) -> float:
        """The next read starts no earlier than this, whatever changes."""
        if self._began is None:
            return 0.0
        return self._began + max(self._rhythm.tick_s, self._cost * self._rhythm.slow_factor)

    def due_at(self, *, told: bool) -> float:
        """The time of the next read; `told`: the server sends notifications."""
        if self.dirty or self._began is None:
            return self.earliest_at
        return max(self.earliest_at, self._began + self._interval_s(told=told))

    def is_overdue(self, now: float, *, told: bool) -> bool:
        """Return whether a read, delayed because reads are slow, is later than the shown data may be old."""
        return self._is_too_old(self.age, now, told=told)

    def _is_too_old(self, age: DataAge, now: float, *, told: bool) -> bool:
        if age.read_at is None or self._rhythm.grace_s is None:
            return False
        due = age.read_at + self._interval_s(told=told)
        if age.changed_at is not None:
            due = min(due, max(age.read_at + self._rhythm.tick_s, age.changed_at))
        return now > due + self._rhythm.grace_s

    def _interval_s(self, *, told: bool) -> float:
        interval_s = self._rhythm.reconcile_s if told else self._rhythm.poll_s
        return min(interval_s, self.often_s or interval_s)


class OperatorIdle:
    """Decides whether the operator has been idle long enough for rows to change their places."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._touched: float | None = None
        self.busy = False

    def touch(self, now: float) -> None:
        self._touched = now

    def begins_at(self) -> float | None:
        """Return when rows may move if the operator stays idle; None while rows are marked or a sheet is open."""
        if self.busy:
            return None
        return 0.0 if self._touched is None else self._touched + self._settle_s

    def at(self, now: float) -> bool:
        begins = self.begins_at()
        return begins is not None and now >= begins
