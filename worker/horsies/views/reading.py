"""The settings of the sessions of all views, and times in their stored form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from horsies.domain.damage import number

READER_SETTINGS: tuple[tuple[str, str], ...] = (
    # Only a plan made for these very values knows how few rows they leave, and finds that a partial index fits.
    ("plan_cache_mode", "force_custom_plan"),
    # For many rows at the end of the table, a plan finds "any ten thousand" by reading it from the beginning.
    ("enable_seqscan", "off"),
    # A bitmap is filled to its end before the first row is read: no LIMIT bounds it.
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    # A reader gives up by itself, and asks for the cause while it still waits for the lock.
    ("lock_timeout", "0"),
    # Some of upstream's columns have their time without a zone, in UTC; they are compared with now().
    ("timezone", "UTC"),
)


def decoded(value: Any) -> Any:
    """A column of measured numbers and times."""
    return number(value) if isinstance(value, float) else aware(value)


def aware(value: Any) -> Any:
    """A column that upstream created without a zone contains UTC; every other value is returned unchanged."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
