"""Sweeps and retention read only their rows, by index, with 50,000 finished tasks and 80,000 heartbeats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from database_server import uuid7
from lifecycle_steps import MODES
from plan_steps import nodes
from statements import statement

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.recovering import Recovered, recover
from horsies.lifecycle.retention import PRUNED_TABLES, ages_of, prunable, prune

FILL = f"""
SET session_replication_role = replica; -- nobody listens to 50 000 notifications
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, enqueued_at, started_at,
                           completed_at)
SELECT {uuid7()}, 'demo.old', 'default', 'COMPLETED', 'worker-a', at, at, at, at + interval '1 s'
  FROM generate_series(1, 50000) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 s' AS at) time;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', started_at, completed_at FROM horsies_tasks;
INSERT INTO horsies_progress SELECT id, started_at, 5, 10, 'rows', 2, 1, now() FROM horsies_tasks;
INSERT INTO horsies_duplicate_sends SELECT id, 1, 5, now() FROM horsies_tasks;
INSERT INTO horsies_tasks (id, task_name, queue_name, status)
SELECT {uuid7()}, 'demo.old', 'default', 'CANCELLED' FROM generate_series(1, 3000) n;
INSERT INTO horsies_tasks (id, task_name, queue_name, good_until)
SELECT {uuid7()}, 'demo.add', 'default', now() + interval '1 h' FROM generate_series(1, 4000) n;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, claimed, started_at)
SELECT {uuid7()}, 'demo.add', 'queue-' || n % 5, (ARRAY['CLAIMED', 'RUNNING'])[1 + n % 2], 'worker-' || n % 9,
       now() - interval '1 h', n % 2 = 0, now() - interval '1 h'
  FROM generate_series(1, 400) n;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT id, 'w', CASE status WHEN 'CLAIMED' THEN 'claimer' ELSE 'runner' END, now() - n * interval '7 s'
  FROM horsies_tasks, generate_series(1, 200) n WHERE status IN ('CLAIMED', 'RUNNING');
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   worker_started_at, snapshot_at, recovery_config)
SELECT 'w-' || n % 20, 'h', 1, 1, 1, 1, '{{}}', now(), now() - n * interval '5 s', '{{}}'
  FROM generate_series(1, 20000) n;
INSERT INTO horsies_workflows (id, name, status, completed_at, root_workflow_id)
SELECT n::text, 'x', 'COMPLETED', now(), n::text FROM generate_series(1, 5000) n;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
SELECT id || '-' || n, id, n, 'x', 'COMPLETED', id || n FROM horsies_workflows, generate_series(1, 4) n;
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome)
SELECT now() - n * interval '1 min', gen_random_uuid(), 'fail', 'task', n::text, 'applied'
  FROM generate_series(1, 20000) n;
RESET session_replication_role;
INSERT INTO horsies_worker_losses (worker_id, taken_at)
SELECT 'w-' || n, now() - n * interval '1 min' FROM generate_series(1, 20000) n;
INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)
SELECT date_trunc('minute', now()) - n * interval '10 s', name, n
  FROM generate_series(1, 10000) n, (VALUES (''), ('a')) queue (name);
INSERT INTO horsies_outages (began_at, ended_at)
SELECT now() - n * interval '1 min' - interval '1 s', now() - n * interval '1 min' FROM generate_series(1, 20000) n;
INSERT INTO horsies_sweeps (swept_at, expired, repairs, workflows)
SELECT now() - n * interval '1 min', 1, 0, 0 FROM generate_series(1, 20000) n;
INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at)
SELECT 'schedule-' || n % 100, at, at
  FROM generate_series(1, 20000) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 s' AS at) time;
"""


def array(value: str) -> str:
    return f"array_fill({value}, ARRAY[50])"


IDS = "ARRAY['" + "', '".join(f"id-{number}" for number in range(50)) + "']"
TEXTS = array("'x'::text")
TOKENS = f"{IDS}, {TEXTS}, {array('now()')}"
PAGE = "86400.0, now() - interval '9 years', '', 5000"
NUMBERS = "86400.0, ARRAY[1, 2, 3]::bigint[]"
BEATS = "idx_horsies_heartbeats_task_role_sent"
NODES = {"ix_horsies_workflow_tasks_task_id", "horsies_workflows_pkey"}

STATEMENTS = {
    "stale_claims": ("300000, 30000, 100", {"ix_horsies_tasks_in_flight", BEATS}),
    "running_workers": ("", {"ix_horsies_tasks_in_flight"}),
    "stale_runs": ("300000, 300000, 30000, 100, '{w}'", {"ix_horsies_tasks_in_flight", BEATS}),
    "sweep_claims": (f"{TOKENS}, 300000, 30000", {"horsies_tasks_pkey", BEATS}),
    "sweep_runs": (
        f"{TOKENS}, {array('1.0::float8')}, {TEXTS}, {TEXTS}, 300000, 300000, 30000",
        {"horsies_tasks_pkey", BEATS, "uq_horsies_task_attempts_task_attempt"},
    ),
    "overdue_tasks": ("100", {"ix_horsies_tasks_expiring"}),
    "expire_pending": (f"{IDS}, {TEXTS}", {"horsies_tasks_pkey"}),
    "old_heartbeats": ("86400.0, now(), 0, 5000", {"horsies_heartbeats_pkey"}),
    "old_worker_states": (
        "604800.0, now() - interval '9 years', 0, 5000",
        {"ix_horsies_worker_states_snapshot_at"},
    ),
    "old_tasks": (PAGE, {"ix_horsies_tasks_finished", *NODES}),
    "old_untimed_tasks": (PAGE, {"ix_horsies_tasks_untimed", *NODES}),
    "old_workflows": (
        PAGE,
        {
            "ix_horsies_workflows_finished",
            "ix_horsies_workflows_root_workflow_id",
            "horsies_workflows_pkey",
            "uq_horsies_workflow_task_index",
        },
    ),
    "old_operator_actions": (
        "31536000.0, now() - interval '9 years', 0, 5000",
        {"ix_horsies_operator_actions_latest"},
    ),
    "old_worker_losses": (
        "31536000.0, now() - interval '9 years', 0, 5000",
        {"ix_horsies_worker_losses_latest"},
    ),
    "old_queue_samples": ("604800.0, now() - interval '9 years', 0, 5000", {"horsies_queue_samples_pkey"}),
    "old_outages": ("31536000.0, now() - interval '9 years', 0, 5000", {"ix_horsies_outages_latest"}),
    "old_sweeps": ("31536000.0, now() - interval '9 years', 0, 5000", {"ix_horsies_sweeps_latest"}),
    "old_schedule_runs": (PAGE, {"ix_horsies_schedule_runs_sent"}),
    "prune_schedule_runs": (
        """86400.0, array_fill('2026-01-02T03:04:05.000001+00:00|schedule-1'::text, ARRAY[50])""",
        {"horsies_schedule_runs_pkey"},
    ),
    "old_schedulers": ("604800.0, now() - interval '9 years', '', 5000", {"horsies_schedulers"}),  # a handful
    "old_sweep_state": ("604800.0, now() - interval '9 years', '', 5000", {"horsies_sweep_state"}),  # a handful of rows
    "prune_heartbeats": (NUMBERS, {"horsies_heartbeats_pkey"}),
    "prune_worker_states": (NUMBERS, {"horsies_worker_states_pkey"}),
    "prune_operator_actions": (NUMBERS, {"horsies_operator_actions_pkey"}),
    "prune_queue_samples": (NUMBERS, {"horsies_queue_samples_pkey"}),
    "prune_outages": (NUMBERS, {"horsies_outages_pkey"}),
    "prune_sweeps": (NUMBERS, {"horsies_sweeps_pkey"}),
    "prune_worker_losses": (NUMBERS, {"horsies_worker_losses_pkey"}),
    "prune_tasks": (
        f"86400.0, {IDS}",
        {"horsies_tasks_pkey", "horsies_progress_pkey", "horsies_duplicate_sends_pkey", *NODES},
    ),
    "prune_lock": (IDS, {"horsies_workflows_pkey"}),
    "prune_workflows": (
        f"86400.0, {IDS}, {IDS}",
        {"horsies_workflows_pkey", "ix_horsies_workflows_root_workflow_id", "uq_horsies_workflow_task_index"},
    ),
    "retention_settings": ("", {"ix_horsies_worker_states_snapshot_at"}),
}


TEXTS_OF_TABLES = {f"old_{one.name}": one.statement("old_rows") for one in PRUNED_TABLES if one.scan == "old_rows"} | {
    f"prune_{one.name}": one.statement("prune_rows") for one in PRUNED_TABLES if one.delete == "prune_rows"
}


@pytest.fixture(params=["worker", "generic"])
async def full(request: pytest.FixtureRequest, full_database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(full_database, server_settings=MODES[request.param])
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_statement_uses_its_indexes(full: asyncpg.Connection, name: str) -> None:
    arguments, indexes = STATEMENTS[name]
    await full.execute(f"PREPARE swept AS {TEXTS_OF_TABLES.get(name) or statement(name)}")
    call = f"swept({arguments})" if arguments else "swept"
    plan = json.loads(await full.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {call}"))
    steps = list(nodes(plan[0]["Plan"]))
    read = {step["Index Name"] for step in steps if "Index Name" in step}
    assert read | {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"} == indexes


READ = """
SELECT (SELECT sum(seq_scan) FROM pg_stat_user_tables
         -- of one row, and of a handful
         WHERE relname NOT IN ('horsies_pulse', 'horsies_schedulers', 'horsies_sweep_state'))::integer,
       (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::integer
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::integer
"""


@pytest.fixture(params=MODES)
async def sweeper(request: pytest.FixtureRequest, full_database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(full_database, server_settings=MODES[request.param])
    yield connection
    await connection.close()


async def test_a_pass_that_finds_nothing_reads_little_more_than_what_is_in_flight(sweeper: asyncpg.Connection) -> None:
    """400 in flight, a beat of each, and one page of the 80,000 heartbeats: the oldest ones."""
    ages = ages_of(RecoveryConfig())
    await sweeper.execute("SELECT pg_stat_force_next_flush()")
    before = await sweeper.fetchrow(READ)
    assert await recover(sweeper, RecoveryConfig()) == Recovered()
    assert set((await prune(sweeper, ages)).rows.values()) == {0}
    assert set((await prunable(sweeper, ages)).values()) == {0}
    await sweeper.execute("SELECT pg_stat_force_next_flush()")
    after = await sweeper.fetchrow(READ)
    assert after[0] == before[0]
    assert after[1] - before[1] < 2 * 5_000 + 5 * 400


STALE = """
WITH stale AS (
    INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at)
    SELECT gen_random_uuid(), 'demo.add', 'default', 'RUNNING', 'worker-a', at, at
      FROM generate_series(1, 200), LATERAL (SELECT now() - interval '1 h' AS at) time
    RETURNING id, claimed_by_worker_id, claimed_at
)
SELECT array_agg(quote_literal(id)), min(quote_literal(claimed_by_worker_id)), min(quote_literal(claimed_at)) FROM stale
"""


async def test_a_batch_of_stale_runs_is_not_read_again_for_each_of_them(full: asyncpg.Connection) -> None:
    await full.execute(f"PREPARE swept AS {statement('sweep_runs')}")
    async with full.transaction():
        ids, worker, claimed_at = await full.fetchrow(STALE)
        given = [f"ARRAY[{', '.join(ids)}]", *(f"array_fill({each}, ARRAY[200])" for each in (
            f"{worker}::text", f"{claimed_at}::timestamptz", "NULL::float8", "'x'::text", "'x'::text",
        ))]  # fmt: skip
        call = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE swept({', '.join(given)}, 300000, 300000, 30000)"
        steps = list(nodes(json.loads(await full.fetchval(call))[0]["Plan"]))
    (update,) = (step for step in steps if step.get("Operation") == "Update")
    assert update["Actual Rows"] == 200
    assert max(step["Actual Rows"] * step["Actual Loops"] for step in steps) == 200
