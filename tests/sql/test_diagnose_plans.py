"""Each read of the recovery report uses indexes, with 80,000 finished tasks and 10,000 in flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from plan_steps import nodes
from statements import statement

from horsies.findings.diagnose import diagnose
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.searches.in_flight import STALE_RUN, WORKER_LOST
from horsies.findings.searches.waiting_tasks import PAUSED_QUEUE, UNKNOWN_NAME
from horsies.findings.why import ReasonKind, why_pending
from horsies.views.reader_session import READER_SETTINGS

FILL = """
SET session_replication_role = replica; -- nobody listens to 80 000 notifications

INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, enqueued_at, started_at,
                           completed_at, failed_at, error_code, next_retry_at)
SELECT 'old-' || n, 'demo.old', 'q' || n % 4, status, 'w-' || n % 500, at, at, at,
       CASE status WHEN 'COMPLETED' THEN at END, CASE status WHEN 'FAILED' THEN at END,
       CASE WHEN status = 'FAILED' THEN CASE WHEN n % 5000 = 0 THEN 'TASK_INTERRUPTED' ELSE 'CODE_' || n % 7 END END, at
  FROM generate_series(1, 80000) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '10 s' AS at,
                            CASE WHEN n % 8 = 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status) AS row;

-- All began long ago: each needs a look at its beats. Those of worker w-7 have none. A child has two or three.
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at, started_at,
                           claim_expires_at, worker_pid)
SELECT 'held-' || n, 'demo.add', 'q' || n % 4, status, status = 'CLAIMED', 'w-' || n % 500, now() - interval '1 h',
       CASE status WHEN 'RUNNING' THEN now() - interval '1 h' END, now() + interval '1 min',
       CASE status WHEN 'RUNNING' THEN n % 4000 END
  FROM generate_series(1, 10000) n
 CROSS JOIN LATERAL (SELECT CASE WHEN n % 1000 < 100 THEN 'CLAIMED' ELSE 'RUNNING' END AS status) AS row;

INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT 'held-' || n, 'w-' || n % 500, CASE WHEN n % 1000 < 100 THEN 'claimer' ELSE 'runner' END,
       now() - beat * interval '20 s'
  FROM generate_series(1, 10000) n CROSS JOIN generate_series(0, 9) beat WHERE n % 500 <> 7;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT 'old-' || n, 'w-' || n % 500, 'runner', now() - n * interval '10 s' FROM generate_series(1, 50000) n;

INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, good_until, next_retry_at)
SELECT 'wait-' || n, CASE WHEN n % 100 = 0 THEN 'demo.unknown' ELSE 'demo.add' END, 'q' || n % 5, 1 + n % 3,
       now() + (n % 50 - 25) * interval '1 min',
       CASE WHEN n % 200 = 1 THEN now() - interval '1 min' END, CASE WHEN n % 10 = 2 THEN now() - interval '1 h' END
  FROM generate_series(1, 20000) n;

-- 499 living workers for a minute and one that fell silent, and a week of those that came before.
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch, recovery_config,
                                   max_claim_per_worker, queues, worker_started_at, task_names)
SELECT 'w-' || n, now() - turn * interval '5 s' - CASE n WHEN 7 THEN interval '20 min' ELSE interval '0' END, 'host', 1,
       8, 8, '{"running_stale_threshold_ms": 300000}', 8, '{q0,q1,q2,q3}', now(),
       CASE turn WHEN 11 THEN ARRAY(SELECT 'demo.task' || k FROM generate_series(1, 100) k) || 'demo.add'::text END
  FROM generate_series(0, 499) n CROSS JOIN generate_series(0, 12) turn;
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at)
SELECT 'past-' || n % 300, now() - interval '1 h' - n * interval '5 s', 'host', 1, 8, 8, 8, '{q0}', now()
  FROM generate_series(1, 30000) n;

INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('q1', now());
"""

# the reads of the report and of "why": (the statement, its arguments, how many entries it may look at)
READS = {
    "diagnose_settings": ("", 10),
    "diagnose_consumers": ("(30, '{}')", 20_000),
    "diagnose_memory": ("(30, 0.9, 500)", 20_000),
    "diagnose_in_flight": ("(120000, 300000, 300000, 500)", 40_000),
    "diagnose_holders": ("(30, 500)", 40_000),
    "diagnose_waiting": ("('{q1}', '{q0,q1,q2,q3}', '{q0,q1,q2,q3}', '{q0}', '{demo.add}', 60, 500)", 25_000),
    "diagnose_expiring": ("(10000, 500)", 10_000),
    "diagnose_interrupted": ("(10000, 500)", 10_000),
    "diagnose_names_that_run": ("(30, 40)", 10_000),
    "diagnose_queues_that_wait": ("(15)", 15_000),
    "diagnose_full_workers": ("(15, 30, '{q0}')", 20_000),
    "diagnose_long_runs": ("('{demo.add,demo.old}', '{1800,30}', '{300,30}', '{w-1}', '{}', 15, 300000, 500)", 30_000),
    "diagnose_behind_busy": ("(15, 30, '{}', 500)", 40_000),
    "view_usual_durations": ("('{demo.add,demo.old}', '1 day', 500)", 1_000),
    "view_usual_attempts": ("('{demo.add,demo.old}', '1 day', 10000)", 20_000),
    "look_occupant": ("('w-1')", 10_000),
    "diagnose_task": ("('wait-3')", 1),
    "diagnose_claim": ("('held-1', 5)", 11_000),
    "diagnose_ahead": ("('q3', 3, now(), 'wait-3', 10000)", 10_000),
    "diagnose_used": ("('q1')", 10_000),
}

MODES = {
    "reader": dict(READER_SETTINGS),
    "auto": {"plan_cache_mode": "auto"},
    "generic": {"plan_cache_mode": "force_generic_plan"},
}
LARGE = {"horsies_tasks", "horsies_heartbeats", "horsies_worker_states"}


@pytest.fixture(params=MODES)
async def reader(request: pytest.FixtureRequest, full_database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(full_database, server_settings=MODES[request.param])
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", READS)
async def test_no_read_goes_through_a_large_table(reader: asyncpg.Connection, name: str) -> None:
    arguments, most = READS[name]
    await reader.execute(f"PREPARE hot AS {statement(name)}")
    plan = json.loads(await reader.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot{arguments}"))
    steps = list(nodes(plan[0]["Plan"]))
    assert not [step for step in steps if step["Node Type"] == "Seq Scan" and step["Relation Name"] in LARGE]
    read = [
        (step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) * step["Actual Loops"]
        for step in steps
        if "Relation Name" in step
    ]
    assert sum(read) <= most


async def test_the_whole_report_and_a_why_come_from_it_within_moments(reader: asyncpg.Connection) -> None:
    async with asyncio.timeout(60):
        report = await diagnose(reader)
        why = await why_pending(reader, "wait-53")
    found = {(finding.kind, finding.name): finding for finding in report.findings}
    (gone,) = (finding for finding in report.findings if finding.kind is WORKER_LOST)
    assert (gone.name, gone.count) == ("w-7", 20)
    assert {finding.worker_id for finding in report.findings if finding.kind is STALE_RUN} == {"w-7"}
    assert found[UNKNOWN_NAME, "demo.unknown"].queue_name == "q0"
    assert found[PAUSED_QUEUE, "q1"].count > 1_000
    assert found[INTERRUPTED, "demo.old"].count == 16
    assert why is not None
    assert [reason.kind for reason in why.reasons] == [ReasonKind.BEHIND]
