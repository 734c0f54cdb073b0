"""Looks at running tasks: how long a stack takes, what a watched task writes, what unwatched output costs a worker.

`pytest -m bench -n 0 -s tests/bench/test_looks_cost.py` prints the figures. The output of a chatty task on a slow link
is in tests/terminal/test_looks_numbers.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from test_drain import drain

from horsies.domain.ids import new_task_id
from horsies.lifecycle.claim_token import Token
from horsies.operations.looking import answer_to, ask_again, close, look_at
from horsies.operations.target import Actor
from horsies.run.child.stdio import mark_prints
from horsies.run.pool.output import OutputRings
from horsies_tui.task.look_sheet import _EVERY_S

pytestmark = pytest.mark.bench

HORSIES = Path(sys.executable).with_name("horsies")
APPS = Path(__file__).parent.parent / "process"
OPS = Actor("ops", "bastion")
WRITES = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int FROM pg_stat_user_tables"
RUNNING = "SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING'"


@pytest.fixture
def worker(database: str) -> Iterator[None]:
    """For 4 plain tasks, and async ones beside them."""
    process = subprocess.Popen(
        [HORSIES, "worker", "hang_app:app", "--processes", "4", "--loglevel", "WARNING"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        cwd=APPS,
        stdout=subprocess.DEVNULL,
    )
    yield
    process.kill()
    process.wait()


async def run(connection: asyncpg.Connection, *tasks: tuple[str, str]) -> list[str]:
    """The ids of these tasks, which are running."""
    ids = [new_task_id() for _ in tasks]
    await connection.executemany(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha) VALUES ($1, $2, 'default', $3, 'b')",
        [(task_id, *task) for task_id, task in zip(ids, tasks, strict=True)],
    )
    async with asyncio.timeout(30):
        while await connection.fetchval(RUNNING) < len(ids):
            await connection.fetchval("SELECT pg_sleep(0.1)")
    return ids


async def test_a_stack_arrives_within_300_ms_at_20_running_tasks(connection: asyncpg.Connection, worker: None) -> None:
    plain = [("sleep_long", "[]"), ("wait_for_a_lock", '["s3cret"]'), ("count_for_ever", "[]"), ("start_threads", "[]")]
    ids = await run(connection, *plain, *[("await_for_ever", "[]")] * 16)
    took = []
    for number in range(300):
        begun = time.perf_counter()
        look = await look_at(connection, OPS, ids[number % len(ids)], "stack")
        answer = await answer_to(connection, look)
        took.append(time.perf_counter() - begun)
        await close(connection, look)
        assert answer.found is not None
        assert answer.found["frames"], answer.found
    p50, *_, p99 = statistics.quantiles(took, n=100)[49:]
    print(
        f"\na stack at 20 running tasks: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, max {max(took) * 1000:.0f}"
    )
    assert p99 < 0.3


@pytest.mark.parametrize(("kind", "task"), [("stack", ("sleep_long", "[]")), ("output", ("write_for_ever", "[1000]"))])
async def test_a_watched_task_costs_less_than_five_writes_a_second(
    connection: asyncpg.Connection, database: str, worker: None, kind: str, task: tuple[str, str]
) -> None:
    """Asked as often as the console does; the writes of a worker that no operator watches are taken off."""
    (task_id,) = await run(connection, task)

    async def writes_in_10_s(look: bool) -> float:
        """From another connection: the statistics of one that works come late."""
        reader = await asyncpg.connect(database)
        await asyncio.sleep(2)
        before = await reader.fetchval(WRITES)
        end = time.monotonic() + 10
        if look:
            opened = await look_at(connection, OPS, task_id, kind)  # type: ignore[arg-type]
            while time.monotonic() < end:
                answer = await answer_to(connection, opened)
                assert answer.found is not None
                await asyncio.sleep(_EVERY_S[kind])  # type: ignore[index]
                await ask_again(connection, opened, after=answer.found.get("last", 0))
            await close(connection, opened)
        else:
            await asyncio.sleep(10)
        await asyncio.sleep(2)
        await reader.execute("SELECT pg_stat_clear_snapshot()")
        after = await reader.fetchval(WRITES)
        await reader.close()
        return float(after - before) / 10

    unwatched, watched = await writes_in_10_s(look=False), await writes_in_10_s(look=True)
    print(f"\nwrites/s of a task whose {kind} is watched: {watched - unwatched:.1f} (unwatched {unwatched:.1f})")
    assert watched - unwatched < 5


def capturing_us() -> float:
    """What output that is not written costs a task: the flush of its streams, and the look for its ring."""
    kept, count = (sys.stdout, sys.stderr), 200_000
    try:
        flush = mark_prints(lambda: None)
    finally:
        sys.stdout, sys.stderr = kept
    rings, token = OutputRings(), Token("t", "worker", datetime.now(UTC))
    with contextlib.redirect_stdout(io.StringIO()):
        began = time.process_time()
        for _ in range(count):
            flush()
            rings.of(token)
            rings.ended(token)
        return (time.process_time() - began) / count * 1e6


async def test_output_that_no_task_writes_costs_a_worker_less_than_a_hundredth(
    connection: asyncpg.Connection, database: str
) -> None:
    """By its parts, as whole rounds differ by some per cent: their median is the cost of a task."""
    rounds = [
        await drain(connection, database, task="nothing", count=30_000, processes=2, prefetch=128) for _ in range(3)
    ]
    task_us, capturing = statistics.median(done["cpu_s"] for done in rounds) * 1000, capturing_us()
    print(f"\noutput capture {capturing:.2f} µs of {task_us:.0f} µs a task: {capturing / task_us:.2%}")
    assert capturing / task_us < 0.01
