"""The options of one send, and their checks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from horsies.domain.codec import clean_text

HIGHEST_PRIORITY: Final = 1
LOWEST_PRIORITY: Final = 100
LONGEST_UNIQUE_KEY: Final = 255
# A hundred years. Without a bound the due time could exceed Python's calendar, and the row would be unreadable.
LONGEST_DELAY_S: Final = 100 * 366 * 86_400


class UnsendableError(ValueError):
    """A call or an option that cannot be sent; the text is for the author of the call."""


@dataclass(frozen=True, slots=True)
class TaskSendOptions:
    """The options of one send. Invalid values are returned as an Err of that send."""

    good_until: datetime | None = None
    """The task expires if it has not started by then; must have a time zone."""
    priority: int | None = None
    """1 first, 100 last; None: the queue's."""
    delay: int | timedelta | None = None
    """Whole seconds from now, by the clock of the database."""
    unique_key: str | None = None
    """While a task with this key is waiting or running, a send returns a handle to it instead of creating a new one."""
    connection: object = None
    """An asyncpg or psycopg connection: the task is stored in its transaction, and removed by its rollback."""

    def delayed(self, delay_seconds: int) -> TaskSendOptions:
        return replace(self, delay=delay_seconds)


PLAIN: Final = TaskSendOptions()
OPTION_NAMES: Final = frozenset(field.name for field in fields(TaskSendOptions))


def checked_deadline(good_until: object) -> datetime | None:
    """The deadline in UTC."""
    if good_until is None:
        return None
    if not isinstance(good_until, datetime):
        raise UnsendableError(f"good_until is {type(good_until).__name__}, not a datetime")
    if good_until.utcoffset() is None:
        raise UnsendableError(f"good_until={good_until} has no time zone; pass an aware datetime, e.g. with tzinfo=UTC")
    try:
        return good_until.astimezone(UTC)
    except OverflowError:
        raise UnsendableError(f"good_until={good_until} is outside the calendar when written in UTC") from None


def checked_priority(priority: object) -> int | None:
    if priority is None:
        return None
    if type(priority) is not int:
        raise UnsendableError(f"priority={priority!r} is not a whole number")
    if not HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY:
        raise UnsendableError(f"priority={priority} is not between {HIGHEST_PRIORITY} (first) and {LOWEST_PRIORITY}")
    return priority


def checked_delay(delay: object) -> int | None:
    """Whole seconds, because the fingerprint of a send, shared with other versions, contains them."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is None:
        return None
    if not (type(seconds) is int or (isinstance(seconds, float) and seconds.is_integer())):
        raise UnsendableError(f"delay={delay!r} is not a whole number of seconds")
    if not 0 <= seconds <= LONGEST_DELAY_S:
        raise UnsendableError(f"delay={delay!r} is not between 0 seconds and 100 years")
    return int(seconds)


def checked_unique_key(unique_key: object) -> str | None:
    if unique_key is None:
        return None
    if not isinstance(unique_key, str) or not unique_key:
        raise UnsendableError(f"unique_key={unique_key!r} is not a text")
    if len(unique_key) > LONGEST_UNIQUE_KEY:
        raise UnsendableError(f"unique_key has {len(unique_key)} characters; the column holds {LONGEST_UNIQUE_KEY}")
    if clean_text(unique_key, LONGEST_UNIQUE_KEY) != unique_key:
        raise UnsendableError(f"unique_key={unique_key!r} holds a character that PostgreSQL cannot store")
    return unique_key
