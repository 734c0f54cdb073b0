"""Steps for tests of operator verbs on workers and queues."""

from __future__ import annotations

import json
from typing import Any

import asyncpg

from horsies.operations.target import Actor

OPS = Actor("ops", "bastion")


async def snapshot(
    conn: asyncpg.Connection, worker: str, *, silent_s: float = 0, queues: tuple[str, ...] = ("default",)
) -> None:
    """A worker's snapshot of this age."""
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at)"
        " VALUES ($1, now() - $2 * interval '1 s', 'host', 1, 1, 1, 1, $3, now() - interval '1 day')",
        worker,
        silent_s,
        list(queues),
    )


async def fall_silent(conn: asyncpg.Connection, worker: str, seconds: float = 600) -> None:
    """Move all signs of life of this worker back by this time."""
    for statement in (
        "UPDATE horsies_tasks SET claimed_at = claimed_at - $2 * interval '1 s',"
        " started_at = started_at - $2 * interval '1 s' WHERE claimed_by_worker_id = $1",
        "UPDATE horsies_heartbeats SET sent_at = sent_at - $2 * interval '1 s' WHERE sender_id ^@ $1",
        "UPDATE horsies_worker_states SET snapshot_at = snapshot_at - $2 * interval '1 s' WHERE worker_id = $1",
    ):
        await conn.execute(statement, worker, seconds)


async def audit(conn: asyncpg.Connection, kind: str = "%") -> list[dict[str, Any]]:
    """The audit rows, oldest first, with their states decoded."""
    rows = await conn.fetch("SELECT * FROM horsies_operator_actions WHERE target_kind LIKE $1 ORDER BY id", kind)
    states = ("before_state", "after_state")
    return [{**row, **{name: json.loads(row[name] or "null") for name in states}} for row in rows]


async def heard(conn: asyncpg.Connection, channel: str) -> list[str]:
    """The payloads that arrive on this channel from now on; complete after the next round trip."""
    payloads: list[str] = []
    await conn.add_listener(channel, lambda *message: payloads.append(message[3]))
    return payloads
