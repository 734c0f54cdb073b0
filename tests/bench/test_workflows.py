"""The cost of a node: advancing large workflows on a worker's connection, and whole workflows with a real worker.

`pytest -m bench -n 0 -s tests/bench/test_workflows.py` prints the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import workflow_plans

from horsies.domain.ids import new_task_id
from horsies.domain.plan import NodePlan, WorkflowPlan
from horsies.lifecycle.advancing import advance
from horsies.lifecycle.create_workflow import create_workflow

pytestmark = pytest.mark.bench

HORSIES = Path(sys.executable).with_name("horsies")
HERE = Path(__file__).parent

SIZES = (250, 500, 1_000)
ROUNDS = 3  # the best of them counts
MOST_MS_A_NODE = 5.0
# The allowed growth of the cost per node when the number of nodes doubles.
MOST_GROWTH = 1.5

# The settings of a worker's connection connection.
SETTINGS = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}

END = """
UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now(), started_at = now(), result = $2 WHERE id = ANY ($1)
"""
RESULT = '{"__task_result__":true,"ok":3,"err":null}'


def node(index: int, *dependencies: int) -> NodePlan:
    return workflow_plans.node(index, *dependencies, task_name="nothing", kwargs_json="{}", task_options=None)


def chain(size: int) -> tuple[NodePlan, ...]:
    return tuple(node(index, *([index - 1] if index else [])) for index in range(size))


def fan(size: int) -> tuple[NodePlan, ...]:
    """One node, then all but two in parallel, then one that joins them."""
    middle = range(1, size - 1)
    return (node(0), *(node(index, 0) for index in middle), node(size - 1, *middle))


SHAPES: dict[str, Callable[[int], tuple[NodePlan, ...]]] = {"chain": chain, "fan": fan}


async def start(connection: asyncpg.Connection, nodes: tuple[NodePlan, ...]) -> str:
    workflow_id = new_task_id()
    async with connection.transaction():
        await create_workflow(
            connection, WorkflowPlan("bench", None, "fail", None, None, nodes), workflow_id=workflow_id
        )
    return workflow_id


async def waiting(connection: asyncpg.Connection, most: int) -> list[str]:
    rows = await connection.fetch("SELECT id FROM horsies_tasks WHERE status = 'PENDING' ORDER BY id LIMIT $1", most)
    return [task_id for (task_id,) in rows]


async def advance_through(connection: asyncpg.Connection, nodes: tuple[NodePlan, ...], batch: int) -> float:
    """Milliseconds per node for advancing, when `batch` tasks end each time."""
    flow = await start(connection, nodes)
    spent, steps = 0.0, 0
    while ended := await waiting(connection, batch):
        await connection.execute(END, ended, RESULT)
        begin = time.perf_counter()
        await advance(connection, ended)
        spent += time.perf_counter() - begin
        steps += len(ended)
    assert steps == len(nodes)
    assert await connection.fetchval("SELECT status FROM horsies_workflows WHERE id = $1", flow) == "COMPLETED"
    return spent / steps * 1000


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, server_settings=SETTINGS)
    yield connection
    await connection.close()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [1, 20])
async def test_an_advance_costs_a_node_about_the_same_in_a_workflow_of_any_size(
    connection: asyncpg.Connection, shape: str, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await advance_through(connection, SHAPES[shape](100), batch)  # warms caches and plans
    costs = dict.fromkeys(SIZES, float("inf"))
    for _ in range(ROUNDS):
        costs = {
            size: min(cost, await advance_through(connection, SHAPES[shape](size), batch))
            for size, cost in costs.items()
        }
    with capsys.disabled():
        told = ", ".join(f"{size} nodes {cost:.2f} ms" for size, cost in costs.items())
        print(f"\nadvance of a {shape}, {batch} at a time: {told}, each node")
    assert max(costs.values()) < MOST_MS_A_NODE
    assert costs[SIZES[-1]] < costs[SIZES[-2]] * MOST_GROWTH


async def test_a_failure_at_the_head_of_a_long_chain_skips_all_of_it_at_once(
    connection: asyncpg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = await start(connection, chain(1_000))
    (head,) = await waiting(connection, 1)
    await connection.execute("UPDATE horsies_tasks SET status = 'FAILED', failed_at = now() WHERE id = $1", head)
    begin = time.perf_counter()
    await advance(connection, [head])
    spent_ms = (time.perf_counter() - begin) * 1000
    with capsys.disabled():
        print(f"\na failure that skips 999 nodes one behind the other: {spent_ms:.0f} ms, {spent_ms / 999:.2f} ms each")
    assert await connection.fetchval("SELECT status FROM horsies_workflows WHERE id = $1", flow) == "FAILED"
    assert spent_ms / 999 < MOST_MS_A_NODE


@pytest.fixture
def worker(database: str) -> Iterator[None]:
    process = subprocess.Popen(
        [HORSIES, "worker", "bench_app:app", "--processes", "2", "--loglevel", "WARNING"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        cwd=HERE,
        stdout=subprocess.DEVNULL,
    )
    yield
    process.send_signal(signal.SIGTERM)
    process.wait(30)


async def through_the_worker(connection: asyncpg.Connection, nodes: tuple[NodePlan, ...]) -> float:
    """Milliseconds per node from the start of the workflow to its end, by the workflow's own times."""
    flow = await start(connection, nodes)
    async with asyncio.timeout(120):
        row = None
        while row is None:
            await asyncio.sleep(0.05)
            row = await connection.fetchrow(
                "SELECT * FROM horsies_workflows WHERE id = $1 AND completed_at IS NOT NULL", flow
            )
    assert row["status"] == "COMPLETED", json.loads(row["error"])
    return float((row["completed_at"] - row["started_at"]).total_seconds() * 1000 / len(nodes))


async def test_a_thousand_nodes_go_through_a_worker_in_five_seconds(
    connection: asyncpg.Connection, worker: None, capsys: pytest.CaptureFixture[str]
) -> None:
    await through_the_worker(connection, chain(50))
    costs = {shape: await through_the_worker(connection, nodes(1_000)) for shape, nodes in SHAPES.items()}
    with capsys.disabled():
        told = ", ".join(f"{shape} {cost:.2f} ms" for shape, cost in costs.items())
        print(f"\n1 000 nodes through a worker with two children: {told}, each node")
    assert max(costs.values()) < MOST_MS_A_NODE
