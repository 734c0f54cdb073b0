"""When to ask again: never more often than it can be answered, and seldom when nothing has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The intervals of a feed in seconds."""

    tick_s: float = 0.25
    """Notifications are folded into one read per tick: 1 000 a second cost 4 reads."""
    poll_s: float = 2.0
    """Where the server tells nothing."""
    reconcile_s: float = 15.0
    """Even where it does: a notification may be lost, and a heartbeat sends none."""
    settle_s: float = 2.0
    """So long nobody must have moved before rows may change their places."""
    slow_factor: float = 5.0
    """A read that took a second is repeated every five."""


USUAL: Final = Rhythm()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer is waited for, in seconds."""

    slow_s: float = 1.0
    """From then on it is called slow, while it is still awaited."""
    statement_s: float = 2.0
    """Then the server itself gives up."""
    read_s: float = 3.0
    """A server that is frozen, or gone without a word, stops nothing by itself: then its connection is given up."""


PATIENT: Final = Patience()


class Pace:
    """When one kind of read is due. Times are given by the caller, from one clock that never jumps."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._began: float | None = None
        self._cost = 0.0
        self.dirty = True

    def mark(self) -> None:
        """Something may have changed."""
        self.dirty = True

    def renew(self) -> None:
        """It is due at once: something else is wanted, or how slow it was may be over."""
        self.dirty, self._cost, self._began = True, 0.0, None

    def begin(self, now: float) -> None:
        """It is being read; what changes from now on needs another read."""
        self._began, self.dirty = now, False

    def end(self, now: float, *, done: bool) -> None:
        """It was read, or given up, which leaves it to be done."""
        self._cost = 0.0 if self._began is None else now - self._began
        self.dirty = self.dirty or not done

    @property
    def earliest_at(self) -> float:
        """Before that it is not read again, whatever changes."""
        if self._began is None:
            return 0.0
        return self._began + max(self._rhythm.tick_s, self._cost * self._rhythm.slow_factor)

    def due_at(self, *, told: bool) -> float:
        """The moment of the next read; `told`: the server tells of changes."""
        if self.dirty or self._began is None:
            return self.earliest_at
        return max(self.earliest_at, self._began + (self._rhythm.reconcile_s if told else self._rhythm.poll_s))


class Rest:
    """Whether the operator has let go of the screen, so that rows may change their places."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._touched: float | None = None
        self.busy = False

    def touch(self, now: float) -> None:
        self._touched = now

    def begins_at(self) -> float | None:
        """From then on, if nobody moves; None while there are marks, or a sheet is open."""
        if self.busy:
            return None
        return 0.0 if self._touched is None else self._touched + self._settle_s

    def at(self, now: float) -> bool:
        begins = self.begins_at()
        return begins is not None and now >= begins
