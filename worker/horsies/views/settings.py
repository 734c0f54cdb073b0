"""How a connection that reads for people is opened."""

from __future__ import annotations

READER_SETTINGS: tuple[tuple[str, str], ...] = (
    # A filter that is not used is a NULL parameter: only a plan made for these very values drops its condition and sees
    # that a partial index fits.
    ("plan_cache_mode", "force_custom_plan"),
    # Of many rows that lie at the end of the table, a plan finds "any ten thousand" by reading it from the beginning.
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    # Some columns that upstream made hold their time without a zone, in UTC; they are compared with now().
    ("timezone", "UTC"),
)
