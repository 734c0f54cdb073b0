"""The time windows of the charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.views import Buckets

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Window:
    """A time window; `name` is its label on the screen."""

    name: str
    length: timedelta
    step: timedelta

    def buckets(self, now: datetime) -> Buckets:
        return Buckets.until(now, self.length, self.step)


WINDOWS: Final = (
    # Snapshots arrive slightly more than 5 s apart, so shorter buckets might contain none.
    Window("5m", timedelta(minutes=5), timedelta(seconds=10)),
    Window("30m", timedelta(minutes=30), timedelta(seconds=30)),
    Window("1h", timedelta(hours=1), timedelta(minutes=1)),
    Window("6h", timedelta(hours=6), timedelta(minutes=4)),
    Window("24h", timedelta(hours=24), timedelta(minutes=15)),
)
USUAL: Final = WINDOWS[2]


def neighbour(window: Window, step: int) -> Window:
    """Return the next longer window (negative: shorter), or the same one at the end."""
    return WINDOWS[min(max(WINDOWS.index(window) + step, 0), len(WINDOWS) - 1)]


def fitting(age: timedelta | None) -> Window:
    """Return the shortest window that covers data of this age, at most the usual one; None for no data."""
    if age is None:
        return USUAL
    return next((window for window in WINDOWS[: WINDOWS.index(USUAL)] if age <= window.length), USUAL)
