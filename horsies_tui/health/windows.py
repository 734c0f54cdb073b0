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
    """`name` is the label, as shown on the screen."""

    name: str
    length: timedelta
    step: timedelta

    def buckets(self, now: datetime) -> Buckets:
        return Buckets.until(now, self.length, self.step)


WINDOWS: Final = (
    # Snapshots arrive every 5 s and a little more: with shorter buckets, some would have none.
    Window("5m", timedelta(minutes=5), timedelta(seconds=10)),
    Window("30m", timedelta(minutes=30), timedelta(seconds=30)),
    Window("1h", timedelta(hours=1), timedelta(minutes=1)),
    Window("6h", timedelta(hours=6), timedelta(minutes=4)),
    Window("24h", timedelta(hours=24), timedelta(minutes=15)),
)
USUAL: Final = WINDOWS[2]


def neighbour(window: Window, step: int) -> Window:
    """The next longer window (negative: shorter), or the same at either end."""
    return WINDOWS[min(max(WINDOWS.index(window) + step, 0), len(WINDOWS) - 1)]


def fitting(age: timedelta | None) -> Window:
    """The shortest window that shows all of so long a past, at most the usual one; None: there is no past yet."""
    if age is None:
        return USUAL
    return next((window for window in WINDOWS[: WINDOWS.index(USUAL)] if age <= window.length), USUAL)
