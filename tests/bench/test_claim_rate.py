"""One worker's rate beside 1 000 000 tasks at the head of its queue that cannot run now, against its rate without them.

`pytest -m bench -n 0 -s tests/bench/test_claim_rate.py` prints the figures. BENCH_ROWS takes another number of rows.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from horsies.domain.ids import new_task_id

pytestmark = pytest.mark.bench

HORSIES = Path(sys.executable).with_name("horsies")
ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
TASKS = 3_000
ROUNDS = 4

# The tasks that precede those that can run.
KINDS = {
    "unknown names": {"task_name": "'unknown_' || n % 3"},
    "300 unknown names, 50 priorities": {"task_name": "'unknown_' || n % 300", "priority": "n % 50"},
    "delayed sends": {"enqueued_at": "now() + interval '1 h'"},
    "retries due later": {"next_retry_at": "now() + interval '1 h'"},
    "past good_until": {"good_until": "now() - interval '1 s'"},
    "expired leases of another queue": {
        "queue_name": "'other'",
        "status": "'CLAIMED'",
        "claimed_at": "now() - interval '1 h'",
        "claim_expires_at": "now() - interval '1 s'",
    },
    "paused workflows": {"is_workflow_task": "true"},
    "sync tasks, all children busy": {"task_name": "'nothing'"},
    "async tasks, all their places taken": {"task_name": "'nothing_async'"},
    "a full cap": {"queue_name": "'capped'"},
}


@dataclass(frozen=True)
class Setting:
    """The tasks that run all the time, as columns and their number, and the task that is measured."""

    busy: tuple[str, str, int] | None = None  # name, queue, count
    measured: str = "nothing"
    environ: tuple[tuple[str, str], ...] = ()


PLAIN = Setting()
SETTINGS = {
    "sync tasks, all children busy": Setting(("busy", "default", 2), "nothing_async"),
    "async tasks, all their places taken": Setting(("busy_async", "default", 200)),
    "a full cap": Setting(("busy_async", "capped", 2), environ=(("BENCH_QUEUES", "on"),)),
}

PAUSE = """
INSERT INTO horsies_workflows (id, name, status) SELECT 'w-' || n, 'flow', 'RUNNING' FROM generate_series(0, 999) n;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
SELECT 'n' || n, 'w-' || n % 1000, n / 1000, task_name, 'ENQUEUED', id
  FROM (SELECT row_number() OVER () AS n, id, task_name FROM horsies_tasks WHERE is_workflow_task) task;
UPDATE horsies_workflows SET status = 'PAUSED';
"""


async def seed(connection: asyncpg.Connection, kind: str) -> None:
    """Replace all tasks; no session listens to their notifications."""
    columns = {
        "id": "gen_random_uuid()::text",
        "task_name": "'nothing'",
        "queue_name": "'default'",
        "priority": "1",
        "enqueued_at": "now() - interval '1 h'",
        **KINDS[kind],
    }
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            f"INSERT INTO horsies_tasks ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
            f" FROM generate_series(1, {ROWS}) n"
        )
    if "is_workflow_task" in columns:
        await connection.execute(PAUSE)
    # Repeated as long as an older session keeps rows that a pause has replaced: claims step over a million dead
    # entries.
    for _ in range(10):
        await connection.execute("VACUUM ANALYZE horsies_tasks, horsies_workflow_tasks, horsies_workflows")
        await connection.execute("SELECT pg_stat_force_next_flush(), pg_sleep(2)")
        if (
            await connection.fetchval("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'horsies_tasks'")
            < 1000
        ):
            break
    await connection.execute("CHECKPOINT")


async def occupy(connection: asyncpg.Connection, name: str, queue: str, count: int) -> None:
    """Wait until this many of these tasks run."""
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, priority)"
        " SELECT gen_random_uuid()::text, $1, $2, 0 FROM generate_series(1, $3)",
        name,
        queue,
        count,
    )
    async with asyncio.timeout(60):
        while (  # noqa: ASYNC110 - the database has no event for this
            await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING'") < count
        ):
            await asyncio.sleep(0.05)


async def rate(connection: asyncpg.Connection, measured: str) -> float:
    """Tasks per second, by the database's clock, of a running worker, without the first and last ones."""
    await connection.execute("DELETE FROM horsies_task_attempts")
    done = asyncio.Event()
    ids = [new_task_id() for _ in range(TASKS)]
    await connection.add_listener("task_done", lambda *call: done.set() if call[-1] == ids[-1] else None)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) SELECT id, $2, 'default' FROM unnest($1::text[]) id",
        ids,
        measured,
    )
    async with asyncio.timeout(300):
        await done.wait()
    await connection.reset()
    seconds = await connection.fetchval(
        "SELECT extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY finished_at)"
        "                        - percentile_disc(0.05) WITHIN GROUP (ORDER BY finished_at))::float"
        " FROM horsies_task_attempts"
    )
    return float(0.9 * TASKS / seconds)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_cannot_run_slows_nothing_down(database: str, empty_database: str, kind: str) -> None:
    """Two workers alternate, so that both meet the same noise of the machine."""
    figures: dict[str, list[float]] = {"without": [], "beside": []}
    connections = {"without": await asyncpg.connect(database), "beside": await asyncpg.connect(empty_database)}
    setting = SETTINGS.get(kind, PLAIN)
    workers = [start(url, dict(setting.environ)) for url in (database, empty_database)]
    try:
        await has_worker(connections["without"])
        await has_worker(connections["beside"])
        for connection in connections.values():
            if setting.busy is not None:
                await occupy(connection, *setting.busy)
        await seed(connections["beside"], kind)
        for _ in range(ROUNDS):
            for name, connection in connections.items():
                figures[name].append(await rate(connection, setting.measured))
    finally:
        for worker in workers:
            worker.kill()  # its children are killed with it
            worker.wait()
        for connection in connections.values():
            await connection.close()
    without, beside = (statistics.median(figures[name]) for name in ("without", "beside"))
    print(f"\n{kind:<36} without {without:>6.0f}/s, beside {ROWS:,} {beside:>6.0f}/s: {beside / without:.2f} x", end="")
    assert beside > 0.9 * without


def start(url: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a worker; it creates a missing schema. Expiry and sweeps are off, because they are work of their own."""
    return subprocess.Popen(
        [HORSIES, "worker", "bench_app:app", "--processes", "2", "--loglevel", "ERROR"],
        env={**os.environ, **environ, "HORSIES_DATABASE_URL": url, "BENCH_SWEEPS": "off"},
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
    )


async def has_worker(connection: asyncpg.Connection) -> None:
    """Wait until the worker has stored its first snapshot."""
    await connection.execute(
        """DO $$ BEGIN
            FOR attempt IN 1..3000 LOOP
                IF to_regclass('horsies_worker_states') IS NOT NULL THEN
                    IF EXISTS (SELECT FROM horsies_worker_states) THEN RETURN; END IF;
                END IF;
                PERFORM pg_sleep(0.01);
            END LOOP;
            RAISE EXCEPTION 'no worker has come';
        END $$"""
    )
