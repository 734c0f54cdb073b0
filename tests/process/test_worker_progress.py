"""The progress of tasks of a real worker: at most one write per second, of the right run, and exact at its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from database_server import DatabaseServer
from test_worker import PATIENCE_S, Table, Worker, serving

from horsies.operations.looking import answer_to, look_at
from horsies.operations.target import Actor

WRITES = """
CREATE TABLE writes (task_id text, done float8, written_at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO writes VALUES (NEW.task_id, NEW.done);
    PERFORM pg_notify('written', NEW.task_id || ' ' || NEW.done);
    RETURN NEW;
END $$;
CREATE TRIGGER note_write AFTER INSERT OR UPDATE ON horsies_progress FOR EACH ROW EXECUTE FUNCTION note_write();
"""

WAITS = "SELECT true FROM pg_locks WHERE relation = 'horsies_progress'::regclass AND NOT granted"


@pytest.fixture(scope="module")
def shared_worker(server: DatabaseServer) -> Iterator[tuple[str, Worker]]:
    """One with a single child, which also runs tasks together."""
    with serving(server, "--processes", "1", app="progress_app:app") as served:
        yield served


class Noted(Table):
    """With a record of each write of progress."""

    worker: Worker
    url: str

    async def note(self) -> None:
        self._written: list[str] = []
        self._news = asyncio.Event()
        await self.connection.execute("DROP TABLE IF EXISTS writes; DROP FUNCTION IF EXISTS note_write CASCADE")
        await self.connection.execute(WRITES)
        await self.connection.add_listener("written", lambda *told: self._hear(told[-1]))

    def _hear(self, told: str) -> None:
        self._written.append(told)
        self._news.set()

    async def until_written(self, task_id: str, done: int | str = "") -> None:
        """A write that was not waited for yet; of any progress without `done`."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [told for told in self._written if told.startswith(f"{task_id} {done}")]):
                self._news.clear()
                await self._news.wait()
        self._written.remove(found[0])

    async def progress_of(self, task_id: str) -> list[tuple[Any, ...]]:
        """Of each run, the oldest first."""
        rows = await self.connection.fetch(
            "SELECT done, total, unit FROM horsies_progress WHERE task_id = $1 ORDER BY started_at", task_id
        )
        return [tuple(row) for row in rows]


@pytest.fixture
async def noted(shared_worker: tuple[str, Worker]) -> AsyncIterator[Noted]:
    url, worker = shared_worker
    connection = await asyncpg.connect(url)
    table = Noted(connection)
    table.worker, table.url = worker, url
    await table.listen()
    await table.note()
    yield table
    await connection.close()


async def test_a_thousand_reports_a_second_are_one_write_a_second_and_the_last_one_is_kept(noted: Noted) -> None:
    task_id = await noted.send("hurry", 2.5)
    await noted.until_written(task_id, 100_000)
    writes = await noted.connection.fetch("SELECT done, written_at FROM writes WHERE task_id = $1", task_id)
    assert 2 <= len(writes) <= 4
    assert [row["done"] for row in writes] == sorted(row["done"] for row in writes)
    while_it_ran = [row["written_at"] for row in writes[:-1]]
    assert all((b - a).total_seconds() > 0.8 for a, b in pairwise(while_it_ran))
    assert await noted.progress_of(task_id) == [(100_000, 100_000, "rows")]
    rate = await noted.connection.fetchval("SELECT rate FROM horsies_progress WHERE task_id = $1", task_id)
    assert 100 < rate < 1_000_000


async def test_a_failed_attempt_says_how_far_it_came_and_the_retry_starts_at_nothing(
    noted: Noted, tmp_path: Path
) -> None:
    policy = {"max_retries": 1, "intervals": [1], "backoff_strategy": "fixed", "auto_retry_for": ["BROKEN"]}
    options = json.dumps({"retry_policy": {**policy, "jitter": False}})
    task_id = await noted.send("import_rows", str(tmp_path / "tried"), max_retries=1, task_options=options)
    await noted.until_written(task_id, 3)
    await noted.done(task_id)
    assert await noted.progress_of(task_id) == [(3, 10, "rows")]
    attempts = await noted.connection.fetch(
        "SELECT attempt, done FROM horsies_task_attempts LEFT JOIN horsies_progress USING (task_id, started_at)"
        " WHERE task_id = $1 ORDER BY attempt",
        task_id,
    )
    assert [tuple(row) for row in attempts] == [(1, 3), (2, None)]


async def test_a_crash_leaves_the_very_last_report(noted: Noted) -> None:
    task_id = await noted.send("die_at_row", 7)
    await noted.until_written(task_id, 7)
    row = await noted.done(task_id)
    assert row["error_code"] == "WORKER_CRASHED"
    assert await noted.progress_of(task_id) == [(7, 10, "rows")]


async def test_threads_and_tasks_that_share_a_process_report_for_themselves(noted: Noted) -> None:
    threads = await noted.send("count_in_threads")
    await noted.until_written(threads, 4)
    assert await noted.progress_of(threads) == [(4, 4, "pages")]
    tasks = [await noted.send("count_together", number) for number in range(1, 9)]
    for task_id in tasks:
        await noted.done(task_id)
    await noted.until_written(tasks[-1], 8)
    found = [await noted.progress_of(task_id) for task_id in tasks]
    assert found == [[(number, 100, f"rows of {number}")] for number in range(1, 9)]


async def test_odd_reports_fail_nothing_and_a_task_that_was_taken_over_keeps_its_own(
    noted: Noted, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    task_id = await noted.send("wait_with_odd_reports", str(go))
    await noted.until_written(task_id, 7)
    assert await noted.progress_of(task_id) == [(7, None, "rows" * 6)]
    # Another worker runs it now, and has reported; the old child goes on, and ends.
    await noted.connection.execute(
        "UPDATE horsies_tasks SET claimed_by_worker_id = 'another', claimed_at = now(), started_at = now(),"
        " updated_at = now() WHERE id = $1",
        task_id,
    )
    await noted.connection.execute(
        "INSERT INTO horsies_progress (task_id, started_at, done, reported_at)"
        " SELECT id, started_at, 1, now() FROM horsies_tasks WHERE id = $1",
        task_id,
    )
    await asyncio.to_thread(go.write_text, "on")
    await asyncio.to_thread(noted.worker.wait_for, "claim lost", id=task_id)
    after = await noted.send("die_at_row", 2)
    await noted.until_written(after, 2)  # whatever the worker had left to write is written now
    assert await noted.progress_of(task_id) == [(7, None, "rows" * 6), (1, None, None)]


async def test_a_lock_on_the_reports_delays_only_them(noted: Noted, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    other = await asyncpg.connect(noted.url)
    async with other.transaction():
        await other.execute("LOCK TABLE horsies_progress IN ACCESS EXCLUSIVE MODE")
        task_id = await noted.send("wait_with_odd_reports", str(go))
        await noted.until(task_id, "RUNNING")
        async with asyncio.timeout(PATIENCE_S):
            while not await noted.connection.fetchval(WAITS):  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.05)
        assert (await noted.done(await noted.send("count_together", 1)))["status"] == "COMPLETED"
        look = await look_at(noted.connection, Actor("ops", "bastion"), task_id, "stack")
        assert (await answer_to(noted.connection, look, 12.0)).found is not None
    await other.close()
    await noted.until_written(task_id, 7)
    await asyncio.to_thread(go.write_text, "on")
    await noted.done(task_id)
    await asyncio.to_thread(noted.worker.wait_for, "finished", id=task_id)
    assert not [record for record in noted.worker.events if record["event"] in ("cannot write", "loop failed")]


@pytest.mark.chaos
async def test_a_frozen_worker_that_wakes_up_leaves_the_progress_of_the_new_run(
    database: str, connection: asyncpg.Connection, start: Callable[..., Worker]
) -> None:
    noted, options = Noted(connection), ("--processes", "1")
    await noted.listen()
    await noted.note()
    frozen = await asyncio.to_thread(start, *options, app="progress_app:app", TEST_STALE_MS="2000")
    policy = {"max_retries": 1, "intervals": [1], "backoff_strategy": "fixed", "auto_retry_for": ["WORKER_CRASHED"]}
    task_options = json.dumps({"retry_policy": {**policy, "jitter": False}})
    task_id = await noted.send("hurry", 8.0, max_retries=1, task_options=task_options)
    await noted.until_written(task_id)
    os.kill(frozen.process.pid, signal.SIGSTOP)
    await asyncio.to_thread(start, *options, app="progress_app:app", TEST_STALE_MS="2000")
    async with asyncio.timeout(PATIENCE_S):
        while len(await noted.progress_of(task_id)) < 2:
            await noted.until_written(task_id)
    (before, *_) = await noted.progress_of(task_id)
    os.kill(frozen.process.pid, signal.SIGCONT)
    await asyncio.to_thread(frozen.wait_for, "claim lost", id=task_id)
    after = await noted.send("die_at_row", 2)
    await noted.until_written(after, 2)
    await noted.until_written(task_id, 100_000)
    assert await noted.progress_of(task_id) == [before, (100_000, 100_000, "rows")]
    assert [row["outcome"] for row in await noted.attempts(task_id)] == ["FAILED", "COMPLETED"]
