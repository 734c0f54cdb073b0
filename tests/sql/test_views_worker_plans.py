"""Workers and the tasks of one are read by index skips, with a week of snapshots of 500 workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from view_steps import cost

from horsies.query import TaskConditions
from horsies.views import Liveness, Sort, task_page, worker_rows

# A week with a snapshot every 40 minutes, and for a few workers an hour with one every 5 s: 1 s to fill. The index is
# as deep as with one every ten minutes; with all 60 million it is one level deeper. Each worker holds 8 tasks, each of
# which has beaten 20 times.
FILL = """
SET session_replication_role = replica;
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, queue_priorities, queue_max_concurrency,
                                   recovery_config, worker_started_at, tasks_running)
SELECT 'web-' || w, now() - n * interval '40 min', 'host', 1, 8, 8, 8, '{q0,q1,q2}', '{"q0": 1, "q1": 2, "q2": 3}',
       '{"q0": 5}', '{"running_stale_threshold_ms": 300000, "check_interval_ms": 30000}', now(), n % 8
  FROM generate_series(252, 0, -1) n CROSS JOIN generate_series(0, 499) w;
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at)
SELECT 'web-' || w, now() - n * interval '5 s', 'host', 1, 8, 8, 8, '{q0,q1,q2}', now()
  FROM generate_series(1, 720) n CROSS JOIN generate_series(0, 9) w;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at, started_at)
SELECT 't-' || n, 'shop.mail', 'q' || n % 3, status, status = 'CLAIMED', 'web-' || n % 500, now() - interval '10 min',
       CASE status WHEN 'RUNNING' THEN now() - interval '10 min' END
  FROM generate_series(1, 4000) n
 CROSS JOIN LATERAL (SELECT (ARRAY['CLAIMED', 'RUNNING'])[1 + n / 500 % 2] AS status) row;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT id, claimed_by_worker_id, CASE status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END,
       now() - k * interval '30 s'
  FROM horsies_tasks CROSS JOIN generate_series(0, 19) k;
"""
# The same snapshots and tasks, with nothing made of them: what this machine takes to read so much, in so many steps.
BARE = """
WITH RECURSIVE known AS (
    (SELECT worker_id FROM horsies_worker_states ORDER BY worker_id, snapshot_at DESC LIMIT 1)
     UNION ALL
    SELECT next.worker_id
      FROM known
     CROSS JOIN LATERAL (SELECT worker_id FROM horsies_worker_states WHERE worker_id > known.worker_id
                          ORDER BY worker_id, snapshot_at DESC LIMIT 1) next
)
SELECT *, (SELECT count(*) FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING'))
  FROM known
 CROSS JOIN LATERAL (SELECT * FROM horsies_worker_states WHERE worker_id = known.worker_id
                      ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest
"""
ROUNDS = 20
HELD = TaskConditions(("CLAIMED", "RUNNING")).among("worker", ("web-7",))


async def costs_ms(*reads: Callable[[], Awaitable[Any]]) -> list[float]:
    """The fastest of several of each, in turn: other load on the same two cores only makes it slower."""

    async def took(read: Callable[[], Awaitable[Any]]) -> float:
        begin = time.perf_counter()
        await read()
        return 1000 * (time.perf_counter() - begin)

    rounds = [[await took(read) for read in reads] for _ in range(ROUNDS)]
    return [min(of_one) for of_one in zip(*rounds, strict=True)]


async def test_the_newest_of_each_worker_is_read_and_no_other(full: asyncpg.Connection) -> None:
    await refresh(full)
    rows = await worker_rows(full)
    assert (len(rows), {row.liveness for row in rows}) == (500, {Liveness.ALIVE})
    whole, entries = await cost(full, lambda: worker_rows(full))
    assert whole == 0
    assert entries < 5_200  # 500 hops, 500 snapshots, 4 000 held tasks


@pytest.mark.bench
@pytest.mark.alone
async def test_the_newest_of_each_worker_takes_20_ms_or_little_more_than_to_read_them(full: asyncpg.Connection) -> None:
    await refresh(full)
    taken, bare = await costs_ms(lambda: worker_rows(full), lambda: full.fetch(BARE))
    print(f"{taken:.1f} ms, {bare:.1f} ms to read so much")
    assert taken < max(20, 3.5 * bare)  # 20 and 7 ms on a slow machine; with the beats of all workers it would be 34


async def test_beats_are_read_only_of_those_whose_snapshots_are_late(full: asyncpg.Connection) -> None:
    await refresh(full)
    _, of_the_living = await cost(full, lambda: worker_rows(full))
    await full.execute(
        "UPDATE horsies_worker_states SET snapshot_at = snapshot_at - interval '1 min' WHERE worker_id = 'web-7'"
    )
    rows = {row.id: row for row in await worker_rows(full)}
    assert rows["web-7"].seen_by == "beat"
    _, with_one_late = await cost(full, lambda: worker_rows(full))
    assert 0 < with_one_late - of_the_living < 100  # eight tasks of one worker, by either role


async def test_workers_seen_within_a_week_are_found_by_one_index_hop_each(full: asyncpg.Connection) -> None:
    whole, entries = await cost(full, lambda: worker_rows(full, gone_within=timedelta(days=7)))
    assert (whole, entries < 14_000) == (0, True)


async def test_the_tasks_of_one_worker_are_found_among_those_in_flight(full: asyncpg.Connection) -> None:
    page = await task_page(full, HELD, sort=Sort.OLDEST, limit=200)
    assert len(page.rows) == 8
    whole, entries = await cost(full, lambda: task_page(full, HELD, sort=Sort.OLDEST, limit=200))
    assert (whole, entries < 4_200) == (0, True)
    unknown = HELD.among("worker", ("unknown",))
    whole, entries = await cost(full, lambda: task_page(full, unknown, sort=Sort.OLDEST, limit=200))
    assert (whole, entries < 4_200) == (0, True)


async def refresh(full: asyncpg.Connection) -> None:
    """A new snapshot of each worker: filling took some seconds."""
    await full.execute(
        """SET session_replication_role = replica;
        INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,
                                           queues, queue_priorities, queue_max_concurrency, recovery_config,
                                           worker_started_at)
        SELECT 'web-' || w, 'host', 1, 8, 8, 8, '{q0,q1,q2}', '{"q0": 1, "q1": 2, "q2": 3}', '{"q0": 5}',
               '{"running_stale_threshold_ms": 300000, "check_interval_ms": 30000}', now()
          FROM generate_series(0, 499) w"""
    )
