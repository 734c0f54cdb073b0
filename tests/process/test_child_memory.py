"""A task's objects are freed after it: the frames of a failed task, its arguments, its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio
from test_child import Watched, error_of, ok_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEGABYTE = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched() -> AsyncIterator[Watched]:
    given = await Watched().start()
    yield given
    await given.close()


async def alive(watched: Watched) -> list[bool]:
    found: list[bool] = ok_of(await watched.run("cargo_alive"))
    return found


HOW = ["raise", "frozen", "exit", "group", "name it", "in the context", "unwritable", "hold the exception"]


@pytest.mark.parametrize("task_name", ["fail_holding", "fail_holding_async"])
@pytest.mark.parametrize("how", HOW)
async def test_the_locals_of_a_failed_task_are_freed_without_the_collector(
    watched: Watched, task_name: str, how: str
) -> None:
    before = len(await alive(watched))
    error_of(await watched.run(task_name, how))
    found = (await alive(watched))[before:]
    assert len(found) >= 2
    assert not any(found)


async def test_the_locals_of_tasks_in_a_failed_group_are_freed(watched: Watched) -> None:
    before = len(await alive(watched))
    error_of(await watched.run("fail_in_a_group_async"))
    assert (await alive(watched))[before:] == [False, False]


@pytest.mark.parametrize("task_name", ["sleep_holding", "return_holding", "sleep_holding_async"])
async def test_the_locals_of_a_stopped_task_are_freed(watched: Watched, task_name: str) -> None:
    before = len(await alive(watched))
    key = watched.submit(task_name, timeout_ms=300)
    await watched.until_begun(key)
    await watched.result_of(key)
    assert (await alive(watched))[before:] == [False]


async def test_the_memory_of_a_child_falls_after_failures_that_held_100_mb(watched: Watched) -> None:
    await alive(watched)
    before = psutil.Process(watched.child.pid).memory_info().rss
    for _ in range(3):
        error_of(await watched.run("fail_with_megabytes", 100))
    await _falls_below(watched, before + 50 * MEGABYTE)


@pytest.mark.parametrize("task_name", ["size", "size_async"])
async def test_large_arguments_go_with_the_report_and_not_with_the_next_job(watched: Watched, task_name: str) -> None:
    await alive(watched)
    before = psutil.Process(watched.child.pid).memory_info().rss
    assert ok_of(await watched.run(task_name, "x" * 60 * MEGABYTE)) == 60 * MEGABYTE
    await _falls_below(watched, before + 30 * MEGABYTE)


async def _falls_below(watched: Watched, limit: int) -> None:
    """The report leaves the child before the last reference to its job; no event says when that is freed."""
    rss = await asyncio.to_thread(_lowest, psutil.Process(watched.child.pid), limit)
    assert rss < limit, f"{rss / MEGABYTE:.0f} MB, not below {limit / MEGABYTE:.0f}"


def _lowest(process: psutil.Process, limit: int) -> int:
    until = time.monotonic() + 5
    while (rss := process.memory_info().rss) >= limit and time.monotonic() < until:
        time.sleep(0.01)
    return rss
