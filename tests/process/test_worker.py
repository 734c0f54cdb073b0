"""`horsies worker` as a real process with real children on a real database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import asyncpg
import forked_children
import psutil
import pytest
from database_server import DatabaseServer
from forked_commands import Command

from horsies.domain.ids import new_task_id
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS

HERE = Path(__file__).parent
PATIENCE_S = 20.0


class Worker:
    """A worker as a separate process; its log, one JSON object per line, is read as it arrives."""

    def __init__(self, *options: str, app: str = "worker_app:app", **environ: str) -> None:
        self.process = Command(
            ["worker", app, "--log-format", "json", "--loglevel", "DEBUG", *options],
            env={**os.environ, **environ},
            cwd=HERE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next record of this kind; fails with the whole log if it does not arrive."""
        return self.wait_until(lambda record: record["event"] == event and fields.items() <= record.items(), event)

    def wait_until(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        for record in self.events:
            if wanted(record):
                self.events.remove(record)
                return record
        while line := self._lines.get(timeout=PATIENCE_S):
            record = json.loads(line) if line.startswith("{") else {"event": "?", "text": line}
            if wanted(record):
                return record
            self.events.append(record)
        raise AssertionError(f"the worker ended without {what}: {self.events}")

    def all_records(self) -> list[dict[str, Any]]:
        """All records not read yet; only after the worker has ended."""
        while line := self._lines.get(timeout=PATIENCE_S):
            self.events.append(json.loads(line) if line.startswith("{") else {"event": "?", "text": line})
        return self.events

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """The exit code. A worker already asked to stop must not be asked again: it would interrupt its tasks."""
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def children(self) -> list[psutil.Process]:
        """The child processes that run tasks, without that of `guard()` and the one that the tests fork them from."""
        every = psutil.Process(self.process.pid).children()
        return [each for each in every if not is_guard(each) and not is_nursery(each)]

    def guard(self) -> psutil.Process:
        (process,) = filter(is_guard, psutil.Process(self.process.pid).children())
        return process


def is_guard(process: psutil.Process) -> bool:
    try:
        return any(word.endswith("/horsies/run/guard.py") for word in process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def is_nursery(process: psutil.Process) -> bool:
    try:
        return " ".join(process.cmdline()).startswith(forked_children.TITLE)
    except psutil.Error:
        return False


class Table:
    """The test's own access to the task table; it waits for notifications, never sleeps."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._changed = asyncio.Event()

    async def listen(self) -> None:
        await self.connection.add_listener("horsies_task_status", lambda *_: self._changed.set())

    async def send(self, name: str, *args: Any, **columns: Any) -> str:
        """Insert a task with plain SQL."""
        values = {
            "id": new_task_id(),
            "task_name": name,
            "queue_name": "default",
            "status": "PENDING",
            "args": json.dumps(args),
            "enqueue_sha": "by-hand",
            **columns,
        }
        names, marks = ", ".join(values), ", ".join(f"${number}" for number in range(1, len(values) + 1))
        await self.connection.execute(f"INSERT INTO horsies_tasks ({names}) VALUES ({marks})", *values.values())
        return str(values["id"])

    async def row(self, task_id: str) -> asyncpg.Record:
        return await self.connection.fetchrow("SELECT * FROM horsies_tasks WHERE id = $1", task_id)

    async def until(self, task_id: str, *statuses: str) -> asyncpg.Record:
        """The row as soon as it has one of these statuses."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._changed.clear()
                row = await self.row(task_id)
                if row["status"] in statuses:
                    return row
                await self._changed.wait()

    async def done(self, task_id: str) -> asyncpg.Record:
        return await self.until(task_id, "COMPLETED", "FAILED", "CANCELLED", "EXPIRED")

    async def attempts(self, task_id: str) -> list[asyncpg.Record]:
        return await self.connection.fetch(
            "SELECT * FROM horsies_task_attempts WHERE task_id = $1 ORDER BY attempt", task_id
        )


@pytest.fixture
async def table(connection: asyncpg.Connection) -> Table:
    table = Table(connection)
    await table.listen()
    return table


@pytest.fixture
def start(database: str) -> Iterator[Callable[..., Worker]]:
    """Start workers on this test's database; none outlives the test."""
    workers: list[Worker] = []

    def start(*options: str, ready: bool = True, **environ: str) -> Worker:
        worker = Worker(*options, **{"HORSIES_DATABASE_URL": database, **environ})
        workers.append(worker)
        if ready:
            worker.wait_for("ready")
        return worker

    yield start
    for worker in workers:
        worker.kill()


class Served(Table):
    """The task table of a worker that several tests share: a start costs 0.5 s of processor time."""

    def __init__(self, connection: asyncpg.Connection, worker: Worker) -> None:
        super().__init__(connection)
        self.worker = worker


@contextmanager
def serving(server: DatabaseServer, *options: str, **environ: str) -> Iterator[tuple[str, Worker]]:
    """The URL of a database, and its worker, which is ready."""
    with server.database() as url:
        worker = Worker(*options, **{"HORSIES_DATABASE_URL": url, **environ})
        try:
            worker.wait_for("ready")
            yield url, worker
        finally:
            worker.kill()


@pytest.fixture(scope="module")
def shared_worker(server: DatabaseServer) -> Iterator[tuple[str, Worker]]:
    with serving(server) as served:
        yield served


@pytest.fixture
async def served(shared_worker: tuple[str, Worker]) -> AsyncIterator[Served]:
    """For tests that only send tasks, and read what became of them."""
    url, worker = shared_worker
    connection = await asyncpg.connect(url)
    table = Served(connection, worker)
    await table.listen()
    yield table
    await connection.close()


def result_of(row: asyncpg.Record) -> Any:
    return json.loads(row["result"])


async def test_a_task_runs_and_its_result_attempt_and_history_are_stored(served: Served) -> None:
    row = await served.done(await served.send("add", 1, 2))
    assert (row["status"], result_of(row)["ok"], row["error_code"], row["claimed"]) == ("COMPLETED", 3, None, False)
    assert row["claimed_at"] <= row["started_at"] <= row["completed_at"]
    (attempt,) = await served.attempts(row["id"])
    assert (attempt["attempt"], attempt["outcome"], attempt["will_retry"]) == (1, "COMPLETED", False)
    assert attempt["worker_pid"] in [child.pid for child in served.worker.children()]
    assert row["worker_process_name"] == f"worker-{row['worker_pid']}"


async def test_a_retry_waits_its_delay_and_keeps_the_history(served: Served, tmp_path: Path) -> None:
    task_id = await served.send("flaky", str(tmp_path / "runs"), 1, max_retries=2, task_options=options(["TRY_AGAIN"]))
    row = await served.done(task_id)
    assert (row["status"], row["retry_count"], row["error_code"], result_of(row)["ok"]) == ("COMPLETED", 1, None, 2)
    first, second = await served.attempts(task_id)
    assert (first["outcome"], first["will_retry"], first["error_code"]) == ("FAILED", True, "TRY_AGAIN")
    assert (second["attempt"], second["outcome"], second["will_retry"]) == (2, "COMPLETED", False)
    assert second["started_at"] >= row["next_retry_at"]


async def test_tasks_and_retries_run_when_they_are_due(served: Served) -> None:
    """Each waits for the one before: by polls alone, every 5 s, six would take longer than the patience."""
    async with asyncio.timeout(PATIENCE_S):
        for number in range(6):
            soon = datetime.now(UTC) + timedelta(seconds=0.3)
            due = {"next_retry_at" if number % 2 else "enqueued_at": soon}
            row = await served.done(await served.send("add", number, 1, **due))
            assert (row["status"], row["started_at"] >= soon) == ("COMPLETED", True)


async def test_a_task_that_is_moved_here_or_made_due_wakes_the_worker(served: Served) -> None:
    """Each waits for the one before: by polls alone, every 5 s, six would take longer than the patience."""
    async with asyncio.timeout(PATIENCE_S):
        for number in range(3):
            elsewhere = await served.send("add", number, 1, queue_name="elsewhere")
            later = await served.send("add", number, 2, enqueued_at=datetime.now(UTC) + timedelta(hours=1))
            acts = (("move", elsewhere, {"queue": "default"}), ("reschedule", later, {"now": True}))
            for name, task_id, given in acts:
                seen = await preview(served.connection, VERBS["task", name], Selection.of_ids([task_id]), **given)
                await apply(served.connection, seen, Actor("ops", "bastion"), None)
                assert (await served.done(task_id))["status"] == "COMPLETED"


async def test_the_error_of_the_last_try_says_that_the_retries_are_spent(served: Served, tmp_path: Path) -> None:
    task_id = await served.send("flaky", str(tmp_path / "runs"), 9, max_retries=1, task_options=options(["TRY_AGAIN"]))
    declined = await served.send("refuse", max_retries=1, retry_count=1, task_options=options(["CARD_DECLINED"]))
    unhandled, crashed = [
        await served.send(name, *args, max_retries=1, retry_count=1, task_options=options([code]))
        for name, args, code in (
            ("flaky", (str(tmp_path), 1), "UNHANDLED_EXCEPTION"),  # it opens a directory
            ("die", (str(tmp_path / "deaths"), 9), "WORKER_CRASHED"),
        )
    ]
    row = await served.done(task_id)
    assert (row["status"], row["retry_count"], row["error_code"]) == ("FAILED", 1, "TRY_AGAIN")
    assert result_of(row)["err"]["data"] == {"reason": "all retries are spent", "retry_count": 1, "max_retries": 1}
    assert result_of(await served.done(declined))["err"]["data"] == {"limit": 5}
    spent = result_of(await served.done(unhandled))["err"]["data"]
    assert (spent["exception_type"], spent["reason"]) == ("IsADirectoryError", "all retries are spent")
    spent = result_of(await served.done(crashed))["err"]["data"]
    assert ("SIGKILL" in spent["how"], spent["reason"]) == (True, "all retries are spent")


def options(codes: list[str]) -> str:
    policy = {
        "max_retries": 2,
        "intervals": [1, 1],
        "backoff_strategy": "fixed",
        "jitter": False,
        "auto_retry_for": codes,
    }
    return json.dumps({"retry_policy": policy, "good_until": None})


async def test_a_crash_is_retried_where_the_policy_lists_it(served: Served, tmp_path: Path) -> None:
    task_id = await served.send(
        "die", str(tmp_path / "runs"), 1, max_retries=2, task_options=options(["WORKER_CRASHED"])
    )
    row = await served.done(task_id)
    assert (row["status"], result_of(row)["ok"]) == ("COMPLETED", 2)
    assert [attempt["error_code"] for attempt in await served.attempts(task_id)] == ["WORKER_CRASHED", None]


async def test_prefetched_tasks_run_in_order_and_each_once(table: Table, start: Callable[..., Worker]) -> None:
    ids = [await table.send("add", number, 0) for number in range(200)]
    start(TEST_PREFETCH="64")
    rows = [await table.done(task_id) for task_id in ids]
    assert [result_of(row)["ok"] for row in rows] == list(range(200))
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == 200
    starts = [row["started_at"] for row in rows]
    assert starts == sorted(starts)


async def test_a_worker_tells_about_itself_every_few_seconds(table: Table, start: Callable[..., Worker]) -> None:
    worker = start("--processes", "2", "--app-version", "1.4.2")
    row = None
    async with asyncio.timeout(PATIENCE_S):
        heard = asyncio.Event()
        await table.connection.add_listener("horsies_worker_state", lambda *_: heard.set())
        while (row := await table.connection.fetchrow("SELECT * FROM horsies_worker_states")) is None:
            await heard.wait()
    assert (row["pid"], row["processes"], row["queues"]) == (worker.process.pid, 2, ["default"])
    assert row["memory_usage_mb"] > 1
    assert row["children_memory_mb"] > row["largest_child_mb"] > 1
    assert row["largest_child_pid"] not in (None, worker.process.pid)
    assert row["app_version"] == "1.4.2"
    assert json.loads(row["recovery_config"])["running_stale_threshold_ms"] == 300_000


async def test_a_newer_schema_is_refused(connection: asyncpg.Connection, start: Callable[..., Worker]) -> None:
    await connection.execute("INSERT INTO horsies_console_schema (version, name) VALUES (999, 'future')")
    worker = start(ready=False)
    assert await asyncio.to_thread(worker.process.wait, PATIENCE_S) == 1
    said = await asyncio.to_thread(worker.wait_until, lambda record: "HRS-211" in record.get("text", ""), "its reason")
    assert "this release knows" in said["text"]


async def test_a_worker_waits_for_a_database_that_is_not_there_yet(
    short_directory: Path, start: Callable[..., Worker]
) -> None:
    """It reports it and retries; a signal ends the wait."""
    worker = start(ready=False, HORSIES_DATABASE_URL=f"postgresql://horsies@/horsies?host={short_directory}")
    record = await asyncio.to_thread(worker.wait_for, "waiting for the database")
    assert "cannot connect" in record["reason"]
    assert await asyncio.to_thread(worker.stop) == 0


async def test_the_process_list_says_what_runs_and_a_child_is_replaced_after_its_share_of_tasks(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    worker = start("--max-tasks-per-child", "3")
    (child,) = worker.children()
    assert " ".join(child.cmdline()).startswith("horsies: child 1 of ")
    assert " ".join(psutil.Process(worker.process.pid).cmdline()).strip() == "horsies: worker worker_app:app"
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    async with asyncio.timeout(PATIENCE_S):
        while f"wait_for_file …{task_id[-8:]}" not in " ".join(child.cmdline()):  # noqa: ASYNC110 - only ps shows it
            await asyncio.sleep(0.01)
    await asyncio.to_thread((tmp_path / "go").write_text, "go")
    rows = [await table.done(task_id)]
    rows += [await table.done(await table.send("add", 1, 1)) for _ in range(6)]
    pids = [row["worker_pid"] for row in rows]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


@pytest.mark.chaos  # two seconds of processor time
async def test_no_loop_stumbles_over_another_under_load(table: Table, start: Callable[..., Worker]) -> None:
    """Beats every quarter of a second while outcomes are stored continuously: each on a separate connection."""
    ids = [await table.send("nothing") for _ in range(3000)]
    worker = start("--loglevel", "WARNING", "--processes", "2", ready=False, TEST_PREFETCH="64")
    for task_id in ids:
        await table.done(task_id)
    assert await asyncio.to_thread(worker.stop) == 0
    worker.kill()
    assert [record for record in worker.all_records() if record["event"] != "?"] == []


async def test_a_worker_serves_the_queues_it_is_told_to(table: Table, start: Callable[..., Worker]) -> None:
    queues = "mail:1:2,reports:50:1,bulk:60:1"
    served = [await table.send("add", 1, 1, queue_name=name) for name in ("mail", "bulk")]
    left = await table.send("add", 1, 1, queue_name="reports")
    start("-Q", "mail", "-Q", "bulk,reports", "--except", "reports", TEST_QUEUES=queues)
    stopped = await table.send("pause", 30, queue_name="mail", task_options='{"timeout_ms": 200}')
    assert {(await table.done(task_id))["status"] for task_id in served} == {"COMPLETED"}
    assert (await table.done(stopped))["error_code"] == "TASK_TIMEOUT"
    assert (await table.row(left))["status"] == "PENDING"
    told = await table.connection.fetchval("SELECT queues FROM horsies_worker_states ORDER BY snapshot_at DESC LIMIT 1")
    assert sorted(told) == ["bulk", "mail"]
