"""Computes the times of the next reads: no faster than the database answers, and seldom without changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The intervals of a feed, in seconds."""

    tick_s: float = 0.25
    """Interval in which notifications are merged into one read: 1,000 per second cause 4 reads."""
    poll_s: float = 2.0
    """Interval of reads if the server sends no notifications."""
    reconcile_s: float = 15.0
    """Interval of reads if it does, because notifications may be lost and heartbeats send none."""
    settle_s: float = 2.0
    """How long after the operator's last key rows may change places."""
    slow_factor: float = 5.0
    """Interval of a slow read as a multiple of its duration."""
    grace_s: float | None = None
    """Delay of a slow read after which its data are outdated; None if the screen shows their time itself."""


USUAL: Final = Rhythm()
GRACE_S: Final = 3.0
"""The `grace_s` of data that operators take for the present state: rows of lists, and those of the verdict."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits for an answer, in seconds."""

    slow_s: float = 1.0
    """Time from which a read is shown as slow."""
    statement_s: float = 2.0
    """Time after which the server cancels the statement."""
    read_s: float = 3.0
    """Time after which the connection is dropped, since a frozen or unreachable server does not cancel statements."""


PATIENT: Final = Patience()


class DataAge:
    """The time at which the shown data were read, and of the first newer change."""

    def __init__(self) -> None:
        self.read_at: float | None = None
        """Start of the read whose answer is shown; None without an answer."""
        self._asked_at: float | None = None
        self._changed_at: float | None = None
        self._lacked_at: float | None = None
        """The first change before the running read, whose answer will include it."""

    @property
    def changed_at(self) -> float | None:
        """Return the time of the first change that is not shown."""
        return self._changed_at if self._lacked_at is None else self._lacked_at

    def mark(self, now: float) -> None:
        if self._changed_at is None:
            self._changed_at = now

    def begin(self, now: float) -> None:
        self._asked_at, self._lacked_at, self._changed_at = now, self.changed_at, None

    def end(self, *, done: bool) -> None:
        """Note whether the running read was answered."""
        if done:
            self.read_at = self._asked_at
        else:
            self._changed_at = self.changed_at
        self._lacked_at = None


class ReadPace:
    """Decides when one kind of read is due. All times are from one monotonic clock."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._began: float | None = None
        self._cost = 0.0
        self.dirty = True
        self.age = DataAge()
        """Age of the data; for a read in parts, of the part that is being read."""
        self.unanswered: set[int] = set()
        """Parts whose last read was not answered, so that their data are outdated."""
        self.often_s: float | None = None
        """Interval while the screen shows data that change without notifications, such as the progress of a task."""

    def mark(self, now: float) -> None:
        """Note that the data may have changed."""
        self.age.mark(now)
        self.dirty = True

    def renew(self) -> None:
        """Make the read due at once, because the request has changed or the operator asked for a retry."""
        self.dirty, self._cost, self._began = True, 0.0, None

    def distrust(self) -> None:
        """Read all data again, because they may have been outdated when they were read."""
        self.renew()

    def begin(self, now: float) -> None:
        """Note the start of a read. Later changes need another read."""
        self._began, self.dirty = now, False
        self.age.begin(now)

    def end(self, now: float, *, done: bool, was_blocked: bool = False) -> None:
        """Note the end of a read. Unless `done`, it is still due. It `was_blocked` if it waited for a lock."""
        self._cost = 0.0 if self._began is None or was_blocked else now - self._began
        self.dirty = self.dirty or not done
        self.age.end(done=done)

    @property
    def earliest_at(self) -> float:
        """Return the earliest time of the next read, even after changes."""
        if self._began is None:
            return 0.0
        return self._began + max(self._rhythm.tick_s, self._cost * self._rhythm.slow_factor)

    def due_at(self, *, told: bool) -> float:
        """Return the time of the next read. The server sends notifications if `told`."""
        if self.dirty or self._began is None:
            return self.earliest_at
        return max(self.earliest_at, self._began + self._interval_s(told=told))

    def is_overdue(self, now: float, *, told: bool) -> bool:
        """Return whether the next read is delayed by slow reads beyond the allowed age of the data."""
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
    """Decides whether the operator has been idle long enough for rows to change places."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._touched: float | None = None
        self.busy = False

    def touch(self, now: float) -> None:
        self._touched = now

    def begins_at(self) -> float | None:
        """Return the time from which rows may move; None while rows are marked or a sheet is open."""
        if self.busy:
            return None
        return 0.0 if self._touched is None else self._touched + self._settle_s

    def at(self, now: float) -> bool:
        begins = self.begins_at()
        return begins is not None and now >= begins
