"""Times to come, as an operator types them: `10m`, `03:00`, `2026-11-20T03:00`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from horsies.query.problems import UnreadableValue
from horsies.query.values import LONGEST, read_duration, read_moment

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?z?")


def read_delay(text: str, now: datetime) -> datetime:
    """Unreadable if the text is not a duration."""
    return now + timedelta(microseconds=read_duration(text.strip().lower()))


def read_ahead(text: str, now: datetime) -> datetime:
    """A time after `now`, in UTC if no zone is given; a time of day means the next one. Unreadable if it is none."""
    text = text.strip().lower()
    at = _next(clock, now) if (clock := _CLOCK.fullmatch(text)) else _written(text)
    if at <= now:
        raise UnreadableValue(f"{text.upper()} has passed")
    if at - now > LONGEST:
        raise UnreadableValue(f"{text.upper()} is more than a hundred years ahead")
    return at


def _written(text: str) -> datetime:
    if not re.match("[0-9]{4}-", text) or (at := read_moment(text).at) is None:
        raise UnreadableValue(f"{text!r} is not a time; write 03:00, 2026-11-20T03:00 (UTC) or 2026-11-20T03:00+01:00")
    return at


def _next(clock: re.Match[str], now: datetime) -> datetime:
    hour, minute, second = clock.groups()
    try:
        at = now.astimezone(UTC).replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)
    except ValueError as error:
        raise UnreadableValue(f"there is no time {clock[0]}: {error}") from error
    return at if at > now else at + timedelta(days=1)
