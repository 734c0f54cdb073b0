"""Times as text, in UTC or in the zone of the console's machine, always with the zone."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, tzinfo


def zone_of(*, utc: bool) -> tzinfo | None:
    """The `zone` argument of the other functions; None is the machine's own zone."""
    return UTC if utc else None


def time_of_day(moment: datetime | None, zone: tzinfo | None = UTC) -> str:
    """`12:04:31Z`, or local `14:04:31+02`; None is empty."""
    if moment is None:
        return ""
    there = moment.astimezone(zone)
    return f"{there:%H:%M:%S}{_offset(there)}"


def date_and_time(moment: datetime | None, zone: tzinfo | None = UTC) -> str:
    """`2026-11-17 12:04:31Z`; None is empty."""
    if moment is None:
        return ""
    return f"{moment.astimezone(zone):%Y-%m-%d} {time_of_day(moment, zone)}"


def moment_text(moment: datetime | None, now: datetime, zone: tzinfo | None = UTC) -> str:
    """The time of day if it is on the same day as `now`, else with its date; None is empty."""
    if moment is None:
        return ""
    if moment.astimezone(zone).date() == now.astimezone(zone).date():
        return time_of_day(moment, zone)
    return date_and_time(moment, zone)


def _offset(there: datetime) -> str:
    """Z, +02, +0530."""
    text = f"{there:%z}"
    return "Z" if text.startswith("+0000") else text[:3] + text[3:5].replace("00", "")
