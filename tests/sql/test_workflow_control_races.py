"""Workers claim, run and finish while operators apply every verb at once: all workflows end, and rows agree."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import asyncpg
import pytest
from control_steps import planted, workflow_row
from lifecycle_steps import claim_some, claim_tokens, ended, start_tokens
from operation_steps import OPS
from workflow_plans import node, plan

from horsies.domain.plan import WorkflowPlan
from horsies.lifecycle.advancing import advance, nodes_started
from horsies.lifecycle.controlling import pause, resume, retry_from_failed
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.lifecycle.reconciling import plan_repairs, reconcile_all, stuck_workflows
from horsies.lifecycle.reopening import CannotReopenError
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS


def layered(rng: random.Random) -> WorkflowPlan:
    """Four layers of six nodes, each with one to three dependencies in the layer above."""
    nodes = [node(index) for index in range(6)]
    for index in range(6, 24):
        above = range(index // 6 * 6 - 6, index // 6 * 6)
        needed = sorted(rng.sample(above, rng.randint(1, 3)))
        join = rng.choice(("all", "any"))
        nodes.append(node(index, *needed, join=join, allow_failed_deps=rng.random() < 0.7))
    return plan(*nodes)


async def work(conn: asyncpg.Connection, name: str, rng: random.Random, stop: asyncio.Event) -> None:
    """A worker that sometimes dies between its two transactions, and now and then fails a task."""
    while not stop.is_set():
        tokens = [task.token for task in await claim_some(conn, name, 3)]
        started = list((await start_tokens(conn, tokens, name)).started)
        await nodes_started(conn, [token.task_id for token in started])
        kinds = [OutcomeKind.FAILED if rng.random() < 0.2 else OutcomeKind.COMPLETED for _ in started]
        await finish(conn, name, [ended(token, kind) for token, kind in zip(started, kinds, strict=True)])
        if rng.random() < 0.7:
            await advance(conn, [token.task_id for token in started])
        await asyncio.sleep(0)


async def meddle(conn: asyncpg.Connection, rng: random.Random, ids: list[str], stop: asyncio.Event) -> None:
    while not stop.is_set():
        workflow_id = rng.choice(ids)
        match rng.randrange(8):
            case 0:
                await pause(conn, workflow_id)
                await resume(conn, workflow_id)
            case 1:
                await reconcile_all(conn, 0)
            case 2:
                rows = await conn.fetch("SELECT id FROM horsies_tasks ORDER BY random() LIMIT 5")
                looked = await preview(
                    conn,
                    rng.choice((VERBS["task", "cancel"], VERBS["task", "fail"])),
                    Selection.of_ids(r[0] for r in rows),
                )
                await apply(conn, looked, OPS, None)
            case 3:
                rows = await conn.fetch("SELECT id FROM horsies_tasks WHERE status = 'FAILED' LIMIT 2")
                looked = await preview(conn, VERBS["task", "requeue"], Selection.of_ids(r[0] for r in rows))
                await apply(conn, looked, OPS, None)
            case 4:
                verb = VERBS["workflow", "cancel"] if rng.random() < 0.1 else VERBS["workflow", "retry"]
                looked = await preview(conn, verb, Selection.of_ids([workflow_id]))
                await apply(conn, looked, OPS, None)
            case _:
                selection = Selection.of_node(workflow_id, rng.randrange(24))
                verb = rng.choice((VERBS["node", "skip"], VERBS["node", "complete"]))
                value = "1" if verb is VERBS["node", "complete"] else None
                await apply(conn, await preview(conn, verb, selection, value=value), OPS, None)


async def rest(conn: asyncpg.Connection, ids: list[str]) -> None:
    """Run workers that do not die, and sweeps, until every workflow has ended."""
    for _ in range(200):
        for workflow_id in ids:
            await resume(conn, workflow_id)
        await reconcile_all(conn, 0)
        tokens = await claim_tokens(conn, "last")
        started = list((await start_tokens(conn, tokens, "last")).started)
        await finish(conn, "last", [ended(token, OutcomeKind.COMPLETED) for token in started])
        await advance(conn, [token.task_id for token in started])
        live = await conn.fetchval("SELECT count(*) FROM horsies_workflows WHERE status IN ('RUNNING', 'PAUSED')")
        if not live and not tokens:
            return
    pytest.fail("it does not come to an end")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 6))])
async def test_whatever_meets_every_workflow_ends_and_its_rows_agree(
    connection: asyncpg.Connection, database: str, seed: int
) -> None:
    rng = random.Random(seed)
    ids = [await planted(connection, layered(rng), f"w{number}") for number in range(3)]
    crowd = [await asyncpg.connect(database) for _ in range(5)]
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stop.set)
    await asyncio.gather(
        *(work(crowd[number], f"worker-{number}", random.Random(number), stop) for number in range(3)),
        *(meddle(crowd[number], random.Random(10 * seed + number), ids, stop) for number in (3, 4)),
    )
    await rest(connection, ids)
    await agree(connection, ids)
    for workflow_id in ids:
        try:
            await retry_from_failed(connection, workflow_id)
        except CannotReopenError:
            assert (await workflow_row(connection, workflow_id))["status"] in ("COMPLETED", "CANCELLED")
    await rest(connection, ids)
    await agree(connection, ids)
    for conn in crowd:
        await conn.close()


async def agree(conn: asyncpg.Connection, ids: list[str]) -> None:
    assert await stuck_workflows(conn, 0) == ()
    for workflow_id in ids:
        assert await plan_repairs(conn, workflow_id, 0) == ()
    rows = await conn.fetch(
        "SELECT node.status, task.status FROM horsies_workflow_tasks node"
        " LEFT JOIN horsies_tasks task ON task.id = node.task_id"
    )
    pairs = Counter((row[0], row[1]) for row in rows)
    wrong = {("COMPLETED", "PENDING"), ("FAILED", "COMPLETED"), ("SKIPPED", "COMPLETED"), ("FAILED", None)}
    assert not wrong & set(pairs), pairs
    assert {status for status, _ in pairs} <= {"COMPLETED", "FAILED", "SKIPPED"}
    assert {task for _, task in pairs} <= {"COMPLETED", "FAILED", "CANCELLED", None}
