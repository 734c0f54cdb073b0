"""Steps for tests of sweeps: tasks whose worker has been silent for some minutes."""

from __future__ import annotations

import json

import asyncpg
from lifecycle_steps import ME, claim_tokens, enqueue, running

from horsies.lifecycle.claim_token import Token

THRESHOLD_MS = 300_000
BEAT_MS = 30_000
STALE_MIN = 6
"""Longer than the threshold."""


def options(*codes: str, interval_s: int = 60) -> str:
    """Stored task options with three retries for these codes, as an SQL expression."""
    policy = {
        "max_retries": 3,
        "intervals": [interval_s] * 3,
        "backoff_strategy": "fixed",
        "jitter": False,
        "auto_retry_for": list(codes),
    }
    return "'" + json.dumps({"retry_policy": policy, "good_until": None}) + "'"


async def stale_runs(conn: asyncpg.Connection, *ids: str, worker: str = ME, **columns: str) -> list[Token]:
    """Tokens of RUNNING tasks that were started long ago and never had a beat."""
    await running(conn, *ids, worker=worker, **columns)
    return await _aged(conn, ids)


async def stale_claims(conn: asyncpg.Connection, *ids: str, worker: str = ME, **columns: str) -> list[Token]:
    """Tokens of CLAIMED tasks that were claimed long ago and never had a beat."""
    await enqueue(conn, *ids, **columns)
    await claim_tokens(conn, worker)
    return await _aged(conn, ids)


async def _aged(conn: asyncpg.Connection, ids: tuple[str, ...]) -> list[Token]:
    rows = await conn.fetch(
        "UPDATE horsies_tasks SET claimed_at = claimed_at - $2 * interval '1 min',"
        " started_at = started_at - $2 * interval '1 min', updated_at = updated_at - $2 * interval '1 min'"
        " WHERE id = ANY ($1) RETURNING id, claimed_by_worker_id, claimed_at",
        list(ids),
        STALE_MIN,
    )
    return sorted((Token(*row) for row in rows), key=lambda token: token.task_id)


async def beat_before(conn: asyncpg.Connection, task_id: str, role: str, minutes: float) -> None:
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ($1, 'w', $2, now() - $3 * interval '1 min')",
        task_id,
        role,
        minutes,
    )


async def mark_finalizing_before(conn: asyncpg.Connection, task_id: str, minutes: float) -> None:
    await conn.execute(
        "UPDATE horsies_tasks SET finalizing_at = now() - $2 * interval '1 min', finalizing_by_worker_id = 'w'"
        " WHERE id = $1",
        task_id,
        minutes,
    )


async def poison(conn: asyncpg.Connection, table: str, events: str, *ids: str) -> None:
    """From now on the database refuses to change or delete these rows."""
    await conn.execute(
        f"CREATE FUNCTION poison() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'row % is poison', OLD.id; END $$"
        f" LANGUAGE plpgsql; CREATE TRIGGER poison BEFORE {events} ON {table} FOR EACH ROW"
        f" WHEN (OLD.id::text IN ({', '.join(repr(one) for one in ids)})) EXECUTE FUNCTION poison()"
    )
