"""The cost of a send relative to a plain insert: single, concurrent and in bulk; and how soon a result is seen.

On a disk, not in memory like the other tests: a commit that waits for no disk takes 60 µs instead of 200, and the way
to the broker's thread and back, 60 to 80 µs, is then as long as the insert."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from statistics import median, quantiles

import asyncpg
import pytest
from statements import statement

from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.domain.ids import new_task_id
from horsies.store.enqueue import EnqueueRequest

pytestmark = pytest.mark.bench

ROUNDS, SENDS_PER_ROUND = 60, 30
LEAST_SHARE_OF_RAW = 0.6  # usually 0.7 to 0.8; depends on where the scheduler puts the two threads
LEAST_GAIN_OF_A_CROWD = 2.0  # one statement stores all that wait
BULK, BULK_ROWS = 1_000, 40_000
LEAST_BULK_SHARE_OF_RAW = 0.75
RESULTS = 200
LONGEST_UNTIL_SEEN_MS = 2.0
FORTY_TWO = '{"__task_result__":true,"ok":42,"err":null}'


def request() -> EnqueueRequest:
    return EnqueueRequest(
        task_id=new_task_id(),
        task_name="demo.add",
        enqueue_sha="ab" * 32,
        sent_at=datetime.now(UTC),
        args_json="[1,2]",
        task_options='{"retry_policy":null,"good_until":null}',
    )


@pytest.fixture
async def connection(broker: PostgresBroker, own_database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(own_database)
    yield connected
    await connected.close()


@pytest.fixture
async def broker(own_database: str) -> AsyncIterator[PostgresBroker]:
    made = PostgresBroker(PostgresConfig(database_url=own_database))
    await made.ensure_schema_initialized()
    yield made
    await made.close_async()


async def seconds(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


async def test_one_send_at_a_time(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    insert = await connection.prepare(statement("enqueue_one"))

    async def blocking() -> None:
        broker.send(request())

    forms: dict[str, Callable[[], Awaitable[object]]] = {
        "raw asyncpg": lambda: insert.fetchval(*request().columns()),
        "send_async": lambda: broker.send_async(request()),
        "send": blocking,
    }
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(ROUNDS):  # alternating, so that noise hits all of them
        for name, act in forms.items():
            taken[name] += [await seconds(act) for _ in range(SENDS_PER_ROUND)]
    raw = _quiet(taken["raw asyncpg"])
    for name, times in taken.items():
        spread = f"{_quiet(times) * 1e6:4.0f} µs, median {median(times) * 1e6:4.0f} µs"
        print(
            f"\n{name:12}{spread}, p99 {quantiles(times, n=100)[-1] * 1e6:5.0f} µs, {raw / _quiet(times):.2f} of raw",
            end="",
        )
    assert raw / _quiet(taken["send_async"]) >= LEAST_SHARE_OF_RAW


def _quiet(times: list[float]) -> float:
    """The lower quartile: other load on the machine only ever adds time, and more to two threads than to one."""
    return quantiles(times, n=4)[0]


async def test_many_sends_at_the_same_moment(broker: PostgresBroker) -> None:
    speeds = {}
    for crowd in (1, 10, 100, 1_000):
        took = []
        for _ in range(max(2_000 // crowd, 2)):
            asked = [request() for _ in range(crowd)]
            took.append(await seconds(lambda asked=asked: asyncio.gather(*map(broker.send_async, asked))))
        speeds[crowd] = crowd / median(took)
        print(f"\n{crowd:5} at once: {speeds[crowd]:8.0f} sends/s", end="")
    assert speeds[100] > LEAST_GAIN_OF_A_CROWD * speeds[1]


async def test_bulk(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    insert = await connection.prepare(statement("enqueue_many"))
    ours, raw = [], []
    for _ in range(BULK_ROWS // BULK):
        asked = [request() for _ in range(BULK)]
        ours.append(await seconds(lambda asked=asked: broker.perform_async(broker.insertions(asked))))
        columns = tuple(map(list, zip(*(request().columns() for _ in range(BULK)), strict=True)))
        raw.append(await seconds(lambda columns=columns: insert.fetch(*columns)))
    rate, bare = BULK / median(ours), BULK / median(raw)
    print(f"\nsend_many {rate:.0f} rows/s, raw asyncpg {bare:.0f} rows/s, {rate / bare:.2f} of raw")
    assert rate / bare >= LEAST_BULK_SHARE_OF_RAW


async def test_a_result_is_seen_soon_after_its_task_ends(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    finish = await connection.prepare("UPDATE horsies_tasks SET status = 'COMPLETED', result = $2 WHERE id = $1")
    late = []
    for _ in range(RESULTS):
        task_id = (await broker.send_async(request())).unwrap().task_id
        wait = asyncio.create_task(broker.get_result_async(task_id))
        await asyncio.wait([wait], timeout=0.005)
        await finish.fetch(task_id, FORTY_TWO)
        ended = time.perf_counter()
        assert (await wait).ok == 42
        late.append((time.perf_counter() - ended) * 1e3)
    print(f"\nseen after {median(late):.2f} ms, p99 {quantiles(late, n=100)[-1]:.2f} ms")
    assert median(late) <= LONGEST_UNTIL_SEEN_MS
