"""Tasks without signs of life are requeued or ended, and no other row is touched."""

from __future__ import annotations

import json
import random
import time
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from database_server import uuid7
from lifecycle_steps import (
    HOT_PATH,
    ME,
    OTHER,
    attempts,
    claim_tokens,
    enqueue,
    everything,
    running,
    start_tokens,
    statuses,
    task,
)
from pulse_steps import pulse_row
from sweep_steps import (
    THRESHOLD_MS,
    beat_before,
    mark_finalizing_before,
    options,
    poison,
    stale_claims,
    stale_runs,
)

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, TaskFailed, TaskRetried
from horsies.domain.codec import load_task_result
from horsies.domain.codes import OperationalErrorCode, OutcomeCode
from horsies.lifecycle.recovering import (
    Recovered,
    expire_pending,
    recover,
    recover_stale_runs,
    requeue_stale_claims,
)
from horsies.run.events import Events
from horsies.run.worker.hook_threads import Hooks
from horsies.run.worker.sweeper import StaleSweep

CRASH = options("WORKER_CRASHED")


async def sweep_runs(conn: asyncpg.Connection, **given: Any) -> Recovered:
    limits = {"threshold_ms": THRESHOLD_MS, "finalizing_ms": THRESHOLD_MS, **given}
    return await recover_stale_runs(conn, **limits)


async def sweep_claims(conn: asyncpg.Connection) -> Recovered:
    return await requeue_stale_claims(conn, threshold_ms=THRESHOLD_MS)


async def test_a_stale_claim_waits_again_as_if_it_had_never_been_claimed(connection: asyncpg.Connection) -> None:
    await stale_claims(connection, "t", retry_count="1", max_retries="3")
    before = await task(connection, "t")
    assert await sweep_claims(connection) == Recovered(requeued=1)
    after = await task(connection, "t")
    forgotten = {"claimed_at": None, "claimed_by_worker_id": None, "claim_expires_at": None, "claimed": False}
    assert after == before | forgotten | {"status": "PENDING", "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    assert await attempts(connection, "t") == []


async def test_a_fresh_claim_and_one_that_is_beaten_for_stay(connection: asyncpg.Connection) -> None:
    await stale_claims(connection, "beaten")
    await beat_before(connection, "beaten", "claimer", 4)
    await enqueue(connection, "fresh")
    await claim_tokens(connection)
    before = await everything(connection)
    assert await sweep_claims(connection) == Recovered()
    assert await everything(connection) == before


@pytest.mark.parametrize(("role", "minutes"), [("runner", 1), ("claimer", 5.5)])
async def test_only_a_claimers_beat_that_is_new_keeps_a_claim(
    connection: asyncpg.Connection, role: str, minutes: float
) -> None:
    await stale_claims(connection, "t")
    await beat_before(connection, "t", role, minutes)
    assert await sweep_claims(connection) == Recovered(requeued=1)


async def test_a_claim_made_by_hand_without_owner_and_time_is_set_free_too(connection: asyncpg.Connection) -> None:
    old = "now() - interval '10 min'"
    await enqueue(connection, "t", status="'CLAIMED'", claimed="true", updated_at=old)
    assert await sweep_claims(connection) == Recovered(requeued=1)
    assert (await statuses(connection)) == {"t": "PENDING"}


async def test_a_queue_whose_name_is_no_channel_is_swept_as_well(connection: asyncpg.Connection) -> None:
    await connection.execute("SET session_replication_role = replica")
    await stale_claims(connection, "t")
    await stale_runs(connection, "u")
    await connection.execute("UPDATE horsies_tasks SET queue_name = repeat('q', 90)")
    await connection.execute("SET session_replication_role = origin")
    assert await sweep_claims(connection) == Recovered(requeued=1)
    assert await sweep_runs(connection) == Recovered(failed=1)


async def test_a_crash_of_the_last_try_says_that_no_retry_is_left(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t", max_retries="3", retry_count="3", task_options=options("WORKER_CRASHED"))
    assert await sweep_runs(connection) == Recovered(failed=1)
    data = load_task_result((await task(connection, "t"))["result"]).err_value.data
    assert (data["reason"], data["retry_count"], data["worker_id"]) == ("all retries are spent", 3, ME)


async def test_a_stale_run_without_a_policy_fails_with_the_documented_data(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t", max_retries="3")
    await beat_before(connection, "t", "runner", 5.5)
    before = await task(connection, "t")
    assert await sweep_runs(connection) == Recovered(failed=1)
    row = await task(connection, "t")
    assert (row["status"], row["error_code"], row["retry_count"]) == ("FAILED", "WORKER_CRASHED", 0)
    kept = ["claimed_by_worker_id", "claimed_at", "started_at", "worker_pid", "worker_hostname", "worker_process_name"]
    assert {name: row[name] for name in kept} == {name: before[name] for name in kept}
    error = load_task_result(row["result"]).err_value
    assert error.error_code is OperationalErrorCode.WORKER_CRASHED
    assert error.message == row["failed_reason"]
    assert "330 s since its last heartbeat (threshold 300 s)" in row["failed_reason"]
    data = dict(error.data)
    assert data.pop("detected_at") > data.pop("last_heartbeat") > data["started_at"]
    assert data == {
        "stale_threshold_ms": THRESHOLD_MS,
        "worker_id": ME,
        "worker_hostname": "host",
        "worker_pid": 4242,
        "started_at": row["started_at"].isoformat(),
    }
    (attempt,) = await attempts(connection, "t")
    assert (attempt["attempt"], attempt["outcome"], attempt["will_retry"]) == (1, "FAILED", False)
    assert (attempt["error_code"], attempt["error_message"]) == ("WORKER_CRASHED", row["failed_reason"])
    assert (attempt["worker_id"], attempt["worker_pid"], attempt["started_at"]) == (ME, 4242, row["started_at"])
    assert attempt["finished_at"] == row["failed_at"] == row["updated_at"]


async def test_a_stale_run_is_tried_again_where_its_policy_lists_crashes(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t", max_retries="3", task_options=CRASH)
    now = await connection.fetchval("SELECT clock_timestamp()")
    assert await sweep_runs(connection) == Recovered(retried=1)
    row = await task(connection, "t")
    assert (row["status"], row["retry_count"], row["error_code"], row["failed_at"]) == ("PENDING", 1, None, None)
    assert timedelta(seconds=60) <= row["next_retry_at"] - now < timedelta(seconds=70)
    assert row["enqueued_at"] == row["next_retry_at"]
    forgotten = "claimed_at claimed_by_worker_id claim_expires_at started_at worker_pid worker_hostname finalizing_at"
    assert {row[name] for name in (forgotten + " worker_process_name result failed_reason").split()} == {None}
    (attempt,) = await attempts(connection, "t")
    assert (attempt["attempt"], attempt["outcome"], attempt["will_retry"]) == (1, "FAILED", True)
    assert (attempt["error_code"], attempt["worker_id"], attempt["worker_pid"]) == ("WORKER_CRASHED", ME, 4242)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"max_retries": "3", "task_options": options("TIMEOUT")}, "another code"),
        ({"max_retries": "3", "retry_count": "3", "task_options": CRASH}, "budget spent"),
        ({"max_retries": "0", "task_options": CRASH}, "no budget"),
        ({"max_retries": "3", "task_options": CRASH, "good_until": "now() + interval '50 s'"}, "due too late"),
        ({"max_retries": "3", "task_options": '\'{"retry_policy": ["WORKER_CRASHED"\''}, "corrupt options"),
        ({"max_retries": "3", "task_options": "repeat('[', 50000)"}, "options that exhaust the stack"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_stale_run_that_may_not_be_tried_again_fails(
    connection: asyncpg.Connection, columns: dict[str, str], why: str
) -> None:
    await stale_runs(connection, "t", **columns)
    assert await sweep_runs(connection) == Recovered(failed=1), why
    (attempt,) = await attempts(connection, "t")
    assert (attempt["will_retry"], attempt["error_code"]) == (False, "WORKER_CRASHED")


async def test_a_retry_that_is_due_before_good_until_is_made(connection: asyncpg.Connection) -> None:
    columns = {"max_retries": "3", "task_options": CRASH, "good_until": "now() + interval '80 s'"}
    await stale_runs(connection, "t", **columns)
    assert await sweep_runs(connection) == Recovered(retried=1)


async def test_a_run_that_beats_is_healthy_however_long_it_takes(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await beat_before(connection, "t", "runner", 4)
    before = await everything(connection)
    assert await sweep_runs(connection) == Recovered()
    assert await everything(connection) == before


async def test_a_claimers_beat_does_not_keep_a_run(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await beat_before(connection, "t", "claimer", 1)
    assert await sweep_runs(connection) == Recovered(failed=1)


async def test_old_beats_of_the_first_attempt_do_not_doom_a_fresh_second_one(connection: asyncpg.Connection) -> None:
    """The documented rule reads only the newest beat, and would consider the task dead as soon as it starts."""
    await running(connection, "t", retry_count="1", max_retries="3", task_options=CRASH)
    await beat_before(connection, "t", "runner", 15)
    await enqueue(connection, "c")
    await claim_tokens(connection)
    await beat_before(connection, "c", "claimer", 15)
    before = await everything(connection)
    assert await recover(connection, RecoveryConfig()) == Recovered()
    assert await everything(connection) == before


async def test_a_beat_of_the_first_attempt_does_not_save_a_dead_second_one(connection: asyncpg.Connection) -> None:
    """Its worker died right after the start: a beat newer than the threshold must be newer than the start, too."""
    await stale_runs(connection, "t", retry_count="1", max_retries="3", task_options=CRASH)
    await connection.execute("UPDATE horsies_tasks SET enqueued_at = started_at - interval '70 s'")
    await beat_before(connection, "t", "runner", 6.2)
    assert await sweep_runs(connection) == Recovered(retried=1)
    (attempt,) = await attempts(connection, "t")
    assert (attempt["attempt"], attempt["waited_ms"]) == (2, 70_000)
    assert "360 s since its start, without a heartbeat" in attempt["failed_reason"]


async def test_each_crash_of_a_task_is_an_attempt_of_its_own_until_the_budget_is_spent(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", max_retries="2", task_options=options("WORKER_CRASHED", interval_s=1))
    for _ in range(3):
        await connection.execute("UPDATE horsies_tasks SET enqueued_at = now(), next_retry_at = NULL")
        await start_tokens(connection, await claim_tokens(connection))
        await connection.execute(
            "UPDATE horsies_tasks SET started_at = now() - interval '1 h', claimed_at = now() - interval '1 h'"
        )
        await sweep_runs(connection)
    history = [(one["attempt"], one["will_retry"]) for one in await attempts(connection, "t")]
    assert history == [(1, True), (2, True), (3, False)]
    assert (await statuses(connection)) == {"t": "FAILED"}


async def test_a_count_that_was_reset_by_hand_does_not_stop_the_sweep(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT 't', n, 'FAILED', now(), now() FROM generate_series(1, 4) n"
    )
    assert await sweep_runs(connection) == Recovered(failed=1)
    assert [one["attempt"] for one in await attempts(connection, "t")] == [1, 2, 3, 4, 5]


async def test_a_run_made_by_hand_without_times_and_owner_is_settled(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", status="'RUNNING'", updated_at="now() - interval '10 min'")
    assert await sweep_runs(connection) == Recovered(failed=1)
    (attempt,) = await attempts(connection, "t")
    assert attempt["worker_id"] is None


async def test_a_finished_execution_whose_outcome_is_on_its_way_is_spared(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await mark_finalizing_before(connection, "t", 4)
    before = await everything(connection)
    assert await sweep_runs(connection) == Recovered()
    assert await everything(connection) == before


async def test_a_finished_execution_whose_outcome_never_came_is_settled(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await mark_finalizing_before(connection, "t", 4)
    assert await sweep_runs(connection, finalizing_ms=180_000) == Recovered(failed=1)
    row = await task(connection, "t")
    assert (row["finalizing_at"], row["finalizing_by_worker_id"]) == (None, None)


async def test_a_finalizing_mark_does_not_make_a_healthy_run_stale(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await beat_before(connection, "t", "runner", 1)
    await mark_finalizing_before(connection, "t", 30)
    assert await sweep_runs(connection) == Recovered()


async def test_what_was_not_started_in_time_expires_without_an_attempt(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "late", good_until="now() - interval '1 s'")
    await enqueue(connection, "waits", good_until="now() + interval '1 h'")
    await enqueue(connection, "any")
    assert await expire_pending(connection) == Recovered(expired=1)
    assert await statuses(connection) == {"late": "EXPIRED", "waits": "PENDING", "any": "PENDING"}
    row = await task(connection, "late")
    error = load_task_result(row["result"]).err_value
    assert (error.error_code, error.data) == (OutcomeCode.TASK_EXPIRED, {"task_id": "late"})
    assert (row["error_code"], row["failed_at"]) == ("TASK_EXPIRED", row["updated_at"])
    assert await attempts(connection, "late") == []


async def test_a_retry_whose_deadline_passes_while_it_waits_expires_and_keeps_its_history(
    connection: asyncpg.Connection,
) -> None:
    columns = {"max_retries": "3", "task_options": CRASH, "good_until": "now() + interval '2 min'"}
    await stale_runs(connection, "t", **columns)
    assert await sweep_runs(connection) == Recovered(retried=1)
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert await expire_pending(connection) == Recovered(expired=1)
    assert len(await attempts(connection, "t")) == 1


async def test_a_stale_claim_past_its_deadline_is_expired_by_the_same_pass(connection: asyncpg.Connection) -> None:
    await stale_claims(connection, "t")
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert await recover(connection, RecoveryConfig()) == Recovered(requeued=1, expired=1)
    assert await statuses(connection) == {"t": "EXPIRED"}


@pytest.mark.parametrize(
    ("switch", "left"),
    [("auto_requeue_stale_claimed", "claim"), ("auto_fail_stale_running", "run")],
)
async def test_what_is_switched_off_is_left_alone(connection: asyncpg.Connection, switch: str, left: str) -> None:
    await stale_runs(connection, "run")
    await stale_claims(connection, "claim")
    await enqueue(connection, "late", good_until="now()")
    before = await task(connection, left)
    done = await recover(connection, RecoveryConfig(**{switch: False}))
    assert (done.changed, done.expired) == (2, 1)
    assert await task(connection, left) == before


async def test_each_threshold_is_its_own(connection: asyncpg.Connection) -> None:
    long, short = 3_600_000, 60_000
    beats = {"runner_heartbeat_interval_ms": 30_000, "claimer_heartbeat_interval_ms": 30_000}
    await stale_runs(connection, "run")
    await stale_claims(connection, "claim")
    both_long = {"running_stale_threshold_ms": long, "claimed_stale_threshold_ms": long, **beats}
    assert await recover(connection, RecoveryConfig(**both_long)) == Recovered()
    assert await recover(connection, RecoveryConfig(**both_long | {"claimed_stale_threshold_ms": short})) == Recovered(
        requeued=1
    )
    assert await recover(connection, RecoveryConfig(**both_long | {"running_stale_threshold_ms": short})) == Recovered(
        failed=1
    )


async def test_tasks_of_workflows_are_settled_like_others(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t", is_workflow_task="true", max_retries="3", task_options=CRASH)
    await stale_runs(connection, "u", is_workflow_task="true")
    assert await sweep_runs(connection) == Recovered(retried=1, failed=1)


async def test_a_bad_row_is_reported_and_stepped_over_in_every_sweep(connection: asyncpg.Connection) -> None:
    names = [f"{number:03}" for number in range(90)]
    await stale_runs(connection, *(f"r{name}" for name in names))
    await stale_claims(connection, *(f"c{name}" for name in names))
    await enqueue(connection, *(f"p{name}" for name in names), good_until="now()")
    await poison(connection, "horsies_tasks", "UPDATE", "r007", "r089", "c033", "p000")
    done = await recover(connection, RecoveryConfig())
    assert (done.failed, done.requeued, done.expired) == (88, 89, 89)
    assert [one.item for one in done.refused] == ["c033", "r007", "r089", "p000"]
    assert {one.error for one in done.refused if one.item == "r007"} == {"RaiseError: row r007 is poison"}
    assert done.report()["refused"] == 4
    assert done.report()["refused_tasks"][1] == {"id": "r007", "error": "RaiseError: row r007 is poison"}
    again = await recover(connection, RecoveryConfig())
    assert (again.changed, [one.item for one in again.refused]) == (0, ["c033", "r007", "r089", "p000"])


async def test_a_sweep_that_may_not_write_says_so_instead_of_trying_every_row(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "t")
    await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await recover(connection, RecoveryConfig())


async def test_two_retries_of_one_sweep_do_not_fall_due_together(connection: asyncpg.Connection) -> None:
    jittered = json.loads(CRASH.strip("'"))
    jittered["retry_policy"]["jitter"] = True
    columns = {"max_retries": "3", "task_options": f"'{json.dumps(jittered)}'"}
    await stale_runs(connection, *(f"{number}" for number in range(20)), **columns)
    assert await sweep_runs(connection, rng=random.Random(1)) == Recovered(retried=20)
    assert await connection.fetchval("SELECT count(DISTINCT next_retry_at) FROM horsies_tasks") == 20


FILL = f"""
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at, max_retries)
SELECT {uuid7()}, 'demo.add', 'default', 'RUNNING', 'alive', at, at, 3
  FROM generate_series(1, 2000), LATERAL (SELECT now() - interval '1 h' AS at) time;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT id, 'alive:1', 'runner', now() - n * interval '30 s' FROM horsies_tasks, generate_series(0, 20) n;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at, max_retries,
                           task_options)
SELECT {uuid7()}, 'demo.add', 'queue-' || n % 9, 'RUNNING', 'dead-' || n % 40, at, at, 3,
       CASE n % 2 WHEN 0 THEN {CRASH} END
  FROM generate_series(1, 10000) n, LATERAL (SELECT now() - interval '1 h' AS at) time;
"""


@pytest.mark.chaos
@pytest.mark.alone
async def test_2_000_healthy_and_10_000_stale_runs_are_swept_in_two_seconds_and_small_transactions(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(f"SET session_replication_role = replica; {FILL} SET session_replication_role = origin")
    await connection.execute("ANALYZE")
    dedicated = await asyncpg.connect(database, server_settings=HOT_PATH)
    begin = time.perf_counter()
    done = await recover(dedicated, RecoveryConfig())
    took = time.perf_counter() - begin
    assert done == Recovered(retried=5_000, failed=5_000)
    assert took < 2
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING'") == 2_000
    largest = "SELECT max(count) FROM (SELECT count(*) FROM horsies_task_attempts GROUP BY xmin) AS transactions"
    assert await connection.fetchval(largest) == 200
    begin = time.perf_counter()
    assert await recover(dedicated, RecoveryConfig()) == Recovered()
    assert time.perf_counter() - begin < 0.5
    await dedicated.close()


async def test_a_worker_that_cannot_be_judged_costs_only_its_own_runs(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "kept", worker="odd")
    await stale_runs(connection, "lost", worker=OTHER)
    await connection.execute(
        "CREATE OR REPLACE FUNCTION horsies_runs_silent_before(worker text, threshold_ms double precision,"
        " beat_ms double precision) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$ BEGIN"
        " IF worker = 'odd' THEN RAISE numeric_value_out_of_range; END IF;"
        " RETURN statement_timestamp() - threshold_ms * interval '1 ms'; END $$"
    )
    done = await sweep_runs(connection)
    assert (done.failed, [one.item for one in done.refused]) == (1, ["all runs of odd"])
    assert await statuses(connection) == {"kept": "RUNNING", "lost": "FAILED"}


async def test_a_run_that_is_failed_and_one_that_is_retried_are_told(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "f")
    await stale_runs(connection, "r", max_retries="5", retry_count="2", task_options=options("WORKER_CRASHED"))
    await pulse_row(connection)
    app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))
    told: list[TaskFailed | TaskRetried] = []
    app.on("task_failed", told.append)
    app.on("task_retried", told.append)
    events = Events()
    hooks = Hooks(app.hooks, events, "rescuer")
    events.observers.append(hooks)
    rule = StaleSweep.of_runs(RecoveryConfig(), events)
    for _ in range(2):  # the second sweep finds nothing more
        await rule.do(connection)
    await hooks.close(10)
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM horsies_tasks")}
    assert {one.task_id for one in told} == {"f", "r"}
    assert len(told) == 2
    for one in told:
        assert (one.error_code, one.worker_id, one.found_by_sweep) == ("WORKER_CRASHED", "rescuer", True)
        assert (one.task_name, one.queue_name) == (rows[one.task_id]["task_name"], rows[one.task_id]["queue_name"])
        assert "its worker crashed" in (one.error_message or "")
    (failed,) = (one for one in told if isinstance(one, TaskFailed))
    (retried,) = (one for one in told if isinstance(one, TaskRetried))
    assert (failed.task_id, failed.attempt) == ("f", 1)
    assert (retried.task_id, retried.attempt) == ("r", 3)
    assert retried.retry_at == rows["r"]["next_retry_at"]
