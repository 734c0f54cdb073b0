"""Steps for tests of operator actions: tasks in every state, verbs on them, audit rows."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import asyncpg
from lifecycle_steps import ME, claim_some, ended, enqueue, running

from horsies.domain.states import TargetKind
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor, RowOutcome
from horsies.operations.verb import OperationOutcome, Preview, TaskVerb
from horsies.operations.verbs import VERBS, verbs_for

OPS = Actor("ops", "bastion")
UNDO = VERBS["operation", "undo"]
POLICY = '{"retry_policy":{"max_retries":3,"intervals":[60],"auto_retry_for":["BROKE"]},"good_until":null}'


GIVEN: dict[str, dict[str, Any]] = {
    "reprioritise": {"priority": "7"},
    "move": {"queue": "bulk"},
    "reschedule": {"delay": "1h"},
}
"""The options without which a verb cannot be tried."""


def named(*kinds: TargetKind) -> Any:
    """The verbs for these targets as attributes: `V.RETRY_NOW`."""
    return SimpleNamespace(**{verb.name.upper().replace("-", "_"): verb for verb in verbs_for(*kinds)})


async def look_back(conn: asyncpg.Connection, operation_id: UUID) -> Preview:
    return await preview(conn, UNDO, Selection.of_ids([str(operation_id)]))


async def undo(
    conn: asyncpg.Connection, operation_id: UUID, actor: Actor, reason: str | None, **options: Any
) -> OperationOutcome:
    """The outcome of an undo, with the rows that its preview has refused."""
    seen = await look_back(conn, operation_id)
    outcome = await apply(conn, seen, actor, reason, **options)
    refused = [RowOutcome(refusal.target, False, refusal.reason) for refusal in seen.refused]
    return replace(outcome, rows=(*outcome.rows, *refused))


async def look(conn: asyncpg.Connection, verb: TaskVerb, *ids: str, **options: Any) -> Preview:
    return await preview(conn, verb, Selection.of_ids(ids), **options)


async def act(
    conn: asyncpg.Connection, verb: TaskVerb, *ids: str, reason: str | None = "why", **options: Any
) -> OperationOutcome:
    """Apply the verb to those of the ids that the preview finds eligible."""
    return await apply(conn, await look(conn, verb, *ids, **options), OPS, reason)


async def done(conn: asyncpg.Connection, verb: TaskVerb, *ids: str, **options: Any) -> OperationOutcome:
    """Apply the verb to all of the ids; none may be refused."""
    outcome = await act(conn, verb, *ids, **options)
    assert [row.target.id for row in outcome.applied] == sorted(ids)
    return outcome


async def failed(conn: asyncpg.Connection, *ids: str, **columns: str) -> list[Token]:
    """Tasks that ran once and FAILED with BROKE."""
    tokens = await running(conn, *ids, **columns)
    await finish(conn, ME, [ended(token, OutcomeKind.FAILED) for token in tokens])
    return tokens


async def completed(conn: asyncpg.Connection, *ids: str, **columns: str) -> None:
    await finish(conn, ME, [ended(token, OutcomeKind.COMPLETED) for token in await running(conn, *ids, **columns)])


async def in_state(conn: asyncpg.Connection, status: str, *ids: str) -> None:
    """Tasks that reached this status through the engine's functions, as far as possible."""
    if status in ("PENDING", "CLAIMED"):
        await enqueue(conn, *ids)
    if status == "CLAIMED":
        await claim_some(conn)
    if status == "RUNNING":
        await running(conn, *ids)
    if status == "COMPLETED":
        await completed(conn, *ids)
    if status == "FAILED":
        await failed(conn, *ids)
    if status in ("CANCELLED", "EXPIRED"):
        past = "now() - interval '1 min'" if status == "EXPIRED" else "NULL"
        await enqueue(conn, *ids, status=f"'{status}'", failed_at="now()", good_until=past)


async def audit(conn: asyncpg.Connection, kind: str = "%") -> list[dict[str, Any]]:
    """The audit rows, oldest first, with their states decoded."""
    rows = await conn.fetch("SELECT * FROM horsies_operator_actions WHERE target_kind LIKE $1 ORDER BY id", kind)
    states = ("before_state", "after_state")
    return [{**row, **{name: json.loads(row[name] or "null") for name in states}} for row in rows]


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


async def heard(conn: asyncpg.Connection, channel: str) -> list[str]:
    """The payloads that arrive on this channel from now on; complete after the next round trip."""
    payloads: list[str] = []
    await conn.add_listener(channel, lambda *message: payloads.append(message[3]))
    return payloads
