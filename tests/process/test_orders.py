"""Operators' orders reach real workers at once; a stopping worker claims nothing whatever the order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest
import test_worker
from fault_scene import STEPS
from faults import FaultAction, fault
from test_worker import PATIENCE_S, Table, Worker

from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verb import OperationOutcome, TaskVerb, WorkerVerb
from horsies.operations.verbs import VERBS

OPS = Actor("ops", "bastion")
# With the longest beat interval, only the notification can be in time: the next beat is two minutes away.
SLOW_BEATS = {"TEST_BEAT_MS": "120000"}
MAIL = Selection.of_ids(["mail"])


@pytest.fixture
async def operator(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database)
    yield connected
    await connected.close()


async def order(
    operator: asyncpg.Connection, verb: WorkerVerb, worker_id: str, reason: str | None = None
) -> OperationOutcome:
    outcome = await apply(operator, await preview(operator, verb, Selection.of_ids([worker_id])), OPS, reason)
    assert [row.applied for row in outcome.rows] == [True]
    return outcome


async def by_hand(operator: asyncpg.Connection, verb: TaskVerb, task_id: str) -> None:
    found = await preview(operator, verb, Selection.of_ids([task_id]))
    outcome = await apply(operator, found, OPS, "stuck")
    assert [row.applied for row in outcome.rows] == [True]


async def known(worker: Worker, table: Table) -> str:
    """The worker's id, once it has stored a snapshot."""
    async with asyncio.timeout(PATIENCE_S):
        heard = asyncio.Event()
        await table.connection.add_listener("horsies_worker_state", lambda *_: heard.set())
        while True:
            heard.clear()
            row = await table.connection.fetchrow(
                "SELECT worker_id FROM horsies_worker_states WHERE pid = $1", worker.process.pid
            )
            if row is not None:
                return str(row["worker_id"])
            await heard.wait()


async def hold(table: Table, directory: Path, name: str = "wait_for_file") -> str:
    """A task that runs until the test writes to the pipe `go`."""
    os.mkfifo(directory / "go")
    task_id = await table.send(name, str(directory / "started"), str(directory / "go"))
    await table.until(task_id, "RUNNING")
    return task_id


async def test_a_drained_worker_claims_nothing_runs_what_it_has_and_comes_back(
    table: Table, start: Callable[..., Worker], operator: asyncpg.Connection, tmp_path: Path
) -> None:
    worker = start("--processes", "2", **SLOW_BEATS)
    running = await hold(table, tmp_path)
    worker_id = await known(worker, table)
    await order(operator, VERBS["worker", "drain"], worker_id, "kernel update")
    told = await asyncio.to_thread(worker.wait_for, "draining")
    assert (told["by"], told["reason"], told["running"]) == ("ops@bastion", "kernel update", 1)
    waiting = await table.send("add", 1, 2)
    fresh = start()
    assert (await table.done(waiting))["claimed_by_worker_id"] != worker_id  # though it has a child that is idle
    await asyncio.to_thread(fresh.stop)
    left = await table.send("add", 3, 4)
    await asyncio.to_thread((tmp_path / "go").write_text, "went")
    assert (await table.done(running))["status"] == "COMPLETED"
    assert (await table.row(left))["status"] == "PENDING"
    await order(operator, VERBS["worker", "resume"], worker_id)
    row = await table.done(left)
    assert (row["status"], row["claimed_by_worker_id"]) == ("COMPLETED", worker_id)
    await asyncio.to_thread(worker.wait_for, "claiming resumed")


async def test_a_drained_worker_gives_back_what_it_has_not_started(
    table: Table, start: Callable[..., Worker], operator: asyncpg.Connection, tmp_path: Path
) -> None:
    worker = start(TEST_PREFETCH="8")
    await hold(table, tmp_path)
    behind = [await table.send("nothing") for _ in range(3)]
    for task_id in behind:
        await table.until(task_id, "CLAIMED")
    await order(operator, VERBS["worker", "drain"], await known(worker, table))
    for task_id in behind:
        row = await table.until(task_id, "PENDING")
        assert (row["claimed_by_worker_id"], row["retry_count"]) == (None, 0)
    start()
    for task_id in behind:
        assert (await table.done(task_id))["status"] == "COMPLETED"


async def test_a_running_task_that_is_cancelled_or_requeued_by_hand_stops_in_its_child_at_once(
    table: Table, start: Callable[..., Worker], operator: asyncpg.Connection, tmp_path: Path
) -> None:
    """A requeued one runs again on the same worker, and its first run changes nothing."""
    worker = start(**SLOW_BEATS)
    task_id = await hold(table, tmp_path)
    (child,) = worker.children()
    await by_hand(operator, VERBS["task", "cancel"], task_id)
    await asyncio.to_thread(worker.wait_for, "claim lost", id=task_id, doing="beat")
    await asyncio.to_thread(worker.wait_for, "claim lost", id=task_id, doing="finish")  # the child has released it
    row = await table.row(task_id)
    assert (row["status"], len(await table.attempts(task_id))) == ("CANCELLED", 1)
    after = await table.done(await table.send("add", 1, 2))
    assert (after["status"], after["worker_pid"]) == ("COMPLETED", child.pid)
    (tmp_path / "again").mkdir()
    task_id = await hold(table, tmp_path / "again")
    await by_hand(operator, VERBS["task", "requeue"], task_id)
    await asyncio.to_thread(worker.wait_for, "claim lost", id=task_id, doing="finish")
    await table.until(task_id, "RUNNING")
    await asyncio.to_thread((tmp_path / "again" / "go").write_text, "second")
    row = await table.done(task_id)
    assert (row["status"], test_worker.result_of(row)["ok"]) == ("COMPLETED", "second")
    first, second = await table.attempts(task_id)
    assert (first["outcome"], first["error_code"], second["outcome"]) == (
        "WORKER_FAILURE",
        "OPERATOR_REQUEUED",
        "COMPLETED",
    )


async def test_a_paused_queue_is_left_alone_and_a_resumed_one_is_served_at_once(
    table: Table, start: Callable[..., Worker], operator: asyncpg.Connection
) -> None:
    """Each round waits for the one before: by polls alone, every 5 s, five would take longer than the patience."""
    worker = start("--processes", "2", TEST_QUEUES="mail:1:5,pay:2:5")
    await known(worker, table)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(5):
            await apply(operator, await preview(operator, VERBS["queue", "pause"], MAIL), OPS, None)
            mail = await table.send("nothing", queue_name="mail")
            pay = await table.send("nothing", queue_name="pay")
            assert (await table.done(pay))["status"] == "COMPLETED"
            assert (await table.row(mail))["status"] == "PENDING"
            await apply(operator, await preview(operator, VERBS["queue", "resume"], MAIL), OPS, None)
            assert (await table.done(mail))["status"] == "COMPLETED"


async def test_a_look_at_its_orders_does_not_make_a_stopping_worker_claim_again(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start("--processes", "2")
    running = await hold(table, tmp_path)
    worker_id = await known(worker, table)
    async with fault(table.connection, STEPS["claim"].point, FaultAction.BLOCK) as blocked:
        await table.send("add", 1, 1)
        await blocked.reached()  # so the stop has to wait for this claim
        worker.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.wait_for, "stopping")
        await table.connection.execute("SELECT pg_notify('horsies_operator', $1)", worker_id)
        await asyncio.to_thread(worker.wait_for, "draining")
        await blocked.release()
    late = await table.send("add", 2, 2)
    await asyncio.to_thread((tmp_path / "go").write_text, "went")
    assert (await table.done(running))["status"] == "COMPLETED"
    assert await asyncio.to_thread(worker.end) == 0
    assert (await table.row(late))["status"] == "PENDING"
    assert "claiming resumed" not in [record["event"] for record in worker.all_records()]
