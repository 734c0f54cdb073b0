"""What the indexes of horsies_tasks cost: our partial ones against one full index for each documented column."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import asyncpg
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from database_server import DatabaseServer

pytestmark = pytest.mark.bench

WORKER = "worker-host:4242:00000000-0000-0000-0000-000000000007"
ROUNDS = 7
FINISHED_BEFORE = 50_000
TASKS_BY_BATCH = {1: 2_000, 10: 6_000, 50: 15_000}
NOISE = 0.90

AS_MIGRATED = "SELECT 1"

# Upstream's indexes, with the claim index without which neither profile is worth measuring.
DOCUMENTED = """
DROP INDEX ix_horsies_tasks_in_flight, ix_horsies_tasks_claimed_by, ix_horsies_tasks_finished,
    ix_horsies_tasks_unsuccessful, ix_horsies_tasks_expiring, ix_horsies_tasks_retrying;
CREATE INDEX ON horsies_tasks (queue_name);
CREATE INDEX ON horsies_tasks (status);
CREATE INDEX ON horsies_tasks (claimed);
CREATE INDEX ON horsies_tasks (good_until);
CREATE INDEX ON horsies_tasks (next_retry_at);
"""

INSERT = """
INSERT INTO horsies_tasks (id, task_name, queue_name, args, status, sent_at, enqueue_sha, claimed_by_worker_id,
                           completed_at)
SELECT uuidv7()::text, 'demo.add', 'default', '[1,2]', '{status}', now(), repeat('ab', 32), {finished}
  FROM generate_series(1, {count})
"""

CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM horsies_tasks
     WHERE status = 'PENDING' AND queue_name = $1 AND enqueued_at <= now()
       AND (next_retry_at IS NULL OR next_retry_at <= now()) AND (good_until IS NULL OR good_until > now())
     ORDER BY priority, enqueued_at, id LIMIT {batch} FOR UPDATE SKIP LOCKED
)
UPDATE horsies_tasks task
   SET status = 'CLAIMED', claimed = true, claimed_at = now(), claimed_by_worker_id = $2,
       claim_expires_at = now() + interval '60 s', updated_at = now()
  FROM picked WHERE task.id = picked.id
RETURNING task.id, task.claimed_at, task.task_name, task.args, task.kwargs
"""

START = """
UPDATE horsies_tasks task
   SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = now(), worker_pid = 4242,
       worker_hostname = 'worker-host', worker_process_name = 'worker-4242', updated_at = now()
  FROM unnest($1::text[], $2::timestamptz[]) AS token (id, claimed_at)
 WHERE task.id = token.id AND task.claimed_at = token.claimed_at AND task.claimed_by_worker_id = $3
   AND task.status = 'CLAIMED'
RETURNING task.id
"""

FINISH = """
WITH finished AS (
    UPDATE horsies_tasks task
       SET status = 'COMPLETED', completed_at = now(), result = '{"__task_result__":true,"ok":3,"err":null}',
           error_code = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = now()
      FROM unnest($1::text[], $2::timestamptz[]) AS token (id, claimed_at)
     WHERE task.id = token.id AND task.claimed_at = token.claimed_at AND task.claimed_by_worker_id = $3
       AND task.status = 'RUNNING'
    RETURNING task.id, task.retry_count, task.started_at
)
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, worker_id, worker_hostname,
                                   worker_pid, worker_process_name)
SELECT id, retry_count + 1, 'COMPLETED', started_at, now(), $3, 'worker-host', 4242, 'worker-4242' FROM finished
RETURNING task_id
"""


@dataclass(frozen=True, slots=True)
class Run:
    tasks_per_s: float
    wal_bytes_per_task: float


async def fill(connection: asyncpg.Connection, status: str, count: int) -> None:
    """Insert tasks without notifications, whose cost is not measured here."""
    finished = f"'{WORKER}', now()" if status == "COMPLETED" else "NULL, NULL"
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(INSERT.format(status=status, count=count, finished=finished))
    await connection.execute("SET session_replication_role = origin")


async def drain(connection: asyncpg.Connection, batch: int) -> Run:
    """Claim, start and finish every pending task, a batch in three statements, each in its own transaction."""
    count = TASKS_BY_BATCH[batch]
    await fill(connection, "PENDING", count)
    claim, start, finish = [await connection.prepare(text) for text in (CLAIM.format(batch=batch), START, FINISH)]
    for statement in ("VACUUM ANALYZE horsies_tasks", "VACUUM ANALYZE horsies_task_attempts", "CHECKPOINT"):
        await connection.execute(statement)
    position = await connection.fetchval("SELECT pg_current_wal_lsn()")
    began, done = time.perf_counter(), 0
    while done < count:
        claimed = await claim.fetch("default", WORKER)
        tokens = [row["id"] for row in claimed], [row["claimed_at"] for row in claimed], WORKER
        await start.fetch(*tokens)
        done += len(await finish.fetch(*tokens))
    elapsed = time.perf_counter() - began
    written = await connection.fetchval("SELECT pg_current_wal_lsn() - $1::pg_lsn", position)
    return Run(count / elapsed, float(written) / count)


@asynccontextmanager
async def profile(server: DatabaseServer, change: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection with a worker's settings, to a separate database with these indexes."""
    with server.database() as database:
        connection = await asyncpg.connect(database, server_settings={"plan_cache_mode": "force_generic_plan"})
        await connection.execute(change)
        await fill(connection, "COMPLETED", FINISHED_BEFORE)
        yield connection
        await connection.close()


async def test_the_partial_indexes_are_not_slower_than_the_full_ones(
    server: DatabaseServer, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    async with (
        profile(server, DOCUMENTED) as full,
        profile(server, AS_MIGRATED) as partial,
    ):
        for _ in range(ROUNDS):
            for batch in TASKS_BY_BATCH:
                runs["full", batch].append(await drain(full, batch))
                runs["partial", batch].append(await drain(partial, batch))
    report(runs, capsys)

    for batch in TASKS_BY_BATCH:
        ratio = rate(runs["partial", batch]) / rate(runs["full", batch])
        assert ratio > NOISE, f"slower in batches of {batch}"


def rate(runs: list[Run]) -> float:
    return median(run.tasks_per_s for run in runs)


def wal(runs: list[Run]) -> float:
    return median(run.wal_bytes_per_task for run in runs)


def report(runs: dict[tuple[str, int], list[Run]], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\nbatch   tasks/s: full  partial  ratio   WAL bytes/task: full  partial  ratio")
        for batch in TASKS_BY_BATCH:
            full, partial = runs["full", batch], runs["partial", batch]
            print(
                f"{batch:>5} {rate(full):>15,.0f} {rate(partial):>8,.0f} {rate(partial) / rate(full):>6.2f}"
                f" {wal(full):>22,.0f} {wal(partial):>8,.0f} {wal(partial) / wal(full):>6.2f}"
            )
