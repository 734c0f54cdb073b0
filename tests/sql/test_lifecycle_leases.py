"""Beats, leases and progress affect only the worker's own tasks, and the next due time is found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from lifecycle_steps import HOT_PATH, ME, OTHER, claim_tokens, ended, enqueue, running, start_tokens, task

from horsies.config.recovery import RecoveryConfig
from horsies.domain.progress_pace import Reading
from horsies.lifecycle.claim_token import ProgressReport, Token, beat, renew, store_progress
from horsies.lifecycle.claiming import next_due
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.lifecycle.retention import ages_of, prune

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


async def test_a_renewal_steps_over_a_row_that_is_being_started(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b")
    first, _ = await claim_tokens(connection)
    async with other.transaction():
        await start_tokens(other, [first])
        assert await renewed(connection) == {"b"}


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


def report(token: Token, done: float, *, is_over: bool = False) -> ProgressReport:
    return ProgressReport(token, Reading(done, 10, "rows"), 2.5, 1.0, is_over)


async def stored(conn: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await conn.fetch("SELECT task_id, done FROM horsies_progress ORDER BY task_id, started_at")
    return [tuple(row) for row in rows]


async def test_the_newest_report_of_a_run_is_one_row_by_the_start_of_the_run(connection: asyncpg.Connection) -> None:
    one, two = await running(connection, "a", "b")
    await store_progress(connection, ME, [report(two, 1), report(one, 2)])
    await store_progress(connection, ME, [report(one, 3)])
    assert await stored(connection) == [("a", 3), ("b", 1)]
    row = await connection.fetchrow(
        "SELECT done, total, unit, rate, gap_s, progress.started_at = task.started_at, reported_at > task.started_at"
        "  FROM horsies_progress progress JOIN horsies_tasks task ON task.id = task_id WHERE task_id = 'a'"
    )
    assert tuple(row) == (3, 10, "rows", 2.5, 1, True, True)


async def test_a_worker_that_has_lost_the_task_changes_nothing(connection: asyncpg.Connection) -> None:
    (old,) = await running(connection, "a", max_retries="3")
    await store_progress(connection, ME, [report(old, 1)])
    await finish(connection, ME, [ended(old, OutcomeKind.RETRY, retry_delay_s=0.0)])
    await store_progress(connection, ME, [report(old, 2)])
    assert await stored(connection) == [("a", 1)], "it waits for its retry"
    (new,) = await claim_tokens(connection, OTHER)
    await store_progress(connection, ME, [report(old, 3)])
    await start_tokens(connection, [new], OTHER)
    await store_progress(connection, ME, [report(old, 4), report(Token("a", ME, new.claimed_at), 5)])
    assert await stored(connection) == [("a", 1)], "a retry begins with nothing"
    await store_progress(connection, OTHER, [report(new, 6)])
    await store_progress(connection, ME, [report(old, 7)])
    assert await stored(connection) == [("a", 1), ("a", 6)]


async def test_the_last_report_of_a_run_that_has_ended_is_that_of_its_attempt(connection: asyncpg.Connection) -> None:
    tokens = await running(connection, "a", "b", "c", max_retries="3")
    kinds = (OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.RETRY)
    await finish(connection, ME, [ended(token, kind) for token, kind in zip(tokens, kinds, strict=True)])
    await store_progress(connection, ME, [report(token, 9, is_over=True) for token in tokens])
    assert await stored(connection) == [("a", 9), ("b", 9), ("c", 9)]
    assert await connection.fetchval(
        "SELECT count(*) FROM horsies_progress JOIN horsies_task_attempts USING (task_id, started_at)"
    ) == len(tokens)


async def test_updates_are_heap_only_and_wait_for_no_disk(database: str, connection: asyncpg.Connection) -> None:
    tokens = await running(connection, *(f"{number:02}" for number in range(40)))
    worker = await asyncpg.connect(database, server_settings=HOT_PATH)
    for done in range(20):
        await store_progress(worker, ME, [report(token, done) for token in tokens])
    assert await worker.fetchval("SHOW synchronous_commit") == "on", "only for its own transaction"
    await worker.execute("SELECT pg_stat_force_next_flush()")
    updates, heap_only = await worker.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'horsies_progress'"
    )
    await worker.close()
    assert updates == 19 * 40
    assert heap_only >= 0.9 * updates
    assert await connection.fetchval("SELECT pg_relation_size('horsies_progress')") <= 5 * 8192


async def test_retention_deletes_it_with_its_task(connection: asyncpg.Connection) -> None:
    old, young = await running(connection, "a", "b")
    await store_progress(connection, ME, [report(old, 1), report(young, 2)])
    await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED) for token in (old, young)])
    await connection.execute("UPDATE horsies_tasks SET completed_at = now() - interval '31 days' WHERE id = 'a'")
    await prune(connection, ages_of(RecoveryConfig()))
    assert await stored(connection) == [("b", 2)]
