"""The progress of runs as rows: of the right run, bound to its claim, and gone with the task."""

from __future__ import annotations

from typing import Any

import asyncpg
from lifecycle_steps import HOT_PATH, ME, OTHER, claim_tokens, ended, running, start_tokens

from horsies.config.recovery import RecoveryConfig
from horsies.domain.progress_pace import Reading
from horsies.lifecycle.claim_token import ProgressReport, Token, store_progress
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.lifecycle.retention import ages_of, prune


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
