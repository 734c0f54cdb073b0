"""The cost of the guards, histories and conversions of the lifecycle: its functions against three plain updates."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

import asyncpg
import pytest

from horsies.lifecycle.claiming import ClaimRequest, Start, claim, start
from horsies.lifecycle.finishing import Outcome, OutcomeKind, finish

pytestmark = pytest.mark.bench

WORKER = "worker-host:4242:00000000-0000-0000-0000-000000000007"
RESULT = '{"__task_result__":true,"ok":3,"err":null}'
ROUNDS = 7
FINISHED_BEFORE = 50_000
TASKS_BY_BATCH = {1: 1_000, 10: 5_000, 50: 10_000, 100: 15_000}
# The test server writes to memory. On a disk a batch of one takes twice as long, and the claim, which does not wait for
# the disk, compensates: 1,450 tasks/s against 1,470 there, 8,500 against 9,200, 17,100 against 20,900 and 19,700
# against 24,800 in batches of 1, 10, 50 and 100.
LEAST_SHARE_OF_BARE = {1: 0.4, 10: 0.6, 50: 0.6, 100: 0.6}

# The settings of a worker's dedicated connection.
SETTINGS = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}

INSERT = """
INSERT INTO horsies_tasks (id, task_name, queue_name, args, task_options, status, sent_at, enqueue_sha,
                           claimed_by_worker_id, completed_at)
SELECT uuidv7()::text, 'demo.add', 'default', '[1,2]', '{{"retry_policy":null,"good_until":null}}', '{status}', now(),
       repeat('ab', 32), {finished}
  FROM generate_series(1, {count})
"""

CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = $1
     ORDER BY priority, enqueued_at, id LIMIT {batch} FOR UPDATE SKIP LOCKED
)
UPDATE horsies_tasks task
   SET status = 'CLAIMED', claimed = true, claimed_at = now(), claimed_by_worker_id = $2,
       claim_expires_at = now() + interval '60 s', updated_at = now()
  FROM picked WHERE task.id = picked.id
RETURNING task.id, task.task_name, task.args, task.kwargs
"""

START = """
UPDATE horsies_tasks
   SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = now(), worker_pid = 4242,
       worker_hostname = 'worker-host', worker_process_name = 'worker-4242', updated_at = now()
 WHERE id = ANY ($1::text[])
"""

FINISH = """
WITH finished AS (
    UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now(), result = $2, updated_at = now()
     WHERE id = ANY ($1::text[])
    RETURNING id, retry_count, started_at
)
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, worker_id, worker_hostname,
                                   worker_pid, worker_process_name)
SELECT id, retry_count + 1, 'COMPLETED', started_at, now(), $3, 'worker-host', 4242, 'worker-4242' FROM finished
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One drain: the time per task and for each of the three statements."""

    tasks_per_s: float
    claim_ms: float
    start_ms: float
    finish_ms: float


class Clock:
    """Adds up the time from each mark to the next."""

    def __init__(self) -> None:
        self.spent = [0.0, 0.0, 0.0]
        self._last = time.perf_counter()

    def mark(self, part: int) -> None:
        now = time.perf_counter()
        self.spent[part] += now - self._last
        self._last = now


async def bare_batch(connection: asyncpg.Connection, batch: int, clock: Clock) -> int:
    rows = await connection.fetch(CLAIM.format(batch=batch), "default", WORKER)
    ids = [row["id"] for row in rows]
    clock.mark(0)
    await connection.execute(START, ids)
    clock.mark(1)
    await connection.execute(FINISH, ids, RESULT, WORKER)
    clock.mark(2)
    return len(rows)


async def lifecycle_batch(connection: asyncpg.Connection, batch: int, clock: Clock) -> int:
    claimed = await claim(connection, WORKER, ClaimRequest("default", batch, 60_000, ["demo.add", "demo.sum"]))
    clock.mark(0)
    verdicts = await start(
        connection, WORKER, [Start(task.token, 4242, "worker-host", "worker-4242") for task in claimed]
    )
    clock.mark(1)
    outcomes = [Outcome(token, OutcomeKind.COMPLETED, RESULT) for token in verdicts.started]
    finished = await finish(connection, WORKER, outcomes)
    clock.mark(2)
    return len(finished)


async def drain(
    connection: asyncpg.Connection, batch: int, step: Callable[[asyncpg.Connection, int, Clock], Awaitable[int]]
) -> Run:
    count, done = TASKS_BY_BATCH[batch], 0
    await fill(connection, "PENDING", count)
    for statement in ("VACUUM ANALYZE horsies_tasks", "VACUUM ANALYZE horsies_task_attempts", "CHECKPOINT"):
        await connection.execute(statement)
    clock = Clock()
    while done < count:
        done += await step(connection, batch, clock)
    per_batch = [spent * 1000 * batch / count for spent in clock.spent]
    return Run(count / sum(clock.spent), *per_batch)


async def fill(connection: asyncpg.Connection, status: str, count: int) -> None:
    """Insert tasks without notifications, whose cost is not measured here."""
    finished = f"'{WORKER}', now()" if status == "COMPLETED" else "NULL, NULL"
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(INSERT.format(status=status, count=count, finished=finished))
    await connection.execute("SET session_replication_role = origin")


@asynccontextmanager
async def worker_connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, server_settings=SETTINGS)
    await fill(connection, "COMPLETED", FINISHED_BEFORE)
    yield connection
    await connection.close()


async def test_guards_and_history_cost_less_than_the_updates_themselves(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    async with worker_connection(database) as connection:
        for _ in range(ROUNDS):
            for batch in TASKS_BY_BATCH:
                runs["bare", batch].append(await drain(connection, batch, bare_batch))
                runs["lifecycle", batch].append(await drain(connection, batch, lifecycle_batch))
    with capsys.disabled():
        print("\nbatch  who         tasks/s   claim   start  finish  ms")
        for batch in TASKS_BY_BATCH:
            for who in ("bare", "lifecycle"):
                middle = middle_of(runs[who, batch])
                print(
                    f"{batch:>5}  {who:<10} {middle.tasks_per_s:>8,.0f} {middle.claim_ms:>7.3f}"
                    f" {middle.start_ms:>7.3f} {middle.finish_ms:>7.3f}"
                )

    for batch in TASKS_BY_BATCH:
        share = middle_of(runs["lifecycle", batch]).tasks_per_s / middle_of(runs["bare", batch]).tasks_per_s
        assert share > LEAST_SHARE_OF_BARE[batch], f"slow in batches of {batch}"


def middle_of(runs: list[Run]) -> Run:
    return Run(
        median(run.tasks_per_s for run in runs),
        median(run.claim_ms for run in runs),
        median(run.start_ms for run in runs),
        median(run.finish_ms for run in runs),
    )
