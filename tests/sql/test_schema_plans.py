"""Each documented index serves the query that it exists for, on a table full of finished tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from database_server import DatabaseServer

FILL = """
SET session_replication_role = replica; -- nobody listens to 50 000 notifications

INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, enqueued_at, sent_at, started_at,
                           completed_at, failed_at, error_code, good_until, next_retry_at)
SELECT gen_random_uuid(), 'demo.add', 'q' || n % 4, status, 'w-' || n % 10, at, at, at + '1 s',
       CASE status WHEN 'COMPLETED' THEN at + '2 s' END, CASE WHEN status IN ('FAILED', 'EXPIRED') THEN at + '2 s' END,
       CASE status WHEN 'FAILED' THEN 'CODE_' || n % 7 END,
       CASE WHEN n % 10 = 0 THEN at + '1 h' END, CASE WHEN n % 10 = 1 THEN at END
  FROM generate_series(1, 50000) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '30 s' AS at,
                            CASE WHEN n % 50 = 0 THEN 'FAILED' WHEN n % 501 = 0 THEN 'EXPIRED'
                                 WHEN n % 503 = 0 THEN 'CANCELLED' ELSE 'COMPLETED' END AS status) AS row;

INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at,
                           claim_expires_at, started_at, good_until, next_retry_at)
SELECT gen_random_uuid(), 'demo.add', 'q' || n % 4, status, status = 'CLAIMED',
       CASE WHEN status <> 'PENDING' THEN 'w-' || n % 10 END, now(), now(), now(),
       CASE WHEN n % 20 = 0 THEN now() + n * interval '1 s' END,
       CASE WHEN n % 20 = 1 THEN now() + n * interval '1 s' END
  FROM generate_series(1, 4000) n
 CROSS JOIN LATERAL (SELECT CASE WHEN n % 20 < 18 THEN 'PENDING' WHEN n % 20 = 18 THEN 'CLAIMED' ELSE 'RUNNING' END
                            AS status) AS row;

INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, error_code)
SELECT id, 1, CASE status WHEN 'FAILED' THEN 'FAILED' ELSE 'COMPLETED' END, started_at, started_at + '1 s', error_code
  FROM horsies_tasks WHERE status IN ('COMPLETED', 'FAILED');

INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT 'task-' || n % 500, 'w:1', 'runner', now() - n * interval '1 s' FROM generate_series(1, 20000) n;

INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at)
SELECT 'w-' || n % 10, now() - n * interval '1 s', 'host', 1, 1, 1, 1, '{}', now() FROM generate_series(1, 20000) n;
"""

FINISHED = "status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')"

# what it is for: (the index that serves it, the query)
QUERIES = {
    "queue_name: claim": (
        "ix_horsies_tasks_ready",
        "SELECT id FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = 'q1' AND enqueued_at <= now()"
        " AND (next_retry_at IS NULL OR next_retry_at <= now()) AND (good_until IS NULL OR good_until > now())"
        " ORDER BY priority, enqueued_at, id LIMIT 16 FOR UPDATE SKIP LOCKED",
    ),
    "queue_name: depth": (
        "ix_horsies_tasks_ready",
        "SELECT queue_name, count(*) FROM horsies_tasks WHERE status = 'PENDING' GROUP BY queue_name",
    ),
    "queue_name: cap": (
        "ix_horsies_tasks_in_flight",
        "SELECT count(*) FROM horsies_tasks WHERE queue_name = 'q1' AND (status = 'RUNNING'"
        " OR status = 'CLAIMED' AND (claim_expires_at IS NULL OR claim_expires_at > now()))"
        " AND status IN ('CLAIMED', 'RUNNING')",
    ),
    "status: expired leases": (
        "ix_horsies_tasks_in_flight",
        "SELECT id FROM horsies_tasks WHERE status = 'CLAIMED' AND claim_expires_at < now()",
    ),
    "status: runs that may be stale": (
        "ix_horsies_tasks_in_flight",
        "SELECT id FROM horsies_tasks WHERE status = 'RUNNING' AND started_at < now() - interval '5 min'",
    ),
    "status: failures, newest first": (
        "ix_horsies_tasks_unsuccessful",
        "SELECT id FROM horsies_tasks WHERE status = 'FAILED' ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT 50",
    ),
    "status: successes, newest first": (
        "ix_horsies_tasks_finished",
        "SELECT id FROM horsies_tasks WHERE status = 'COMPLETED'"
        " ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT 50",
    ),
    "status: how many expired": (
        "ix_horsies_tasks_unsuccessful",
        "SELECT count(*) FROM horsies_tasks WHERE status = 'EXPIRED'",
    ),
    "status: finished lately": (
        "ix_horsies_tasks_finished",
        f"SELECT status, count(*) FROM horsies_tasks WHERE {FINISHED}"
        " AND COALESCE(completed_at, failed_at) > now() - interval '5 min' GROUP BY status",
    ),
    "status: retention": (
        "ix_horsies_tasks_finished",
        f"SELECT id FROM horsies_tasks WHERE {FINISHED}"
        " AND COALESCE(completed_at, failed_at) < now() - interval '34 days' LIMIT 1000",
    ),
    "status: retention of rows without a time": (
        "ix_horsies_tasks_finished",
        f"SELECT id FROM horsies_tasks WHERE {FINISHED} AND COALESCE(completed_at, failed_at) IS NULL"
        " AND updated_at < now() - interval '30 days' LIMIT 1000",
    ),
    "claimed: beat and lease renewal": (
        "ix_horsies_tasks_claimed_by",
        "UPDATE horsies_tasks SET claim_expires_at = now() WHERE claimed AND claimed_by_worker_id = 'w-8'",
    ),
    "good_until: expire": (
        "ix_horsies_tasks_expiring",
        "SELECT id FROM horsies_tasks WHERE status = 'PENDING' AND good_until <= now()",
    ),
    "next_retry_at: next wake-up": (
        "ix_horsies_tasks_retrying",
        "SELECT min(next_retry_at) FROM horsies_tasks WHERE status = 'PENDING' AND next_retry_at > now()",
    ),
    "error_code: tasks that failed with it": (
        "idx_horsies_tasks_error_code",
        "SELECT id FROM horsies_tasks WHERE error_code = 'CODE_1'",
    ),
    "attempts, error_code": (
        "idx_horsies_task_attempts_error_code",
        "SELECT task_id FROM horsies_task_attempts WHERE error_code = 'CODE_1'",
    ),
    "attempts, finished_at": (
        "idx_horsies_task_attempts_finished_at_desc",
        "SELECT outcome, count(*) FROM horsies_task_attempts WHERE finished_at > now() - interval '1 h' GROUP BY 1",
    ),
    "attempts, task_id": (
        "uq_horsies_task_attempts_task_attempt",
        "SELECT * FROM horsies_task_attempts WHERE task_id = 'x' ORDER BY attempt",
    ),
    "heartbeats: newest of a task": (
        "idx_horsies_heartbeats_task_role_sent",
        "SELECT max(sent_at) FROM horsies_heartbeats WHERE task_id = 'task-1' AND role = 'runner'",
    ),
    "workers: newest of a worker": (
        "ix_horsies_worker_states_worker_latest",
        "SELECT * FROM horsies_worker_states WHERE worker_id >= 'w-1' ORDER BY worker_id, snapshot_at DESC LIMIT 1",
    ),
    "workers: load of a worker": (
        "ix_horsies_worker_states_worker_latest",
        "SELECT snapshot_at, tasks_running, tasks_claimed FROM horsies_worker_states"
        " WHERE worker_id = 'w-1' AND snapshot_at > now() - interval '1 h'",
    ),
    "workers: retention": (
        "ix_horsies_worker_states_snapshot_at",
        "SELECT id FROM horsies_worker_states WHERE snapshot_at < now() - interval '7 days'",
    ),
}


@pytest.fixture(scope="module")
def full_database(server: DatabaseServer) -> Iterator[str]:
    """A database with 50,000 finished and 4,000 live tasks."""
    with server.filled_database(FILL) as url:
        yield url


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def planned(database: str, query: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(database)
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {query}"))
    await connection.close()
    return list(nodes(plan[0]["Plan"]))


@pytest.mark.parametrize("purpose", QUERIES)
async def test_the_query_uses_its_index_and_reads_no_whole_table(full_database: str, purpose: str) -> None:
    index, query = QUERIES[purpose]
    steps = await planned(full_database, query)
    assert "Seq Scan" not in {step["Node Type"] for step in steps}
    assert {step["Index Name"] for step in steps if "Index Name" in step} == {index}


async def test_the_claim_reads_in_order_and_sorts_nothing(full_database: str) -> None:
    steps = await planned(full_database, QUERIES["queue_name: claim"][1])
    assert [step["Node Type"] for step in steps] == ["Limit", "LockRows", "Index Scan"]


async def test_a_claim_of_upstream_with_its_or_finds_indexes_too(full_database: str) -> None:
    steps = await planned(
        full_database,
        "SELECT id FROM horsies_tasks WHERE queue_name = 'q1' AND (status = 'PENDING'"
        " OR status = 'CLAIMED' AND claim_expires_at IS NOT NULL AND claim_expires_at < now())"
        " AND enqueued_at <= now() ORDER BY priority, enqueued_at, id LIMIT 2 FOR UPDATE SKIP LOCKED",
    )
    used = {step["Index Name"] for step in steps if "Index Name" in step}
    assert used == {"ix_horsies_tasks_ready", "ix_horsies_tasks_in_flight"}
