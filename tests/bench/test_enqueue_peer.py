"""Single and bulk sends: ratios to procrastinate measured in the same run."""

from __future__ import annotations

import time

import asyncpg
import pytest
from peers import procrastinate

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult

pytestmark = pytest.mark.bench

SINGLE, BULK, BATCHES = 1_000, 1_000, 20
LEAST_SINGLE, LEAST_BULK, LEAST_ROWS_PER_S = 2.0, 2.0, 50_000
ROUNDS = 3


async def test_enqueue_against_procrastinate(
    connection: asyncpg.Connection, database: str, empty_database: str
) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))

    @app.task("nothing")
    def nothing() -> TaskResult[None, TaskError]:
        return TaskResult(ok=None)

    singles, bulks = [], []
    for _ in range(ROUNDS):
        await connection.execute("TRUNCATE horsies_tasks CASCADE")
        began = time.perf_counter()
        for _ in range(SINGLE):
            (await nothing.send_async()).unwrap()
        singles.append(SINGLE / (time.perf_counter() - began))
        began = time.perf_counter()
        for _ in range(BATCHES):
            await app.send_many_async([nothing.to_send() for _ in range(BULK)])
        bulks.append(BATCHES * BULK / (time.perf_counter() - began))
    await app.get_broker().close_async()
    theirs = procrastinate(empty_database, 1_000, 10)
    single, bulk = max(singles), max(bulks)
    print(f"\none at a time {single:.0f}/s: {single / theirs['single']:.1f} x of {theirs['single']:.0f}/s")
    print(f"bulk {bulk:.0f}/s: {bulk / theirs['bulk']:.2f} x of {theirs['bulk']:.0f}/s")
    assert bulk >= LEAST_ROWS_PER_S
    assert single >= LEAST_SINGLE * theirs["single"]
    assert bulk >= LEAST_BULK * theirs["bulk"]
