"""The broker's documented methods for recovery make the same transitions as a worker's sweep."""

from __future__ import annotations

import logging
import re

import asyncpg
import pytest
from lifecycle_steps import ME, attempts, enqueue, running, statuses, task
from pulse_steps import pulse_row
from sweep_steps import beat_before, mark_finalizing_before, options, poison, stale_claims, stale_runs
from view_steps import snapshot

from horsies.broker import PostgresBroker
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.errors import HorsiesError
from horsies.domain.result import Ok


async def test_stale_runs_are_failed_or_set_to_run_again_and_counted(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    await stale_runs(connection, "fails")
    await stale_runs(connection, "again", max_retries="3", task_options=options("WORKER_CRASHED"))
    await running(connection, "healthy")
    stale = await broker.get_stale_tasks(stale_threshold_minutes=5)
    assert {row["id"] for row in stale} == {"fails", "again"}
    assert await broker.mark_stale_tasks_as_failed(stale_threshold_ms=300_000) == 2
    assert await statuses(connection) == {"fails": "FAILED", "again": "PENDING", "healthy": "RUNNING"}
    result = await broker.get_result_async("fails")
    assert result.err_value.error_code is OperationalErrorCode.WORKER_CRASHED
    assert [one["will_retry"] for one in await attempts(connection, "again")] == [True]
    assert await broker.mark_stale_tasks_as_failed() == 0


async def test_the_thresholds_are_those_that_are_given(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await mark_finalizing_before(connection, "t", 4)
    assert await broker.mark_stale_tasks_as_failed(400_000) == 0
    assert await broker.mark_stale_tasks_as_failed(300_000) == 0
    assert await broker.mark_stale_tasks_as_failed(300_000, finalizing_stale_threshold_ms=200_000) == 1


async def test_after_a_gap_in_which_no_worker_could_beat_nothing_counts_as_stale(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    await stale_runs(connection, "run")
    await stale_claims(connection, "claim")
    await pulse_row(connection, (500, 10))
    assert await broker.mark_stale_tasks_as_failed() == 0
    assert await broker.requeue_stale_claimed() == 0
    await pulse_row(connection, (500, 43))
    assert await broker.mark_stale_tasks_as_failed() == 1
    assert await broker.requeue_stale_claimed() == 1


async def test_what_no_living_worker_owns_is_spared_with_a_word_or_taken_at_once(
    broker: PostgresBroker, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """For rows that were dead for an hour, with no worker left, both answered 0 without a word."""
    await stale_runs(connection, "a", "b")
    await stale_claims(connection, "claim")
    await pulse_row(connection, beaten_s=3600)
    with caplog.at_level(logging.WARNING, "horsies.broker"):
        assert await broker.mark_stale_tasks_as_failed(stale_threshold_ms=300_000) == 0
        assert await broker.requeue_stale_claimed(stale_threshold_ms=120_000) == 0
    runs, claims = (record.getMessage() for record in caplog.records)
    until = r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ: .* repeat the call then, or pass spare=False"
    assert re.match(f"mark_stale_tasks_as_failed spared 2 RUNNING without a heartbeat for 300 s {until}", runs)
    assert re.match(f"requeue_stale_claimed spared 1 CLAIMED without a heartbeat for 120 s {until}", claims)
    caplog.clear()
    assert await broker.mark_stale_tasks_as_failed(stale_threshold_ms=300_000, spare=False) == 2
    assert await broker.requeue_stale_claimed(stale_threshold_ms=120_000, spare=False) == 1
    assert await broker.mark_stale_tasks_as_failed() == await broker.requeue_stale_claimed() == 0
    assert caplog.records == []


async def test_what_is_left_to_a_worker_with_a_longer_threshold_is_named(
    broker: PostgresBroker, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await stale_runs(connection, "run")
    settings = '{"running_stale_threshold_ms": 7200000, "runner_heartbeat_interval_ms": 30000}'
    await snapshot(connection, ME, recovery_config=f"'{settings}'")
    with caplog.at_level(logging.WARNING, "horsies.broker"):
        assert await broker.mark_stale_tasks_as_failed() == 0
    assert "left 1 RUNNING without a heartbeat for 300 s: their worker has its own longer threshold" in caplog.text
    assert await broker.mark_stale_tasks_as_failed(spare=False) == 1


async def test_stale_claims_are_requeued_and_counted(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await stale_claims(connection, "a", "b", "c")
    await beat_before(connection, "c", "claimer", 3)
    assert await broker.requeue_stale_claimed(stale_threshold_ms=240_000) == 2
    assert await statuses(connection) == {"a": "PENDING", "b": "PENDING", "c": "CLAIMED"}
    assert await broker.requeue_stale_claimed() == 1


async def test_what_came_too_late_expires_and_is_counted(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b", good_until="now()")
    await enqueue(connection, "c")
    assert len((await broker.get_expired_tasks()).unwrap()) == 2
    assert await broker.expire_pending_tasks() == Ok(2)
    assert (await broker.get_expired_tasks()) == Ok([])
    assert (await task(connection, "c"))["status"] == "PENDING"


async def test_rows_that_cannot_be_changed_are_logged_and_an_error_only_where_no_other_was(
    broker: PostgresBroker, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await stale_runs(connection, "good", "bad")
    await poison(connection, "horsies_tasks", "UPDATE", "bad")
    with caplog.at_level(logging.WARNING, "horsies.broker"):
        assert await broker.mark_stale_tasks_as_failed() == 1
    assert "task bad could not be swept: RaiseError: row bad is poison" in caplog.text
    with pytest.raises(HorsiesError, match="none of 1 tasks could be changed; bad"):
        await broker.mark_stale_tasks_as_failed()


async def test_a_broken_table_is_an_error(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await stale_claims(connection, "t")
    assert await broker.requeue_stale_claimed(3_600_000) == 0
    await connection.execute("ALTER TABLE horsies_heartbeats RENAME TO somewhere_else")
    for call in (broker.requeue_stale_claimed, broker.mark_stale_tasks_as_failed, broker.get_stale_tasks):
        with pytest.raises(HorsiesError, match="horsies_heartbeats"):
            await call()
