"""User code of one task never runs in two places at once, as measured by a ledger that the user code writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from blackhole_proxy import BlackholeProxy
from test_worker import PATIENCE_S, Table, Worker

DONE = ("COMPLETED", None)
CRASH = ("FAILED", "WORKER_CRASHED")
T_S = 2.0


class Scene:
    """Tasks on workers of which one is disturbed, and the ledger of their runs."""

    def __init__(self, table: Table, start: Callable[..., Worker], directory: Path) -> None:
        self.table = table
        self._start = start
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.ids: dict[str, str] = {}
        self.stopped: list[psutil.Process] = []

    async def worker(self, *options: str, **environ: str) -> Worker:
        return await asyncio.to_thread(self._start, *options, app="lease_app:app", **environ)

    async def send(self, task: str, *arguments: object, label: str | None = None, retries: int = 3) -> None:
        label = label or task
        options = f'{{"retry_policy": {POLICY % retries}, "good_until": null}}'
        self.ids[label] = await self.table.send(
            task, str(self.ledger), label, *arguments, max_retries=retries, task_options=options
        )

    def lines(self, label: str, *what: str) -> list[tuple[str, int, int]]:
        """Mark, pid and nanoseconds."""
        lines = (line.split() for line in self.ledger.read_text().splitlines())
        return [
            (line[1], int(line[2]), int(line[3]))
            for line in lines
            if len(line) == 4 and line[0] == label and (not what or line[1] in what)
        ]

    async def begun(self, label: str, runs: int = 1, patience_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(patience_s):
            while len(self.lines(label, "begin", "beside")) < runs:  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.01)

    def freeze(self, *processes: psutil.Process) -> None:
        for process in processes:
            process.suspend()
        self.stopped += processes

    def thaw(self) -> None:
        for process in self.stopped:
            if process.is_running():
                process.resume()
        self.stopped.clear()

    def overlap_ms(self, label: str) -> float:
        """How long user code of this task ran in two places; a live process without a line of its own counts as 1 s."""
        begins = self.lines(label, "begin", "beside")
        overlap = 1_000.0 * len(self.lines(label, "beside"))
        for (_, pid, _), (_, _, next_begin) in pairwise(begins):
            later = [at for _, who, at in self.lines(label) if who == pid and at > next_begin]
            overlap += max(0, max(later, default=0) - next_begin) / 1e6
        return overlap

    async def history(self, label: str) -> list[tuple[str, str | None]]:
        return [(row["outcome"], row["error_code"]) for row in await self.table.attempts(self.ids[label])]


POLICY = (
    '{"max_retries": %d, "intervals": [1], "backoff_strategy": "fixed", "jitter": false,'
    ' "auto_retry_for": ["WORKER_CRASHED"]}'
)


@pytest.fixture
async def scene(table: Table, start: Callable[..., Worker], tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(table, start, tmp_path)
    yield made
    made.thaw()


async def ran_again_without_overlap(scene: Scene, label: str) -> None:
    """Another worker took the task over, after the first run had ended."""
    await scene.begun(label, 2)
    assert (await scene.table.done(scene.ids[label]))["status"] == "COMPLETED"
    assert await scene.history(label) == [CRASH, DONE]
    assert scene.overlap_ms(label) == 0


async def test_a_run_whose_worker_is_frozen_ends_before_another_worker_begins_it(scene: Scene) -> None:
    tasks = "sleep", "spin", "wait", "hold_the_gil"
    frozen = await scene.worker("--processes", "4")
    for task in tasks:
        await scene.send(task)
        await scene.begun(task)
    await scene.worker("--processes", "2")
    scene.freeze(psutil.Process(frozen.process.pid))
    for task in tasks:
        await ran_again_without_overlap(scene, task)
    scene.thaw()
    assert await asyncio.to_thread(frozen.stop) == 0
    assert [scene.overlap_ms(task) for task in tasks] == [0, 0, 0, 0]


@pytest.mark.parametrize("task", ["thread", pytest.param("shield", marks=pytest.mark.chaos)])
async def test_what_a_cancelled_task_leaves_behind_ends_with_its_process(scene: Scene, task: str) -> None:
    frozen = await scene.worker("--processes", "1")
    await scene.send(task)
    await scene.begun(task)
    await scene.worker("--processes", "1")
    scene.freeze(psutil.Process(frozen.process.pid))
    await ran_again_without_overlap(scene, task)


async def test_what_stops_is_cleaned_up_and_the_child_goes_on(scene: Scene) -> None:
    frozen = await scene.worker("--processes", "1")
    for task in ("sleep", "wait"):
        await scene.send(task)
        await scene.begun(task)
    (child,) = frozen.children()
    scene.freeze(psutil.Process(frozen.process.pid))
    async with asyncio.timeout(PATIENCE_S):
        while not (scene.lines("sleep", "end") and scene.lines("wait", "end")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    scene.thaw()
    for task in ("sleep", "wait"):
        await scene.begun(task, 2)
        row = await scene.table.done(scene.ids[task])
        assert row["status"] == "COMPLETED"
        assert await scene.history(task) == [CRASH, DONE]
    attempts = await scene.table.attempts(scene.ids["sleep"])
    assert "heartbeat" in attempts[0]["error_message"]
    assert frozen.children() == [child]


@pytest.mark.chaos  # a second of processor time; one child: test_a_run_in_a_stopped_child_ends_and_is_told
async def test_with_all_of_a_worker_stopped_the_kernel_ends_its_runs(scene: Scene) -> None:
    tasks = "spin", "hold_the_gil"
    frozen = await scene.worker("--processes", "2")
    for task in tasks:
        await scene.send(task)
        await scene.begun(task)
    children = frozen.children()
    await scene.worker("--processes", "2")
    scene.freeze(psutil.Process(frozen.process.pid), frozen.guard(), *children)
    for task in tasks:
        await ran_again_without_overlap(scene, task)
    assert {child.status() for child in children} == {psutil.STATUS_ZOMBIE}
    scene.thaw()
    await scene.send("quick")
    assert (await scene.table.done(scene.ids["quick"]))["status"] == "COMPLETED"
    assert await asyncio.to_thread(frozen.stop) == 0
    assert [scene.overlap_ms(task) for task in tasks] == [0, 0]


async def test_a_run_in_a_stopped_child_ends_and_is_told(scene: Scene) -> None:
    worker = await scene.worker("--processes", "1")
    await scene.send("spin")
    await scene.begun("spin")
    (child,) = worker.children()
    scene.freeze(child)
    await ran_again_without_overlap(scene, "spin")
    (crashed, _) = await scene.table.attempts(scene.ids["spin"])
    # The second where its lease had ended before the worker looked at the process.
    assert any(words in crashed["error_message"] for words in ("stopped or frozen", "heartbeat"))
    assert worker.children() != [child]


async def test_code_that_holds_the_gil_longer_than_the_threshold_is_left_alone_and_a_short_freeze_costs_nothing(
    scene: Scene,
) -> None:
    """Idle or running: tasks within their leases continue."""
    worker = await scene.worker("--processes", "1")
    children = worker.children()
    await scene.send("hold_for", 2 * T_S, label="long")
    assert (await scene.table.done(scene.ids["long"]))["status"] == "COMPLETED"
    await scene.send("hold_for", 1.5, label="frozen")
    await scene.begun("frozen")
    scene.freeze(psutil.Process(worker.process.pid), worker.guard(), *children)
    await asyncio.sleep(0.4 * T_S)
    scene.thaw()
    assert (await scene.table.done(scene.ids["frozen"]))["status"] == "COMPLETED"
    assert [await scene.history(label) for label in ("long", "frozen")] == [[DONE], [DONE]]
    assert worker.children() == children


@pytest.mark.chaos
async def test_a_worker_cut_off_from_its_database_runs_nothing_that_another_runs(scene: Scene, database: str) -> None:
    tasks = "sleep", "wait", "hold_the_gil"
    async with BlackholeProxy(database) as proxy:
        cut_off = await scene.worker("--processes", "2", HORSIES_DATABASE_URL=proxy.url)
        for task in tasks:
            await scene.send(task)
            await scene.begun(task)
        await scene.worker("--processes", "2")
        proxy.silence()
        for task in tasks:
            await ran_again_without_overlap(scene, task)
        cut_off.kill()


async def test_the_end_of_the_guard_ends_its_children_and_others_take_their_place(scene: Scene) -> None:
    worker = await scene.worker("--processes", "1")
    await scene.send("hold_the_gil")
    await scene.begun("hold_the_gil")
    (child,) = worker.children()
    guard = worker.guard()
    scene.freeze(child)
    guard.kill()
    assert psutil.wait_procs([child], 2)[1] == []
    await ran_again_without_overlap(scene, "hold_the_gil")
    assert worker.guard() != guard


async def test_a_crash_ends_only_what_had_begun(scene: Scene) -> None:
    """Other tasks that the child held run in the next child, without an additional attempt."""
    await scene.worker("--processes", "1", TEST_PREFETCH="8")
    for number in range(40):  # until the worker knows that they are short, and prefetches for its child
        await scene.send("quick", label=f"before-{number}")
    await scene.table.done(scene.ids["before-39"])
    labels = [f"{task}-{number}" for number in range(5) for task in ("quick_async", "quick")]
    await scene.send("hold_and_crash", retries=0)
    await scene.begun("hold_and_crash")
    for label in labels:
        await scene.send(label.partition("-")[0], label=label)
    assert (await scene.table.done(scene.ids["hold_and_crash"]))["error_code"] == "WORKER_CRASHED"
    for label in labels:
        assert (await scene.table.done(scene.ids[label]))["status"] == "COMPLETED"
        assert await scene.history(label) == [DONE]
        assert len(scene.lines(label, "begin")) == 1


async def test_what_dies_beside_another_task_says_so(scene: Scene) -> None:
    await scene.worker("--processes", "1")
    for label in ("one", "two"):
        await scene.send("hang", label=label, retries=0)
        await scene.begun(label)
    await scene.send("crash", retries=0)
    for label, others in (("one", ("two", "crash")), ("crash", ("one", "two"))):
        row = await scene.table.done(scene.ids[label])
        assert row["error_code"] == "WORKER_CRASHED"
        (attempt,) = await scene.table.attempts(scene.ids[label])
        assert "died beside task" in attempt["error_message"]
        for other in others:
            assert scene.ids[other] in attempt["error_message"]
