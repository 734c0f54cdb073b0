"""Beats and leases affect only the worker's own tasks, and the next due time is found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from lifecycle_steps import ME, OTHER, claim_some, claim_tokens, ended, enqueue, running, start_tokens, task

from horsies.lifecycle.claim_token import Token, beat, renew
from horsies.lifecycle.claiming import next_due
from horsies.lifecycle.finishing import OutcomeKind, finish

HOUR_MS = 3_600_000


async def renewed(conn: asyncpg.Connection, max_age_ms: int = HOUR_MS) -> set[str]:
    tokens = await renew(conn, ME, HOUR_MS, max_age_ms, hostname="host", pid=7)
    return {token.task_id for token in tokens}


async def beats(conn: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await conn.fetch(
        "SELECT task_id, sender_id, role, hostname, pid FROM horsies_heartbeats"
        " WHERE sent_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() ORDER BY task_id"
    )
    return [tuple(row) for row in rows]


async def lease(conn: asyncpg.Connection, task_id: str) -> timedelta:
    row = await task(conn, task_id)
    left: timedelta = row["claim_expires_at"] - row["claimed_at"]
    return left


async def test_a_renewal_prolongs_the_leases_and_beats_as_claimer(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    tokens = await claim_tokens(connection)
    assert await renew(connection, ME, HOUR_MS, HOUR_MS, hostname="host", pid=7) == set(tokens)
    assert await lease(connection, "a") > timedelta(hours=1)
    assert await beats(connection) == [("a", ME, "claimer", "host", 7), ("b", ME, "claimer", "host", 7)]


async def test_a_renewal_leaves_what_runs_and_what_others_hold(connection: asyncpg.Connection) -> None:
    await running(connection, "runs")
    await enqueue(connection, "foreign")
    await claim_tokens(connection, OTHER)
    await enqueue(connection, "waits")
    before = [await task(connection, name) for name in ("runs", "foreign", "waits")]
    assert await renewed(connection) == set()
    assert [await task(connection, name) for name in ("runs", "foreign", "waits")] == before
    assert await beats(connection) == []


async def test_an_old_claim_beats_but_its_lease_runs_out(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "old", "young")
    await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET claimed_at = now() - interval '4 min' WHERE id = 'old'")
    before = await task(connection, "old")
    assert await renewed(connection, max_age_ms=180_000) == {"old", "young"}
    assert await task(connection, "old") == before
    assert await lease(connection, "young") > timedelta(hours=1)
    assert len(await beats(connection)) == 2


async def test_a_lease_that_has_run_out_is_not_revived(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    await claim_tokens(connection, lease_ms=0)
    before = await task(connection, "t")
    assert await renewed(connection) == {"t"}
    assert await task(connection, "t") == before


async def test_a_renewal_is_heap_only(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    await claim_tokens(connection)
    await connection.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'horsies_tasks'"
    before = await connection.fetchval(query)
    for _ in range(3):
        await renewed(connection)
    await connection.execute("SELECT pg_stat_force_next_flush()")
    assert await connection.fetchval(query) == before


async def test_a_renewal_steps_over_a_row_that_is_being_started(database: str, connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    first, _ = await claim_tokens(connection)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await start_tokens(other, [first])
        assert await renewed(connection) == {"b"}
    await other.close()


async def test_a_beat_of_a_runner_names_worker_and_child(connection: asyncpg.Connection) -> None:
    first, second = await running(connection, "a", "b")
    assert await beat(connection, ME, "host", [(second, 12), (first, 11)]) == set()
    assert await beats(connection) == [
        ("a", f"{ME}:11", "runner", "host", 11),
        ("b", f"{ME}:12", "runner", "host", 12),
    ]


async def test_a_beat_tells_which_executions_are_lost_and_beats_for_the_rest(connection: asyncpg.Connection) -> None:
    runs, done = await running(connection, "a", "b")
    await finish(connection, ME, [ended(done, OutcomeKind.COMPLETED)])
    await enqueue(connection, "c")
    (claimed,) = await claim_tokens(connection)
    stale = Token("a", ME, runs.claimed_at - timedelta(microseconds=1))
    asked = [(token, 11) for token in (stale, runs, done, claimed)]
    assert await beat(connection, ME, "host", asked) == {stale, done, claimed}
    assert [row[0] for row in await beats(connection)] == ["a"]


async def test_a_beat_for_nothing_asks_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    assert await beat(connection, ME, "host", []) == set()


async def test_nothing_falls_due_where_nothing_waits_for_its_time(connection: asyncpg.Connection) -> None:
    assert await next_due(connection, ["default", "other"]) == (None, None)
    await enqueue(connection, "due")
    await enqueue(connection, "elsewhere", queue_name="'third'", enqueued_at="now() + interval '1 min'")
    await enqueue(connection, "runs", status="'RUNNING'", enqueued_at="now() + interval '1 min'")
    assert await next_due(connection, ["default", "other"]) == (None, None)
    assert await next_due(connection, []) == (None, None)


async def test_a_retry_that_is_due_after_its_time_in_the_queue_is_found_too(connection: asyncpg.Connection) -> None:
    """As rows of other writers may be: without an alarm it ran with the next poll, up to 5 s late."""
    await enqueue(connection, "late", next_retry_at="clock_timestamp() + interval '60 s'")
    await enqueue(connection, "past", next_retry_at="now() - interval '30 s'")
    await enqueue(connection, "ran", status="'FAILED'", next_retry_at="clock_timestamp() + interval '30 s'")
    assert await next_due(connection, ["default", "other"]) == (None, pytest.approx(60, abs=1))
    await enqueue(connection, "soon", enqueued_at="clock_timestamp() + interval '20 s'")
    assert await next_due(connection, ["default"]) == (pytest.approx(20, abs=1), pytest.approx(60, abs=1))


@pytest.mark.parametrize("queue", ["default", "other"])
@pytest.mark.parametrize("priority", ["1", "50", "100", "-3", "70"])
async def test_the_next_due_time_is_found_at_any_priority_and_in_any_queue(
    connection: asyncpg.Connection, priority: str, queue: str
) -> None:
    for number, level in enumerate(("1", "50", "100")):
        await enqueue(connection, f"due-{number}", priority=level)
        await enqueue(connection, f"late-{number}", priority=level, enqueued_at="now() + interval '1 h'")
    soon = "clock_timestamp() + interval '60 s'"
    await enqueue(connection, "soon", priority=priority, queue_name=f"'{queue}'", enqueued_at=soon)
    assert await next_due(connection, ["default", "other"]) == (pytest.approx(60, abs=1), None)
    assert await next_due(connection, [queue]) == (pytest.approx(60, abs=1), None)
    without = {"default": None, "other": pytest.approx(3600, abs=10)}[queue]
    assert await next_due(connection, ["default" if queue == "other" else "other"]) == (without, None)


async def test_a_retry_is_the_next_to_fall_due(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="1")
    await finish(connection, ME, [ended(token, OutcomeKind.RETRY, retry_delay_s=30.0)])
    assert await claim_some(connection) == []
    assert await next_due(connection, ["default"]) == (pytest.approx(30, abs=1), pytest.approx(30, abs=1))
