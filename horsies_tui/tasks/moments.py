"""Parses a time that the operator types to jump to: `14:05`, `2h ago`, `2026-11-17`, `2026-11-17 14:05`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.query import FilterError, parse
from horsies.query.values import Moment

if TYPE_CHECKING:
    from datetime import tzinfo

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(z)?", re.IGNORECASE)


class NoMoment(HorsiesError):  # noqa: N818 - shown beside what is being typed
    """The text is not a time; the message says what would be."""

    default_code = ErrorCode.CLI_INVALID_ARGS


def read_moment(text: str, now: datetime, zone: tzinfo | None = UTC) -> datetime:
    """In `zone` (None: this machine's) unless the text names one. A time of day means the most recent such time."""
    text = text.strip()
    if clock := _CLOCK.fullmatch(text):
        return _last(clock, now, zone)
    try:
        return _in_zone(datetime.fromisoformat(text), zone)
    except (ValueError, OverflowError):
        return _ago(text, now)


def _last(clock: re.Match[str], now: datetime, zone: tzinfo | None) -> datetime:
    hour, minute, second, utc = clock.groups()
    today = now.astimezone(UTC if utc else zone)
    try:
        at = today.replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)
    except ValueError as error:
        raise NoMoment(f"there is no time {clock[0]}: {error}") from error
    return (at if at <= now else at - timedelta(days=1)).astimezone(UTC)


def _in_zone(at: datetime, zone: tzinfo | None) -> datetime:
    if at.tzinfo is None and zone is not None:
        at = at.replace(tzinfo=zone)
    return at.astimezone(UTC)


def _ago(text: str, now: datetime) -> datetime:
    duration = re.sub(r"\s*ago$", "", text.lower()).replace(" ", "")
    try:
        moments = parse(f"since:{duration}").pick("since", Moment) if duration.isalnum() else ()
    except FilterError:
        moments = ()
    ago = next((moment.ago for moment in moments), None)
    if ago is None:
        raise NoMoment("write 14:05, 2h30m, or 2026-11-17 14:05")
    return now - ago
