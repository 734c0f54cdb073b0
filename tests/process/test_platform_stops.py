"""Stops as platforms do them, SIGTERM, then SIGKILL at a limit: the outcome of each task is stored by then."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import psutil
import pytest
from blackhole_proxy import BlackholeProxy
from forked_commands import Command, run_command
from test_worker import HERE, Table, Worker

DOCKER = {"KUBERNETES_SERVICE_HOST": "", "container": "docker"}
KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}


async def begun(table: Table, directory: Path, name: str) -> str:
    """A task whose user code runs: it opens a pipe, which this side waits for."""
    place = directory / name
    place.mkdir()
    pipes = [place / "started", place / "go"]
    for pipe in pipes:
        os.mkfifo(pipe)
    arguments = pipes[:1] if "stubborn" in name or name == "wait_in_c" else pipes
    task_id = await table.send(name, *map(str, arguments))
    await asyncio.to_thread(pipes[0].read_text)
    await table.until(task_id, "RUNNING")
    return task_id


async def stop_as_platform(worker: Worker, limit_s: float) -> float:
    """The seconds until it has ended, by itself or killed; its children have ended as well."""
    children = worker.children()
    begin = time.monotonic()
    worker.process.send_signal(signal.SIGTERM)
    try:
        await asyncio.to_thread(worker.process.wait, limit_s)
    except subprocess.TimeoutExpired:
        worker.process.kill()
    took_s = time.monotonic() - begin
    assert psutil.wait_procs(children, 2)[1] == []
    return took_s


def states(rows: list[asyncpg.Record]) -> list[tuple[str, str | None, bool]]:
    return [(row["status"], row["error_code"], row["claimed"]) for row in rows]


PENDING = ("PENDING", None, False)
INTERRUPTED = ("FAILED", "TASK_INTERRUPTED", False)


@pytest.mark.parametrize(
    ("platform", "grace_s", "limit_s"),
    [(DOCKER, 8, 10), pytest.param(KUBERNETES, 25, 30, marks=pytest.mark.chaos)],
    ids=["docker", "kubernetes"],
)
async def test_the_default_grace_leaves_time_to_store_what_was_interrupted(
    table: Table, start: Callable[..., Worker], tmp_path: Path, platform: dict[str, str], grace_s: int, limit_s: int
) -> None:
    worker = start("--processes", "3", **platform)
    tasks = [await begun(table, tmp_path, name) for name in ("wait_again", "wait_for_file", "wait_stubbornly")]
    many = [await table.send("together", 60) for _ in range(100)]
    for task_id in many:
        await table.until(task_id, "RUNNING")
    assert await stop_as_platform(worker, limit_s) > grace_s
    rows = [await table.row(task_id) for task_id in tasks]
    assert states(rows) == [PENDING, INTERRUPTED, PENDING]
    assert states([await table.row(task_id) for task_id in many]) == [INTERRUPTED] * len(many)
    for row in rows:
        (attempt,) = await table.attempts(row["id"])
        assert attempt["error_code"] == "TASK_INTERRUPTED"


@pytest.mark.chaos  # a second of processor time
async def test_tasks_that_take_no_notice_are_killed_and_stored_within_the_limit(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start("--processes", "4", "--shutdown-grace", "0.2", **DOCKER)
    names = ["wait_stubbornly", "wait_in_c", "wait_stubbornly_async", "wait_again"]
    tasks = [await begun(table, tmp_path, name) for name in names]
    frozen = await table.row(tasks[3])
    os.kill(frozen["worker_pid"], signal.SIGSTOP)  # its child receives and reports nothing
    took_s = await stop_as_platform(worker, 10)
    assert states([await table.row(task_id) for task_id in tasks]) == [PENDING] * 4
    assert worker.process.returncode == 0
    assert took_s < 5  # 0.2 s grace, 2.5 s to stop


@pytest.mark.chaos
@pytest.mark.alone
async def test_a_database_that_does_not_answer_does_not_keep_the_worker_beyond_the_limit(
    database: str, table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    async with BlackholeProxy(database) as proxy:
        worker = await asyncio.to_thread(start, HORSIES_DATABASE_URL=proxy.url, **DOCKER)  # the proxy runs in this loop
        task_id = await begun(table, tmp_path, "wait_again")
        proxy.silence()
        assert await stop_as_platform(worker, 10) > 9
        assert worker.process.returncode == 1
    records = worker.all_records()
    assert [record["count"] for record in records if record["event"] == "outcomes lost"] == [1]
    assert [record["id"] for record in records if record["event"] == "outcome lost"] == [task_id]
    assert (await table.row(task_id))["status"] == "RUNNING"  # for the sweeps


@pytest.mark.parametrize(
    ("platform", "options", "wanted"),
    [
        (DOCKER, [], "grace 8s: a container runtime kills 10s after SIGTERM"),
        (KUBERNETES, ["--shutdown-grace", "auto"], "grace 25s: Kubernetes kills 30s after SIGTERM"),
        (KUBERNETES, ["--shutdown-grace", "55"], "grace 55s: Kubernetes kills 30s after SIGTERM, raise that to 60s"),
    ],
)
def test_the_banner_says_which_grace_and_why(
    database: str, platform: dict[str, str], options: list[str], wanted: str
) -> None:
    environ = {**os.environ, "HORSIES_DATABASE_URL": database, **platform}
    command = ["worker", "worker_app:app", *options]
    with Command(command, env=environ, cwd=HERE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        banner: dict[str, str] = {}
        for line in worker.stdout:
            name, _, value = line.strip().partition(" ")
            banner[name] = value.strip()
            if name == "worker":  # the last line; a pipe closed before it would end the worker
                break
        worker.terminate()
    assert (banner["stop"], worker.returncode) == (wanted, 0)


def test_a_grace_that_is_no_time_is_refused() -> None:
    for value in ("soon", "-1", "nan", "inf"):
        done = run_command(["worker", "worker_app:app", f"--shutdown-grace={value}"], cwd=HERE, text=True)
        assert done.returncode == 2
        assert f"{value!r} is neither auto nor a number" in done.stderr
