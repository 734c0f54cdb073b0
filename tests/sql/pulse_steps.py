"""Pulses of the past, for tests of which silence is excused after an outage. Seconds count back from now."""

from __future__ import annotations

import asyncpg

from horsies.config.recovery import RecoveryConfig

# Threshold 6 s, beats every 2 s: a gap of 2 s is harmless, and 3.5 s are excused after a longer one.
HARMLESS_S, SPARE_S = 2.0, 3.5


async def pulse_row(conn: asyncpg.Connection, *gaps: tuple[float, float], beaten_s: float = 0.0) -> None:
    """The pulse as written `beaten_s` ago, with these gaps, each given by its beginning and end."""
    await conn.execute("DELETE FROM horsies_pulse")
    await conn.execute(
        "INSERT INTO horsies_pulse (beaten_at, gaps)"
        " SELECT now() - $1 * interval '1 s', COALESCE(range_agg(tstzrange(now() - began * interval '1 s',"
        " now() - ended * interval '1 s')), '{}') FROM unnest($2::float8[], $3::float8[]) AS gap (began, ended)",
        beaten_s,
        [began for began, _ in gaps],
        [ended for _, ended in gaps],
    )


async def pulse_gaps(conn: asyncpg.Connection) -> list[float]:
    """The length of each gap, the oldest first."""
    rows = await conn.fetch(
        "SELECT extract(epoch FROM upper(gap) - lower(gap))::float8 FROM horsies_pulse, unnest(gaps) gap"
        " ORDER BY lower(gap)"
    )
    return [seconds for (seconds,) in rows]


async def silent_for(conn: asyncpg.Connection, config: RecoveryConfig) -> float:
    """How long a run must have been silent by now to count as stale."""
    seconds = await conn.fetchval(
        "SELECT extract(epoch FROM statement_timestamp() - horsies_silent_before($1, $2))::float8",
        config.running_stale_threshold_ms,
        config.runner_heartbeat_interval_ms,
    )
    return float(seconds)
