"""The session settings of connections for views."""

from __future__ import annotations

READER_SETTINGS: tuple[tuple[str, str], ...] = (
    # An unused filter is a NULL parameter: only a plan made for these very values removes its condition and finds that
    # a partial index fits.
    ("plan_cache_mode", "force_custom_plan"),
    # For many rows at the end of the table, a plan finds "any ten thousand" by reading it from the beginning.
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    # Some of upstream's columns have their time without a zone, in UTC; they are compared with now().
    ("timezone", "UTC"),
)
