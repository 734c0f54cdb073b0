"""The progress of a run: the valid part of a report, and its speed."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MOST: Final = 1e15
"""Larger numbers are stored as this one; up to here a float has no gaps between whole numbers."""
LONGEST_UNIT: Final = 24
_MEMORY_S: Final = 20.0
"""The pace is that of about this time; a run that changes less often has the pace of its last change."""


class Reading(NamedTuple):
    """A report that is fit to be stored and shown. `total` None: unknown."""

    done: float
    total: float | None
    unit: str | None


def reading_of(done: float, total: float, unit: bytes) -> Reading | None:
    """Return the valid part of a report; None if `done` is no number.

    A negative `done` is 0. A total that is not above 0 and finite is none. Characters that would act on a terminal are
    left out of the unit, and what is too long is cut off.
    """
    if not math.isfinite(done):
        return None
    text = "".join(filter(str.isprintable, unit.decode("utf-8", "ignore"))).strip()
    return Reading(
        min(max(done, 0.0), MOST),
        min(total, MOST) if math.isfinite(total) and total > 0 else None,
        text[:LONGEST_UNIT] or None,
    )


class Pace:
    """The speed of a run per second, and the usual time between two changes. Times are in seconds, from any clock."""

    __slots__ = ("_at", "_done", "_unit", "gap_s", "rate")
    rate: float | None
    gap_s: float | None
    _done: float
    _unit: str | None
    _at: float

    def __init__(self, reading: Reading, at: float) -> None:
        self._begin(reading, at)

    def moved(self, reading: Reading, at: float) -> None:
        """Add a report; a run that has gone back, or now counts something else, is measured from here."""
        step, passed_s = reading.done - self._done, at - self._at
        if step < 0 or reading.unit != self._unit:
            self._begin(reading, at)
        elif step > 0 and passed_s > 0:
            weight = 1 - math.exp(-passed_s / _MEMORY_S)
            self.rate = _mixed(self.rate, step / passed_s, weight)
            self.gap_s = _mixed(self.gap_s, passed_s, weight)
            self._done, self._at = reading.done, at

    def _begin(self, reading: Reading, at: float) -> None:
        self._done, self._unit, self._at = reading.done, reading.unit, at
        self.rate = self.gap_s = None


def _mixed(old: float | None, new: float, weight: float) -> float:
    return new if old is None else old + weight * (new - old)
