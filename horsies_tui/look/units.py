"""Durations, counts, sizes and times as short texts. A damaged time is shown as stored."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, Final

from horsies.domain.damage import DamagedTime
from horsies.domain.quantities import span

if TYPE_CHECKING:
    from datetime import datetime, timedelta, tzinfo


LENGTH_WIDTH: Final = 5
"""Maximum width of a duration, exact or ticking, below 10,000 days."""
AGE_WIDTH: Final = 4

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400
_SCALES: Final = ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T"))
_TICK_S: Final = 10
"""Step of a running duration above a minute: every second, 40 rows would send 4 kB/s over SSH."""


def length(span: timedelta | None) -> str:
    """Format a final duration: 8ms, 0.4s, 58.9s, 6m12s, 14m, 3h05m, 14h, 2d4h, 12d; None is empty."""
    if span is None:
        return ""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 0.1:
        return f"{int(seconds * 1000)}ms"
    if seconds < _MINUTE:
        return f"{int(seconds * 10) / 10:.1f}s"
    return _minutes(int(seconds))


def ticking(span: timedelta | None) -> str:
    """Format a changing duration: whole seconds below a minute, then steps of ten; None is empty."""
    if span is None:
        return ""
    seconds = max(int(span.total_seconds()), 0)
    return f"{seconds}s" if seconds < _MINUTE else _minutes(seconds // _TICK_S * _TICK_S)


def age(span: timedelta | None) -> str:
    """Format a duration with one unit, for comparison: 4s, 12m, 3h, 20d; None is empty."""
    if span is None:
        return ""
    seconds = max(int(span.total_seconds()), 0)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _minutes(seconds: int) -> str:
    """Format minutes and hours. The second unit is shown only if the first has one digit, so that five characters
    suffice.
    """
    for size, unit, below, below_unit in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "m"), (_MINUTE, "m", 1, "s")):
        whole, rest = divmod(seconds, size)
        if whole >= 10:
            return f"{whole}{unit}"
        if whole:
            return f"{whole}{unit}{rest // below:{'' if unit == 'd' else '02'}}{below_unit}"
    return f"{seconds}s"


def number(count: int) -> str:
    """Format all digits in groups: 1,204."""
    return f"{count:,}"


def count(count: int, *, at_least: bool = False) -> str:
    """Format a rounded number: 218, 9,999, 12 k, 1.2 M, 34 G. `at_least` adds a plus."""
    return _scaled(count) + ("+" if at_least else "")


def per_second(rate: float) -> str:
    """Format a rate: 0, <.01, 0.07, 12.1, 140."""
    if rate <= 0:
        return "0"
    if rate < 0.01:
        return "<.01"
    return f"{rate:.2f}" if rate < 1 else f"{rate:.1f}" if rate < 100 else count(int(rate))


def size(count: int | None) -> str:
    """Format bytes: 512 B, 1.5 kB, 412 MB; None is empty."""
    if count is None:
        return ""
    if count < 1000:
        return f"{count} B"
    return _scaled(count, exact_below=1000) + "B"


def _scaled(count: int, *, exact_below: int = 10_000) -> str:
    """Format a number rounded down, so that the text never exceeds it."""
    if count < exact_below:
        return number(count)
    scale, unit = next((known for known in _SCALES if count < 1000 * known[0]), _SCALES[-1])
    tenths = count * 10 // scale
    return f"{tenths / 10:.1f} {unit}" if tenths < 100 else f"{number(tenths // 10)} {unit}"


def zone_of(*, utc: bool) -> tzinfo | None:
    """Return the `zone` argument of the other functions; None is the machine's own zone."""
    return UTC if utc else None


def time_of_day(moment: datetime | None, zone: tzinfo | None = UTC) -> str:
    """Format a time as `12:04:31Z`, or in a local zone `14:04:31+02`; None is empty."""
    if moment is None:
        return ""
    if isinstance(moment, DamagedTime):
        return moment.stored
    there = moment.astimezone(zone)
    return f"{there:%H:%M:%S}{_offset(there)}"


def date_and_time(moment: datetime | None, zone: tzinfo | None = UTC) -> str:
    """Format a time as `2026-11-17 12:04:31Z`; None is empty."""
    if moment is None:
        return ""
    if isinstance(moment, DamagedTime):
        return moment.stored
    return f"{moment.astimezone(zone):%Y-%m-%d} {time_of_day(moment, zone)}"


def moment_text(moment: datetime | None, now: datetime, zone: tzinfo | None = UTC) -> str:
    """Format the time of day, with the date unless it is that of `now`; None is empty."""
    if moment is None:
        return ""
    if moment.astimezone(zone).date() == now.astimezone(zone).date():
        return time_of_day(moment, zone)
    return date_and_time(moment, zone)


def clock_text(moment: datetime, zone: tzinfo | None = UTC, *, seconds: bool = True, day: str = "%a %d %b") -> str:
    """Format a time as `Tue 17 Nov 12:04:31Z`, for moments that are days apart; `day` is the date's format."""
    if isinstance(moment, DamagedTime):
        return moment.stored
    there = moment.astimezone(zone)
    of_day = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
    return (f"{there:{day}} " if day else "") + of_day + _offset(there)


def _offset(there: datetime) -> str:
    """Format a zone's offset: Z, +02, +0530."""
    text = f"{there:%z}"
    return "Z" if text.startswith("+0000") else text[:3] + text[3:5].replace("00", "")


_WITH_SECONDS: Final = re.compile(r"\b(\d+m)\d\ds\b")


def lasting(seconds: float) -> str:
    """Format a duration with up to two units: 4s, 2m, 3h05m, 2d3h."""
    return whole_minutes(span(seconds))


def whole_minutes(words: str) -> str:
    """Return the text of a time without seconds; the recovery report has its times to the second."""
    return _WITH_SECONDS.sub(r"\1", words)
