"""What metrics cost a worker under load: CPU time per task with a scraper every second, and without.

`pytest -m bench -n 0 -s tests/bench/test_metrics_cost.py` prints the figures.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from scraping import scrape, value
from test_drain import drain

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.events import TaskEnd
from horsies.run.metrics.worker_metrics import MOST_SERIES, WorkerMetrics
from horsies.run.worker.in_flight import InFlightTask

pytestmark = pytest.mark.bench

CASE: dict[str, Any] = {"task": "nothing", "count": 30_000, "processes": 2, "prefetch": 128}
ROUNDS = 5


def held(name: str) -> InFlightTask:
    now = datetime.now(UTC)
    token = Token("t", "worker", now)
    task = ClaimedTask(token, now.timestamp(), name, "default", 1, None, None, False, None, 0, 0, False)
    return InFlightTask(task, is_async=False, timeout_ms=None, requeue_on_interrupt=False)


def completed(entry: InFlightTask) -> TaskEnd:
    return TaskEnd(entry, "completed", Outcome(entry.task.token, OutcomeKind.COMPLETED), 0.01, None)


def counting_us() -> float:
    """What a task costs by itself: its start and its end."""
    metrics, task, count = WorkerMetrics(["nothing"]), held("nothing"), 200_000
    began = time.process_time()
    for _ in range(count):
        metrics.task_started(task)
        metrics.task_ended(completed(task))
    return (time.process_time() - began) / count * 1e6


def page_ms() -> float:
    """What the largest page costs: as many series as there may be."""
    names = [f"shop.task_{number}" for number in range(MOST_SERIES)]
    metrics = WorkerMetrics(names)
    for name in names:
        metrics.task_started(held(name))
        metrics.task_ended(completed(held(name)))
    began = time.process_time()
    for _ in range(20):
        metrics.page().encoded()
    return (time.process_time() - began) / 20 * 1e3


def step_us() -> float:
    """What a step of a loop costs."""
    metrics, count = WorkerMetrics(["nothing"]), 200_000
    began = time.process_time()
    for _ in range(count):
        metrics.loop_stepped("claim", 0.001)
    return (time.process_time() - began) / count * 1e6


async def scraping_every_second(url: str, pages: list[tuple[float, float]]) -> None:
    """The number of tasks and of loops' steps on each page."""
    while True:
        await asyncio.sleep(1)
        with suppress(OSError):  # it starts, or has stopped
            samples = await scrape(url)
            labels = {"task": "nothing", "queue": "default", "outcome": "completed", "kind": ""}
            steps = sum(
                number for (name, _), number in samples.items() if name == "horsies_loop_duration_seconds_count"
            )
            pages.append((value(samples, "horsies_task_runs_total", **labels) or 0, steps))


async def test_a_scraped_worker_spends_less_than_a_hundredth_more(
    connection: asyncpg.Connection, database: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    pages: list[tuple[float, float]] = []
    scraper = asyncio.create_task(scraping_every_second(f"http://127.0.0.1:{port}", pages))
    cpu: dict[bool, list[float]] = {False: [], True: []}
    rate: dict[bool, list[float]] = {False: [], True: []}
    try:
        for number in range(2 * ROUNDS):
            scraped = number % 4 in (1, 2)  # so that neither comes always first
            done = await drain(connection, database, *(["--metrics-port", port] if scraped else []), **CASE)
            cpu[scraped].append(done["cpu_s"] * 1000)
            rate[scraped].append(done["drain"])
    finally:
        scraper.cancel()
    tasks, steps = max(pages)
    assert tasks > CASE["count"] / 10  # it was scraped in the middle of its work
    without, scraped_us = statistics.median(cpu[False]), statistics.median(cpu[True])
    counting, page = counting_us() + steps / tasks * step_us(), page_ms()
    share = (counting + page * 1000 / 15 / statistics.median(rate[True])) / without
    print(
        f"\nCPU of the worker and its children: {without:.0f} µs a task, scraped {scraped_us:.0f} µs"
        f" ({100 * (scraped_us / without - 1):+.1f} %); {statistics.median(rate[False]):.0f} tasks/s,"
        f" scraped {statistics.median(rate[True]):.0f}; {len(pages)} pages"
        f"\ncounting {counting:.2f} µs a task with {steps / tasks:.2f} steps of loops; the largest page {page:.1f} ms;"
        f" with a scrape every 15 s {share:.2%}"
    )
    assert share < 0.01
    assert scraped_us < 1.05 * without  # rounds of one kind differ by some per cent
