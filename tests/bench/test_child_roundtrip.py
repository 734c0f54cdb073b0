"""What a job's way into a child process and back costs, without a database."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import psutil
import pytest

from horsies.config.recovery import RecoveryConfig
from horsies.run.contract import ChildExit, ChildResult, ChildSpec, Job, LeaseTerms
from horsies.run.guard import clock
from horsies.run.pool.child import Child
from horsies.run.pool.process import Guard

pytestmark = pytest.mark.bench

ROUNDS = 5
TERMS = LeaseTerms.of(RecoveryConfig())
CASES = (
    ("plain, one at a time", "nothing", 10_000, 1),
    ("plain, 32 queued", "nothing", 30_000, 32),
    ("async, one at a time", "nothing_async", 10_000, 1),
    ("async, 32 at once", "nothing_async", 20_000, 32),
)


def cpu_seconds(child: int) -> float:
    """CPU time of this process and the child together."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in (os.getpid(), child))


class Load:
    """Keeps `depth` jobs in the child until `total` have returned."""

    def __init__(self) -> None:
        self.child: Child
        self.values: list[object] = []
        self._task_name = ""
        self._to_submit = 0
        self._to_come = 0
        self._done: asyncio.Future[None]

    async def start(self) -> Load:
        spec = ChildSpec("child_app:app", 1, 32, None, "horsies: child 1 of bench", logging.WARNING, TERMS)
        self.guard = Guard(TERMS, lambda _guard, _returncode: None)
        self.child = await Child.start(spec, self.guard, self)
        return self

    async def rate(self, task_name: str, total: int, depth: int) -> float:
        """Jobs per second."""
        self._task_name, self._to_submit, self._to_come = task_name, total, total
        self._done = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        for _ in range(depth):
            self._submit()
        await self._done
        return total / (time.perf_counter() - began)

    async def start_latency_ms(self) -> float:
        """From submit to the first line of user code."""
        self.values.clear()
        begins = []
        for _ in range(300):
            begins.append(time.monotonic_ns())
            await self.rate("clock", 1, 1)
            await asyncio.sleep(0.001)  # an idle child, not one that is still warm from the last job
        starts = [json.loads(str(text))["ok"] for text in self.values]
        return median((start - begin) / 1e6 for begin, start in zip(begins, starts, strict=True))

    def _submit(self) -> None:
        self._to_submit -= 1
        self.child.submit(Job(f"0199a1b2-c3d4-7000-8000-{self._to_submit:012}", self._task_name, None, None), clock())

    def ended(self, _child: Child, _key: str, result: ChildResult) -> None:
        assert result.status == "ok", result
        if self._task_name == "clock":
            self.values.append(result.result_json)
        self._to_come -= 1
        if self._to_submit > 0:
            self._submit()
        elif self._to_come == 0:
            self._done.set_result(None)

    def printed(self, _child: Child, _key: str | None, _stream: str, line: str) -> None:
        raise AssertionError(line)

    def logged(self, *_: object) -> None: ...

    def reported(self, *_: object) -> None: ...

    def exited(self, _child: Child, end: ChildExit) -> None:
        assert end.returncode == 0, end


@pytest.fixture
async def load(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Load]:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "process"), *sys.path])
    made = await Load().start()
    yield made
    await made.child.close(5)
    await made.guard.close()


async def test_round_trips_through_one_child(load: Load) -> None:
    """The gate is CPU time: with two shared cores the rates of one build went from 19 000 to 114 000 jobs/s."""
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, task_name, total, depth in CASES:
            before = cpu_seconds(load.child.pid)
            rates[name].append(await load.rate(task_name, total, depth))
            costs[name].append((cpu_seconds(load.child.pid) - before) / total * 1e6)
    latencies_ms = [await load.start_latency_ms() for _ in range(ROUNDS)]
    print()
    for name, measured in rates.items():
        low, middle, high = min(measured), median(measured), max(measured)
        print(f"{name:22} {middle:8,.0f} jobs/s ({low:,.0f}-{high:,.0f}), {median(costs[name]):5.1f} us CPU per job")
    print(f"submit to user code    {median(latencies_ms):8.3f} ms ({min(latencies_ms):.3f}-{max(latencies_ms):.3f})")
    for name, _, _, depth in CASES:
        assert median(costs[name]) < 1e6 / (12_000 if depth == 1 else 30_000), name
    assert median(latencies_ms) < 0.2
