"""Fingerprints that every version and every process must compute identically: enqueue_sha, slot ids, lock keys."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Final
from uuid import UUID, uuid5

_SCHEDULE_NAMESPACE: Final = UUID("3c01f3f5-afd6-4363-b726-a5dab51a81c7")
_NULL: Final = "null"


@lru_cache(maxsize=8)  # all rows of a bulk send have the same time
def canonical_time(moment: datetime) -> str:
    """The moment in UTC with six decimals, so that equal moments have equal texts."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; pass an aware datetime")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def enqueue_sha(
    *,
    task_name: str,
    queue_name: str,
    priority: int,
    args_json: str | None,
    kwargs_json: str | None,
    sent_at: datetime,
    good_until: datetime | None = None,
    enqueue_delay_seconds: float | None = None,
    task_options: str | None = None,
) -> str:
    """The fingerprint of one send: the same id with another fingerprint is another task, not a repetition."""
    # A compact JSON array. Non-ASCII is escaped, unlike in the columns, as in existing rows. Built by string formatting
    # in 0.4 µs: json.dumps takes 1.6.
    payload = (
        f"[{quoted(task_name)},{quoted(queue_name)},{priority},{_text(args_json)},{_text(kwargs_json)},"
        f'"{canonical_time(sent_at)}",{_text(None if good_until is None else canonical_time(good_until))},'
        f"{_NULL if enqueue_delay_seconds is None else enqueue_delay_seconds},{_text(task_options)}]"
    )
    return hashlib.sha256(payload.encode()).hexdigest()


def _text(text: str | None) -> str:
    return _NULL if text is None else quoted(text)


def scheduled_task_id(schedule_name: str, slot: datetime) -> str:
    """One id per schedule and slot: two schedulers, or one that repeats a run, insert the same task."""
    return str(uuid5(_SCHEDULE_NAMESPACE, f"{schedule_name}:{canonical_time(slot)}"))
