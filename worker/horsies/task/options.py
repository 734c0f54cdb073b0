"""The options of one send and the queue of a task, with their checks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE, QueueMode
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.plain_text import why_not_a_name, why_not_a_queue_name

if TYPE_CHECKING:
    from horsies.config.app import AppConfig

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
    delay: float | timedelta | None = None
    """Seconds from now, by the clock of the database."""
    unique_key: str | None = None
    """While a task of this name with this key waits or runs, a send stores nothing and returns a handle to that task,
    with `duplicate` set, and with `arguments_differ` if it was sent with other arguments."""
    connection: object = None
    """A connection of a driver, SQLAlchemy or Django: the task is stored in its transaction, and removed by its
    rollback."""
    queue: str | None = None
    """Another queue of the application than the task's own, with its priority."""
    timeout_ms: int | None = None
    """In place of the task's own timeout_ms, for each run of this one."""
    at: datetime | None = None
    """When it is due; must have a time zone. In place of `delay`."""

    def delayed(self, delay_seconds: float) -> TaskSendOptions:
        return replace(self, delay=delay_seconds)


PLAIN: Final = TaskSendOptions()
OPTION_NAMES: Final = frozenset(field.name for field in fields(TaskSendOptions))


def checked_deadline(good_until: object) -> datetime | None:
    """Return the deadline in UTC."""
    return _moment("good_until", good_until)


def _moment(name: str, moment: object) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise UnsendableError(f"{name} is {type(moment).__name__}, not a datetime")
    if moment.utcoffset() is None:
        raise UnsendableError(f"{name}={moment} has no time zone; pass an aware datetime, e.g. with tzinfo=UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise UnsendableError(f"{name}={moment} is outside the calendar when written in UTC") from None


def checked_priority(priority: object) -> int | None:
    if priority is None:
        return None
    if type(priority) is not int:
        raise UnsendableError(f"priority={priority!r} is not a whole number")
    if not HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY:
        raise UnsendableError(f"priority={priority} is not between {HIGHEST_PRIORITY} (first) and {LOWEST_PRIORITY}")
    return priority


def checked_delay(delay: object) -> float | None:
    """Return seconds to the microsecond; an int if they are whole, as in fingerprints of sends by other versions."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is None:
        return None
    if type(seconds) not in {int, float}:
        raise UnsendableError(f"delay={delay!r} is not a number of seconds")
    assert isinstance(seconds, int | float)
    if not 0 <= seconds <= LONGEST_DELAY_S:  # so NaN is refused, too
        raise UnsendableError(f"delay={delay!r} is not between 0 seconds and 100 years")
    seconds = round(seconds, 6)
    return int(seconds) if seconds == int(seconds) else seconds


def checked_due(at: object, delay: object) -> datetime | None:
    """Return the moment in UTC."""
    if at is not None and delay is not None:
        raise UnsendableError(f"at={at} and delay={delay!r} both say when the task is due; give one of them")
    return _moment("at", at)


def checked_timeout(timeout_ms: object) -> int | None:
    if timeout_ms is not None and (type(timeout_ms) is not int or timeout_ms < 1):
        raise UnsendableError(f"timeout_ms={timeout_ms!r} is not a whole number of milliseconds, at least 1")
    return timeout_ms


def checked_unique_key(unique_key: object) -> str | None:
    if unique_key is None:
        return None
    if not isinstance(unique_key, str) or not unique_key:
        raise UnsendableError(f"unique_key={unique_key!r} is not a text")
    if len(unique_key) > LONGEST_UNIQUE_KEY:
        raise UnsendableError(f"unique_key has {len(unique_key)} characters; the column holds {LONGEST_UNIQUE_KEY}")
    if (reason := why_not_a_name("unique_key", unique_key)) is not None:
        raise UnsendableError(f"{reason}; use a digest of the text: hashlib.sha256(text.encode()).hexdigest()")
    return unique_key


def queue_problem(config: AppConfig, queue_name: object) -> ConfigurationError | None:
    """Return why a task cannot use this queue, or no queue, under this configuration."""
    mode_code = ErrorCode.CONFIG_INVALID_QUEUE_MODE
    if config.queue_mode is QueueMode.DEFAULT:
        if queue_name is None:
            return None
        return ConfigurationError(
            f"cannot specify queue_name in DEFAULT mode: {queue_name!r} is given",
            code=mode_code,
            help_text="remove queue_name, or set queue_mode=QueueMode.CUSTOM and list the queue in custom_queues",
        )
    if queue_name is None and config.default_queue is not None:
        return None
    names = [queue.name for queue in config.custom_queues or ()]
    choice = f"choose one of {', '.join(names)}"
    if queue_name is None:
        help_text = f"{choice}, or name one for all: AppConfig(default_queue={names[0]!r})" if names else choice
        return ConfigurationError("queue_name is required in CUSTOM mode", code=mode_code, help_text=help_text)
    if queue_name in names:
        return None
    return ConfigurationError(
        f"queue_name {queue_name!r} is not one of the application's queues",
        code=ErrorCode.TASK_INVALID_QUEUE,
        notes=[reason] if isinstance(queue_name, str) and (reason := why_not_a_queue_name(queue_name)) else [],
        help_text=f"{choice}, or list it in custom_queues",
    )


def route(config: AppConfig, queue_name: str | None) -> tuple[str, int]:
    """Return the queue and the priority of a task whose queue_name has no problem."""
    for queue in config.custom_queues or ():
        if queue.name == (queue_name or config.default_queue):
            return queue.name, queue.priority
    return DEFAULT_QUEUE, DEFAULT_PRIORITY
