"""The screen of a task that a real worker ran: its child is killed, it is retried, and an operator requeues it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from forked_commands import Command
from task_screen_steps import opened

from horsies.domain.ids import new_task_id

APPS = Path(__file__).parent.parent / "process"


@pytest.fixture
def start_worker(database: str) -> Iterator[Callable[[], None]]:
    """`horsies worker` as a separate process."""
    started: list[Command[bytes]] = []

    def start() -> None:
        environ = {**os.environ, "HORSIES_DATABASE_URL": database}
        nothing = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(Command(["worker", "worker_app:app"], env=environ, cwd=APPS, **nothing))

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(params=[{"processes": "2", "prefetch": "0"}], ids=[""])
def hanging(request: pytest.FixtureRequest, database: str) -> Iterator[None]:
    """A worker for tasks that hang."""
    process = Command(
        ["worker", "hang_app:app", "--processes", request.param["processes"]],
        env={**os.environ, "HORSIES_DATABASE_URL": database, "HANG_APP_PREFETCH": request.param["prefetch"]},
        cwd=APPS,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    yield
    process.kill()
    process.wait()


async def test_an_operator_looks_into_a_running_task_and_nothing_is_asked_after_that(
    database: str, connection: asyncpg.Connection, hanging: None
) -> None:
    task_id, other = new_task_id(), new_task_id()
    await connection.executemany(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha)"
        " VALUES ($1, $2, 'default', $3, 'by-hand')",
        [(task_id, "wait_for_a_lock", '["s3cret"]'), (other, "hold_the_gil", "[0]")],
    )
    async with opened(database, task_id) as detail:
        await detail.sees("▶ RUNNING")
        await detail.press("S")
        assert "C code seems to hold the GIL" not in detail.text
        await detail.sees(f"stack of {task_id}", "process/hang_app.py", "settle", "with lock:", "unchanged for")
        await detail.sees("wait_for_a_lock runs for", ", in settle")
        assert await connection.fetchval("SELECT count(*) FROM horsies_looks") == 1
        await detail.press("escape")
        await detail.loses("with lock:")
        await detail.press("O")
        await detail.sees(f"output of {task_id}", "begun", "1 line; following")
        await detail.press("escape")
        await detail.loses("; following")
    async with opened(database, other) as detail:
        await detail.sees("▶ RUNNING")
        await detail.press("S")
        await detail.sees("C code seems to hold the GIL: only the thread of the task is shown")
        await detail.sees("sleep(3_600)", "hold_the_gil runs for")
        await detail.press("escape")
        await detail.loses("hold_the_gil runs for")
        async with asyncio.timeout(30):
            while await connection.fetchval("SELECT count(*) FROM horsies_looks"):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
    verbs = await connection.fetch(
        "SELECT verb, after_state ->> 'kind' AS kind FROM horsies_operator_actions ORDER BY id"
    )
    assert [tuple(row) for row in verbs] == [("look", "stack"), ("look", "output"), ("look", "stack")]


async def test_only_a_running_task_can_be_looked_into(database: str, connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'shop.pay', 'pay')")
    async with opened(database, "t") as detail:
        text = await detail.sees("PENDING")
        assert "Sstack" not in text
        await detail.press("S", "O")
        assert "waiting for the worker" not in detail.text
    assert await connection.fetchval("SELECT count(*) FROM horsies_looks") == 0
