"""`current_task()` and the hooks of runs in the children of real workers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from database_server import DatabaseServer
from test_child import Watched
from test_worker import Served, Worker, options, result_of, serving


@pytest.fixture(scope="module")
def told_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hooks") / "told"


@pytest.fixture(scope="module")
def shared_worker(server: DatabaseServer, told_to: Path) -> Iterator[tuple[str, Worker]]:
    with serving(server, app="watched_app:app", TEST_TOLD=str(told_to)) as served:
        yield served


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def told(file: Path, what: str, **fields: Any) -> list[dict[str, Any]]:
    return [line for line in lines_of(file) if line["what"] == what and fields.items() <= line.items()]


async def test_a_task_knows_what_its_row_says(served: Served) -> None:
    sent, until = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
    full = await served.done(await served.send("who_am_i", sent_at=sent, good_until=until, retry_count=2))
    assert result_of(full)["ok"] == [full["id"], "who_am_i", 3, "default", sent.isoformat(), until.isoformat()]
    bare = await served.done(await served.send("who_am_i"))
    assert result_of(bare)["ok"] == [bare["id"], "who_am_i", 1, "default", None, None]


async def test_a_time_that_python_cannot_express_keeps_no_task_from_running(served: Served) -> None:
    task_id = await served.send("who_am_i")
    await served.connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at, good_until) "
        "VALUES ('endless', 'who_am_i', 'default', '-infinity', 'infinity')"
    )
    assert (await served.done(task_id))["status"] == "COMPLETED"
    assert result_of(await served.done("endless"))["ok"][-2:] == [None, None]


async def test_what_hooks_set_is_there_in_the_task_and_in_no_other(served: Served) -> None:
    for _ in range(2):
        row = await served.done(await served.send("marks"))
        assert result_of(row)["ok"] == [row["id"]] * 3 + [None]
    ids = [await served.send("marks_async", number) for number in range(3)]
    for task_id in ids:
        assert result_of(await served.done(task_id))["ok"] == [task_id] * 4


async def test_a_hook_that_raises_is_logged_with_its_traceback_and_the_task_runs(served: Served) -> None:
    row = await served.done(await served.send("marks"))
    assert row["status"] == "COMPLETED"
    record = await asyncio.to_thread(served.worker.wait_for, "log", id=row["id"], logger="horsies.hooks")
    assert (record["level"], record["message"]) == ("ERROR", "the hook broken for RunStarted failed")
    assert "SystemExit: this hook is broken" in record["traceback"]


@pytest.mark.parametrize("name", ["raises", "raises_async"])
async def test_a_failure_is_told_with_the_exception_before_the_end(served: Served, told_to: Path, name: str) -> None:
    task_id = await served.send(name)
    await served.done(task_id)
    (failure,) = told(told_to, "run_failed", id=task_id)
    expected = {"code": "UNHANDLED_EXCEPTION", "raised": "ValueError: no such customer", "place": name, "mark": task_id}
    assert expected.items() <= failure.items()
    assert [line["what"] for line in lines_of(told_to) if line.get("id") == task_id] == [
        *("run_started", "run_failed", "run_ended")
    ]
    assert told(told_to, "run_started", id=task_id, known=True)
    assert told(told_to, "run_ended", id=task_id, ok=False, code="UNHANDLED_EXCEPTION", attempt=1)


async def test_an_error_that_the_task_returns_has_no_exception(served: Served, told_to: Path, tmp_path: Path) -> None:
    policy = {"max_retries": 1, "task_options": options(["TRY_AGAIN"])}
    task_id = await served.send("flaky", str(tmp_path / "runs"), 1, **policy)
    await served.done(task_id)
    assert told(told_to, "run_failed", id=task_id, code="TRY_AGAIN", raised=None)
    assert [line["ok"] for line in told(told_to, "run_ended", id=task_id)] == [False, True]
    assert [line["attempt"] for line in told(told_to, "run_ended", id=task_id)] == [1, 2]


async def test_a_timeout_counts_a_slow_hook_as_part_of_the_run(served: Served, told_to: Path) -> None:
    row = await served.done(await served.send("slow_hook"))
    assert (row["status"], row["error_code"]) == ("FAILED", "TASK_TIMEOUT")
    (failure,) = told(told_to, "run_failed", id=row["id"])
    assert (failure["code"], failure["place"]) == ("TASK_TIMEOUT", "on_sigterm")


async def test_a_child_tells_its_start_and_its_end(served: Served, told_to: Path) -> None:
    """The last test of this file: it stops the worker."""
    (child,) = served.worker.children()
    assert told(told_to, "child_started", pid=child.pid, own=child.pid, task=None)
    assert await asyncio.to_thread(served.worker.stop) == 0
    assert told(told_to, "child_stopped", pid=child.pid, same_loop=True)


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
