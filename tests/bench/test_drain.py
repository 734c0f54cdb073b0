"""Queued tasks drained by one worker: ratios to procrastinate measured in the same run.

`pytest -m bench -n 0 -s tests/bench/test_drain.py` prints the figures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest
from peers import procrastinate

from horsies.domain.ids import new_task_id

pytestmark = pytest.mark.bench

HORSIES = Path(sys.executable).with_name("horsies")
HERE = Path(__file__).parent


# Two queries, each with its index: a single one over all three states reads the whole table, on one of two cores.
UNFINISHED = (
    "SELECT EXISTS (SELECT FROM horsies_tasks WHERE status = 'PENDING')"
    " OR EXISTS (SELECT FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING'))"
)


async def drain(
    connection: asyncpg.Connection,
    url: str,
    *options: str,
    task: str,
    count: int,
    processes: int,
    prefetch: int,
    finished: int = 0,
) -> dict[str, float]:
    """Tasks per second from the first start to the last finish, by the database's clock, and the worker's CPU."""
    await connection.execute("TRUNCATE horsies_tasks, horsies_heartbeats CASCADE")
    await connection.execute(
        "WITH done AS (INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at, result)"
        " SELECT uuidv7(), 'old', 'default', 'COMPLETED', now(), now() - number * interval '1 s', '{}'"
        " FROM generate_series(1, $1) number RETURNING id)"
        " INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT id, 1, 'COMPLETED', now(), now() FROM done",
        finished,
    )
    ids = [new_task_id() for _ in range(count)]
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, enqueue_sha) SELECT id, $2, 'default', 'bench'"
        " FROM unnest($1::text[]) id",
        ids,
        task,
    )
    # Otherwise autovacuum and a checkpoint for the earlier million rows would run meanwhile, on one of two cores.
    await connection.execute("VACUUM ANALYZE horsies_tasks, horsies_task_attempts")
    await connection.execute("CHECKPOINT")
    worker = subprocess.Popen(  # noqa: ASYNC220
        [HORSIES, "worker", "bench_app:app", "--processes", str(processes), "--loglevel", "WARNING", *options],
        env={**os.environ, "HORSIES_DATABASE_URL": url, "BENCH_PREFETCH": str(prefetch)},
        cwd=HERE,
        stdout=subprocess.DEVNULL,
    )
    try:
        while await connection.fetchval(UNFINISHED):
            await connection.fetchval("SELECT pg_sleep(0.1)")
        tree = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children()]
        cpu = sum(sum(process.cpu_times()[:2]) for process in tree)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    seconds = await connection.fetchval(
        "SELECT extract(epoch FROM max(completed_at) - min(started_at))::float FROM horsies_tasks WHERE task_name = $1",
        task,
    )
    assert await connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == count + finished
    return {"drain": count / seconds, "cpu_s": cpu * 1000 / count}


async def test_drain_against_procrastinate(connection: asyncpg.Connection, database: str, empty_database: str) -> None:
    theirs = procrastinate(empty_database, 3_000, 10)
    print(f"\nprocrastinate c10: {theirs['drain']:.0f}/s, CPU {theirs['cpu_s']:.3f} s/1k")
    cases = {
        "2 children": ({"task": "nothing", "count": 5_000, "processes": 2, "prefetch": 0}, 1.5),
        "8 children": ({"task": "nothing", "count": 10_000, "processes": 8, "prefetch": 0}, 3.0),
        "2 children, prefetch 128": ({"task": "nothing", "count": 20_000, "processes": 2, "prefetch": 128}, 8.0),
        "2 children, async def": ({"task": "nothing_async", "count": 20_000, "processes": 2, "prefetch": 0}, 8.0),
    }
    short = []
    for name, (case, least) in cases.items():
        ours = await drain(connection, database, **case)
        ratio = ours["drain"] / theirs["drain"]
        print(f"{name:<26} {ours['drain']:>7.0f}/s  {ratio:>5.1f} x (least {least})  CPU {ours['cpu_s']:.3f} s/1k")
        if ratio < least:
            short.append(name)
    assert not short


async def test_a_million_finished_rows_slow_nothing_down(connection: asyncpg.Connection, database: str) -> None:
    """The same drain with an empty table and with 1 000 000 finished tasks and their attempts in it."""
    case = {"task": "nothing", "count": 20_000, "processes": 2, "prefetch": 128}
    empty = max([(await drain(connection, database, **case))["drain"] for _ in range(2)])
    full = max([(await drain(connection, database, **case, finished=1_000_000))["drain"] for _ in range(2)])
    print(f"\nempty {empty:.0f}/s, with 1 000 000 finished rows {full:.0f}/s: {full / empty:.2f} x")
    assert full > 0.9 * empty
