"""Drain mode and the test database for applications."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    PostgresConfig,
    QueueMode,
    RetryPolicy,
    TaskError,
    TaskResult,
    TaskStatus,
    current_task,
)
from horsies.config.url import DatabaseUrl
from horsies.run.events import Events
from horsies.testing import Ran, drain, drain_async, embedded_database
from horsies.testing.draining import Expired
from horsies.testing.embedded import database_replaced

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere"),
        queue_mode=QueueMode.CUSTOM,
        custom_queues=[CustomQueueConfig(name="bulk", priority=50), CustomQueueConfig(name="mail", priority=1)],
    )
)
heard: list[object] = []


@app.task("add", queue_name="mail")
def add(a: int, b: int) -> TaskResult[int, TaskError]:
    heard.append(("add", a, b))
    return TaskResult(ok=a + b)


@app.task("measure", queue_name="bulk")
def measure(text: str) -> TaskResult[int, TaskError]:
    heard.append(("measure", len(text)))
    return TaskResult(ok=len(text))


@app.task("who", queue_name="mail")
def who() -> TaskResult[list[str | None], TaskError]:
    task = current_task()
    sent = None if task.sent_at is None else task.sent_at.isoformat()
    return TaskResult(ok=[task.id, task.name, task.queue, sent, str(task.attempt)])


@app.task("where", queue_name="mail")
def where() -> TaskResult[list[int], TaskError]:
    return TaskResult(ok=[os.getpid(), threading.get_ident()])


@app.task("in_a_loop", queue_name="mail")
async def in_a_loop() -> TaskResult[None, TaskError]:
    heard.append(asyncio.get_running_loop())
    return TaskResult(ok=None)


@app.task(
    "flaky", queue_name="mail", retry_policy=RetryPolicy.fixed([60, 300], auto_retry_for=["TRY_AGAIN"], jitter=False)
)
def flaky() -> TaskResult[int, TaskError]:
    return TaskResult(err=TaskError(error_code="TRY_AGAIN", message="not yet"))


@app.task("broken", queue_name="bulk")
def broken() -> TaskResult[None, TaskError]:
    raise LookupError("no such order")


@app.task("chain", queue_name="bulk")
def chain(left: int) -> TaskResult[None, TaskError]:
    heard.append(left)
    if left:
        chain.send(left - 1)
    return TaskResult(ok=None)


@app.task("slow", queue_name="bulk", timeout_ms=30)
def slow() -> TaskResult[None, TaskError]:
    time.sleep(30)
    return TaskResult(ok=None)


@app.task("slow_in_a_loop", queue_name="bulk", timeout_ms=30)
async def slow_in_a_loop() -> TaskResult[None, TaskError]:
    await asyncio.sleep(30)
    return TaskResult(ok=None)


@app.task("killed", queue_name="bulk")
def killed() -> TaskResult[None, TaskError]:
    os._exit(7)


@pytest.fixture(autouse=True)
def _on_a_database(database: str) -> object:
    """As embedded_database(app) does it, on the server that all tests here share."""
    heard.clear()
    with database_replaced(app, database):
        yield


def test_drain_runs_what_waits_and_tells_how_it_ended() -> None:
    handle = add.send(1, 2).unwrap()
    assert handle.get(0).err is not None
    broken.send()
    assert drain(app) == Ran(completed=1, failed=1)
    assert handle.get(0).unwrap() == 3
    assert drain(app) == Ran()


def test_tasks_run_in_the_process_and_the_thread_of_the_test() -> None:
    handle = where.send().unwrap()
    drain(app)
    assert handle.get(0).unwrap() == [os.getpid(), threading.get_ident()]


async def test_async_tasks_run_in_the_loop_of_the_test() -> None:
    await in_a_loop.send_async()
    assert await drain_async(app) == Ran(completed=1)
    assert heard == [asyncio.get_running_loop()]


async def test_the_blocking_drain_works_inside_a_running_loop() -> None:
    await in_a_loop.send_async()
    handle = (await where.send_async()).unwrap()
    assert drain(app) == Ran(completed=2)
    assert (await handle.get_async(0)).unwrap()[0] == os.getpid()


def test_queues_are_served_as_by_a_worker() -> None:
    measure.send("x")
    add.send(1, 2)
    add.with_options(priority=100).send(3, 4)
    add.with_options(priority=1).send(5, 6)
    drain(app)
    assert heard == [("add", 1, 2), ("add", 5, 6), ("add", 3, 4), ("measure", 1)]


def test_what_tasks_send_is_run_too() -> None:
    chain.send(3)
    assert drain(app) == Ran(completed=4)
    assert heard == [3, 2, 1, 0]


def test_large_arguments_arrive() -> None:
    measure.send("x" * 100_000)
    drain(app)
    assert heard == [("measure", 100_000)]


def test_only_the_time_that_is_said_passes() -> None:
    handle = flaky.send().unwrap()
    add.schedule(3600, 1, 2)
    assert drain(app) == Ran(retried=1)
    assert drain(app, seconds=59) == Ran()
    assert drain(app, seconds=5) == Ran(retried=1)
    assert drain(app, seconds=300) == Ran(failed=1)
    spent = {"reason": "all retries are spent", "retry_count": 2, "max_retries": 2}
    assert handle.get(0).err == TaskError(error_code="TRY_AGAIN", data=spent, message="not yet")
    assert drain(app, seconds=3600) == Ran(completed=1)


async def test_a_deadline_comes_nearer_as_time_passes(connection: asyncpg.Connection) -> None:
    handle = (
        await add.with_options(delay=100, good_until=datetime.now(UTC) + timedelta(seconds=60)).send_async(1, 2)
    ).unwrap()
    assert await drain_async(app, seconds=120) == Ran(expired=1)
    assert await connection.fetchval("SELECT good_until < now() FROM horsies_tasks WHERE id = $1", handle.task_id)


def test_with_raises_an_exception_comes_out_once_it_is_stored() -> None:
    handle = broken.send().unwrap()
    with pytest.raises(LookupError, match="no such order"):
        drain(app, raises=True)
    assert handle.info().unwrap().status is TaskStatus.FAILED  # type: ignore[union-attr]


def test_a_name_of_another_application_is_left_alone() -> None:
    app.get_broker().enqueue("not_ours", "mail", task_id="other", enqueue_sha="x").unwrap()
    assert drain(app, seconds=60) == Ran()
    info = app.get_broker().get_task_info("other").unwrap()
    assert info is not None
    assert info.status is TaskStatus.PENDING


def test_a_timeout_ends_a_task_as_in_a_worker() -> None:
    handles = [slow.send().unwrap(), slow_in_a_loop.send().unwrap()]
    assert drain(app) == Ran(failed=2)
    assert [handle.info().unwrap().error_code for handle in handles] == ["TASK_TIMEOUT"] * 2  # type: ignore[union-attr]


def test_real_children_run_the_tasks_and_a_crash_fails_only_its_own() -> None:
    crashed, mine = killed.send().unwrap(), where.send().unwrap()
    late = add.schedule(600, 1, 2).unwrap()
    add.with_options(good_until=datetime.now(UTC) + timedelta(seconds=60), delay=100).send(1, 2).unwrap()
    assert drain(app, processes=1, seconds=600) == Ran(completed=2, failed=1, expired=1)
    assert mine.get(0).unwrap()[0] != os.getpid()
    error = crashed.get(0).err
    assert error is not None
    assert (error.error_code, late.get(0).unwrap()) == ("WORKER_CRASHED", 3)
    assert heard == []


def test_what_the_workers_own_sweep_expires_is_counted_too() -> None:
    events, expired = Events(), Expired()
    events.observers.append(expired)
    events.swept("swept", rule="upkeep", changed=2, failed=1, expired=1)
    events.swept("pruned", changed=5, tasks=5)
    assert expired.count == 1


def test_raises_and_children_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leave out processes"):
        drain(app, processes=1, raises=True)


async def test_an_embedded_database_has_the_schema_and_is_gone_afterwards() -> None:
    with embedded_database() as url, embedded_database() as other:
        assert url != other
        first = await asyncpg.connect(url)
        assert await first.fetchval("SELECT count(*) FROM horsies_tasks") == 0
        await first.close()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)


def test_inside_the_block_the_application_works_on_it_and_afterwards_on_its_own(database: str) -> None:
    add.send(1, 2)
    with embedded_database(app) as url:
        assert app.config.broker.url == DatabaseUrl.parse(url)
        handle = add.send(3, 4).unwrap()
        assert drain(app) == Ran(completed=1)
        assert handle.get(0).unwrap() == 7
    assert app.config.broker.url == DatabaseUrl.parse(database)
    assert drain(app) == Ran(completed=1)


SCRIPT = """
from urllib.parse import parse_qs, urlsplit
from horsies.testing import embedded_database
with embedded_database() as url:
    print(parse_qs(urlsplit(url).query)["host"][0])
"""


def directory_in(output: str) -> Path:
    """The directory of the server whose sockets are in the printed one."""
    return next(path for path in Path(output.strip()).parents if path.name.startswith("horsies-test-"))


def test_the_server_and_its_files_are_gone_with_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=30)
    assert not directory_in(ended.stdout).exists()


@pytest.mark.chaos  # two seconds of processor time
def test_the_next_process_removes_what_a_killed_one_left_behind() -> None:
    killed_script = f"{SCRIPT}    import os; os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-uc", killed_script], capture_output=True, text=True, timeout=30)
    directory = directory_in(ended.stdout)
    assert (ended.returncode, directory.exists()) == (-9, True)
    hours_ago = (directory.stat().st_mtime - 7200,) * 2
    os.utime(directory, hours_ago)
    for _ in range(20):  # its server takes a moment to notice that its last user has left
        with suppress(FileNotFoundError):
            os.utime(directory, hours_ago)
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, timeout=30)
        if not directory.exists():
            break
    assert not directory.exists()


def test_nothing_of_this_needs_pytest() -> None:
    asked = "import sys, horsies.testing; print('pytest' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", asked], text=True) == "False\n"


@pytest.mark.parametrize("processes", [0, 1])
async def test_a_task_that_is_drained_knows_itself(processes: int) -> None:
    handle = (await who.send_async()).unwrap()
    await drain_async(app, processes=processes)
    info = (await handle.info_async()).unwrap()
    sent = info.sent_at.isoformat()
    assert (await handle.get_async()).unwrap() == [handle.task_id, "who", "mail", sent, "1"]
