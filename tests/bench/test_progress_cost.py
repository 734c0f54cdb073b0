"""What a report of progress costs in a loop of user code, what its storing costs, and what a task without one loses."""

from __future__ import annotations

import contextvars
import tempfile
import time
import timeit
from collections.abc import Iterator

import asyncpg
import pytest

from horsies import progress, track
from horsies.domain.progress_pace import Reading
from horsies.lifecycle.claim_token import ProgressReport, Token, beat, store_progress
from horsies.lifecycle.claiming import ClaimRequest, Start, claim, start
from horsies.run.progress_table import RECORD_BYTES, ProgressTable
from horsies.task import current as reports

pytestmark = pytest.mark.bench

CALLS = 200_000
ROUNDS = 9
TASKS = 1_000
HOT_PATH = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}


class OneRun:
    def __init__(self, table: ProgressTable) -> None:
        self.report: reports.Report | None = None
        self.tracked = False
        self._table = table

    def open_report(self) -> reports.Report:
        self.report = report = self._table.writer(0, 5)
        return report


@pytest.fixture
def inside() -> Iterator[contextvars.Context]:
    """The context of a run."""
    with tempfile.TemporaryFile() as memory:
        memory.truncate(2 * RECORD_BYTES)
        table = ProgressTable(memory.fileno())
    context, run = contextvars.Context(), OneRun(table)
    context.run(reports.begin_run, run)
    yield context
    reports.end_run(run)


def call() -> None:
    for done in range(CALLS):
        progress(done, CALLS, "rows")


def loop() -> None:
    for _ in track(range(CALLS), unit="rows"):
        pass


def nothing() -> None:
    for _ in range(CALLS):
        pass


def ns_of(function: object, context: contextvars.Context) -> float:
    least, empty = (
        min(context.run(timeit.repeat, each, number=1, repeat=ROUNDS))
        for each in (function, nothing)  # type: ignore[arg-type]
    )
    return (least - empty) / CALLS * 1e9


def test_a_report_takes_less_than_a_microsecond(inside: contextvars.Context) -> None:
    outside = contextvars.Context()
    for name, function in (("progress()", call), ("an item of track()", loop)):
        taken = ns_of(function, inside)
        print(f"{name:24} {taken:5.0f} ns in a task   budget < 1 000 ns")
        assert taken < 1_000
    reports.forget_runs()
    print(f"{'progress()':24} {ns_of(call, outside):5.0f} ns outside")


async def test_what_is_stored_for_a_thousand_tasks(database: str, connection: asyncpg.Connection) -> None:
    worker = await asyncpg.connect(database, server_settings=HOT_PATH)
    await worker.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) SELECT n::text, 'a', 'q' FROM generate_series(1, $1) n",
        TASKS,
    )
    tokens: list[Token] = []
    while len(tokens) < TASKS:
        tokens += [task.token for task in await claim(worker, "w", ClaimRequest("q", 200, 600_000, None))]
    await start(worker, "w", [Start(token, 1, "host", "worker-1") for token in tokens])
    taken: dict[str, float] = {}
    for done in range(30):
        for name, some in (("1 report", tokens[:1]), ("1 000 reports", tokens)):
            begin = time.perf_counter()
            await store_progress(
                worker, "w", [ProgressReport(token, Reading(done, 100, "rows"), 1.0, 1.0, False) for token in some]
            )
            taken[name] = min(taken.get(name, 9.0), time.perf_counter() - begin)
        begin = time.perf_counter()
        await beat(worker, "w", "host", [(token, 1) for token in tokens])
        taken["1 000 beats"] = min(taken.get("1 000 beats", 9.0), time.perf_counter() - begin)
    for name, seconds in taken.items():
        print(f"{name:24} {seconds * 1_000:7.2f} ms")
    size = await connection.fetchval("SELECT pg_total_relation_size('horsies_progress')")
    print(f"{'after 30 rounds':24} {size // 1024:5} kB")
    assert taken["1 000 reports"] < 0.1
    assert size < 2_000_000
    await worker.close()
