"""A worker that was asked to stop claims no more tasks, whatever notifications arrive."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from fault_scene import STEPS
from faults import FaultAction, fault
from test_orders import hold, known
from test_worker import Table, Worker, start, table

__all__ = ["start", "table"]


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
    assert "claiming again" not in [record["event"] for record in worker.all_records()]
