"""`async def` hooks of a plain task, in the loop of the `async def` tasks: a stop, and a child that retires."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_child import Watched

APP = """
import asyncio, pathlib

from horsies import AppConfig, Horsies, PostgresConfig, RunEnded, RunStarted, TaskError, TaskResult

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://no-one@localhost/nothing")))

@app.on("run_started")
async def begin(event: RunStarted) -> None:
    print("begun")
    try:
        while not pathlib.Path(GO).exists():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        print("cancelled")
        raise

@app.on("run_ended")
async def end(event: RunEnded) -> None:
    await asyncio.sleep(0)
    print("told the end")

@app.task("plain")
def plain() -> TaskResult[int, TaskError]:
    return TaskResult(ok=1)
"""


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    file = tmp_path / "hooked.py"
    file.write_text(f"GO = {str(tmp_path / 'go')!r}\n{APP}")
    watched = await Watched().start(locator=f"{file}:app")
    yield watched
    with contextlib.suppress(TimeoutError):
        await watched.close()


async def test_a_child_that_retires_still_runs_the_hooks_of_its_last_plain_task(
    watched: Watched, tmp_path: Path
) -> None:
    """No `async def` task comes any more, and its hooks need the loop all the same."""
    key = watched.submit("plain")
    await watched.until_begun(key)
    watched.child.retire()
    (tmp_path / "go").touch()
    assert (await watched.result_of(key, within_s=5)).error_code is None
    assert watched.lines(key) == ["begun", "told the end"]
    assert (await watched.until_gone(5)).returncode == 0


async def test_a_stop_cancels_the_hook_that_it_interrupts(watched: Watched) -> None:
    key = watched.submit("plain", timeout_ms=200)
    await watched.until_begun(key)
    assert (await watched.result_of(key)).error_code == "TASK_TIMEOUT"
    await watched.until(lambda: (key, "stdout", "cancelled") in watched.output)
