"""Eight producers that send one key in a loop: each send finds the live task, is counted, and waits for no other.

On a disk, because a convoy is as long as the commits for which it waits.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from statistics import median

import asyncpg
import pytest
from statements import statement

from horsies.domain.ids import new_task_id
from horsies.store.enqueue import EnqueueOutcome, EnqueueRequest, enqueue_one
from horsies.store.schema import create

pytestmark = pytest.mark.bench

PRODUCERS, SECONDS, ROUNDS = 8, 1.5, 3
LEAST_SHARE_OF_NOT_COUNTING = 0.5

COUNTING = statement("enqueue_conflicts")
# What it is held against: nothing is counted, or all producers count in the same row.
UNCOUNTED = COUNTING.replace("WHERE id IS NOT NULL", "WHERE false")
ONE_ROW = COUNTING.replace("pg_backend_pid()", "0")
ONE_ROW_ON_DISK = ONE_ROW.replace("set_config('synchronous_commit', 'off', true) = 'off'", "true")
WAYS = {
    "not counted": UNCOUNTED,
    "a row for each session": COUNTING,
    "one row": ONE_ROW,
    "one row, each commit on the disk": ONE_ROW_ON_DISK,
}


def request() -> EnqueueRequest:
    return EnqueueRequest(
        task_id=new_task_id(),
        task_name="demo.add",
        enqueue_sha="ab" * 32,
        sent_at=datetime.now(UTC),
        args_json="[1,2]",
        unique_key="nightly",
    )


async def sends_per_second(producers: list[asyncpg.Connection], finding: str) -> float:
    ends = time.perf_counter() + SECONDS
    insert, sent = statement("enqueue_one"), 0

    async def produce(connection: asyncpg.Connection) -> None:
        nonlocal sent
        while time.perf_counter() < ends:
            one = request()
            assert not await connection.fetch(insert, *one.columns())
            assert await connection.fetch(finding, [one.task_id], [one.task_name], [one.unique_key], False)
            sent += 1

    await asyncio.gather(*map(produce, producers))
    return sent / SECONDS


async def test_eight_producers_of_one_key(own_database: str) -> None:
    producers = [await asyncpg.connect(own_database) for _ in range(PRODUCERS)]
    await create(producers[0])
    assert (await enqueue_one(producers[0], request())).outcome is EnqueueOutcome.CREATED
    speeds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):  # alternating, so that noise hits all of them
        for name, finding in WAYS.items():
            speeds[name].append(await sends_per_second(producers, finding))
    for name, found in speeds.items():
        print(f"\n{name:34}{median(found):8.0f} sends/s", end="")
    counted = await producers[0].fetchval("SELECT sum(sends) FROM horsies_duplicate_sends")
    assert counted == sum(round(speed * SECONDS) for name in list(WAYS)[1:] for speed in speeds[name])
    for producer in producers:
        await producer.close()
    share = median(speeds["a row for each session"]) / median(speeds["not counted"])
    assert share >= LEAST_SHARE_OF_NOT_COUNTING
