"""SIGHUP, the end of a session in a terminal, is a graceful stop; and a worker that was stopped says so at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cli_terminal import Terminal
from forked_commands import Command
from test_worker import HERE, PATIENCE_S, Table, Worker

from horsies.run.events import Events
from horsies.run.serve import serve
from horsies.views.cluster import queue_rows
from horsies.views.workers import Liveness, worker_rows


async def test_a_hangup_lets_running_tasks_finish_however_often_it_comes(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    worker = start()
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await asyncio.to_thread(worker.wait_for, "started", id=task_id)
    pids = [worker.process.pid, worker.guard().pid, *(child.pid for child in worker.children())]
    for _ in range(2):
        for pid in pids:  # as the kernel does it, and then the shell
            os.kill(pid, signal.SIGHUP)
    await asyncio.to_thread(worker.wait_for, "stopping", signal="SIGHUP")
    await asyncio.to_thread(worker.wait_for, "draining", running=1)
    await asyncio.to_thread((tmp_path / "go").write_text, "went")
    assert (await table.done(task_id))["status"] == "COMPLETED"
    assert await asyncio.to_thread(worker.end) == 0
    worker.kill()
    assert "stopping immediately" not in [record["event"] for record in worker.all_records()]


async def test_a_worker_that_was_stopped_is_so_at_once_and_its_uptime_has_ended(
    table: Table, start: Callable[..., Worker]
) -> None:
    worker = start()
    await table.done(await table.send("nothing"))
    (row,) = await worker_rows(table.connection)
    assert (row.liveness, row.lives) == (Liveness.ALIVE, True)
    assert [queue.workers for queue in await queue_rows(table.connection)] == [1]
    assert await asyncio.to_thread(worker.stop) == 0
    (row,) = await worker_rows(table.connection)
    assert (row.liveness, row.lives) == (Liveness.STOPPED, False)
    now = await table.connection.fetchval("SELECT now()")
    assert row.snapshot is not None
    assert row.up_until(now + timedelta(hours=1)) == row.snapshot.at
    assert await queue_rows(table.connection) == ()


async def test_a_terminal_that_is_closed_ends_a_worker_cleanly(database: str, table: Table) -> None:
    environ = {**os.environ, "HORSIES_DATABASE_URL": database, "PYTHONPATH": str(HERE)}
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the test run was started with nohup
    try:
        opened = Terminal(environ, "worker", "worker_app:app")
    finally:
        signal.signal(signal.SIGHUP, before)
    with opened as terminal:
        await asyncio.to_thread(terminal.until, "memory")  # its live line
        terminal.hang_up()
        assert await asyncio.to_thread(terminal.process.wait, PATIENCE_S) == 0
    (row,) = await worker_rows(table.connection)
    assert row.liveness is Liveness.STOPPED


def test_a_hangup_ends_a_scheduler(database: str) -> None:
    environ = {**os.environ, "HORSIES_DATABASE_URL": database}
    words = ["scheduler", "schedule_app:app"]
    process: Command[str] = Command(words, env=environ, cwd=HERE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "horsies scheduler\n"
        process.send_signal(signal.SIGHUP)
        try:
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


class Nothing:
    """A service that does nothing until it is stopped."""

    def __init__(self) -> None:
        self.events = Events()
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")

    async def abort(self) -> None:
        self.calls.append("abort")

    def hurry(self) -> None:
        self.calls.append("hurry")


async def test_under_nohup_a_hangup_is_ignored() -> None:
    service = Nothing()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready = asyncio.Event()
        serving = asyncio.create_task(serve(service, on_ready=ready.set))
        await ready.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert not serving.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    finally:
        signal.signal(signal.SIGHUP, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert service.calls == ["start", "stop"]
