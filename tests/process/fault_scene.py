"""The common part of the fault tests: a database with workers, a ledger of runs, and checks that all rows agree."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faults import Fault, FaultPoint
from test_worker import PATIENCE_S, Table, Worker

DONE = ("COMPLETED", None)
AGAIN = ("FAILED", "TRY_AGAIN")
CRASH = ("FAILED", "WORKER_CRASHED")
POLICY = {
    "intervals": [1],
    "backoff_strategy": "fixed",
    "jitter": False,
    "auto_retry_for": ["TRY_AGAIN", "WORKER_CRASHED"],
}

ENDED = "SELECT count(*) = 0 FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"
TRANSITIONS = """
CREATE TABLE transitions (number bigserial, task_id text, old text, new text, worker text, claimed_at timestamptz);
CREATE FUNCTION note_transition() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO transitions (task_id, old, new, worker, claimed_at)
    VALUES (NEW.id, OLD.status, NEW.status, NEW.claimed_by_worker_id, NEW.claimed_at);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE OF status ON horsies_tasks FOR EACH ROW
    WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION note_transition();
"""


@dataclass(frozen=True)
class Step:
    """A statement of the engine at which a worker is stopped, and the task that leads to it."""

    point: FaultPoint
    task: str = "work"


STEPS = {
    "claim": Step(FaultPoint("horsies_tasks", "UPDATE", "OLD.status = 'PENDING' AND NEW.status <> 'PENDING'")),
    "finish": Step(FaultPoint.status("RUNNING", "COMPLETED")),
    "history": Step(FaultPoint("horsies_task_attempts", "INSERT")),
    "retry": Step(FaultPoint.status("RUNNING", "PENDING"), "flaky"),
    "beat": Step(FaultPoint("horsies_heartbeats", "INSERT", "NEW.role = 'runner'"), "hold"),
}


class Scene:
    """One database with its workers, the ledger of their tasks, and the checks."""

    def __init__(self, table: Table, start: Callable[..., Worker], directory: Path) -> None:
        self.table = table
        self.connection = table.connection
        self._start = start
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.go = directory / "go"
        os.mkfifo(self.go)
        self.ids: dict[str, str] = {}
        self.workers: list[Worker] = []

    async def worker(self, **environ: str) -> Worker:
        worker = await asyncio.to_thread(self._start, app="fault_app:app", **environ)
        self.workers.append(worker)
        return worker

    async def send(self, task: str, label: str = "a", retries: int = 3) -> None:
        arguments = [str(self.ledger), label, *([str(self.go)] if task == "hold" else [])]
        options = json.dumps({"retry_policy": POLICY | {"max_retries": retries}, "good_until": None})
        self.ids[label] = await self.table.send(task, *arguments, max_retries=retries, task_options=options)

    async def let_go(self) -> None:
        """Let the `hold` that runs, or is going to run, end.

        A thread that waits for a reader of the pipe cannot be cancelled: where no `hold` came, the tests hung for good.
        """
        pipe = -1
        async with asyncio.timeout(PATIENCE_S):
            while pipe < 0:
                try:
                    pipe = os.open(self.go, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:
                    await asyncio.sleep(0.01)
        os.write(pipe, b"go")
        os.close(pipe)

    async def begun(self, label: str = "a", runs: int = 1) -> None:
        """Wait until the task's own code has begun this often."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.runs(label)) < runs:  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.01)

    async def until(self, question: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until the query returns true."""
        async with asyncio.timeout(patience_s):
            while not await self.connection.fetchval(question):  # noqa: ASYNC110 - it has no event for this
                await asyncio.sleep(0.03)

    def runs(self, label: str) -> list[int]:
        """The process of each run of the task's code."""
        lines = (line.split() for line in self.ledger.read_text().splitlines())
        return [int(pid) for name, pid in lines if name == label]

    async def history(self, label: str = "a") -> list[tuple[str, str | None]]:
        return [(row["outcome"], row["error_code"]) for row in await self.table.attempts(self.ids[label])]

    async def settled(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until every task has ended, then check all rows."""
        await self.until(ENDED, patience_s)
        for label, task_id in self.ids.items():
            await self._check(label, task_id)
        await self._check_workers()

    async def _check(self, label: str, task_id: str) -> None:
        row, attempts = await self.table.row(task_id), await self.table.attempts(task_id)
        changes = await self.connection.fetch("SELECT * FROM transitions WHERE task_id = $1 ORDER BY number", task_id)
        assert [change["new"] for change in changes if change["new"] in ("COMPLETED", "FAILED")] == [row["status"]]
        assert [attempt["attempt"] for attempt in attempts] == list(range(1, row["retry_count"] + 2))
        assert [attempt["will_retry"] for attempt in attempts] == [True] * row["retry_count"] + [False]
        assert attempts[-1]["outcome"] == row["status"] == "COMPLETED"
        assert (row["claimed"], row["claim_expires_at"], row["finalizing_at"]) == (False, None, None)
        tokens = [(change["worker"], change["claimed_at"]) for change in changes if change["new"] == "RUNNING"]
        assert len(set(tokens)) == len(tokens)
        # Each recorded execution ran the task's code at most once, and no run is missing from the history.
        told = sum(attempt["error_code"] != "WORKER_CRASHED" for attempt in attempts)
        assert told <= len(self.runs(label)) <= len(tokens)

    async def _check_workers(self) -> None:
        """Living workers stop when asked, and no worker leaves a session or a child process."""
        children = [child for each in self.workers if each.process.poll() is None for child in each.children()]
        for worker in self.workers:
            if worker.process.poll() is None:
                assert await asyncio.to_thread(worker.stop) == 0
        assert psutil.wait_procs(children, 2)[1] == []
        await self.until(
            "SELECT count(*) = 0 FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'horsies worker%'"
        )


@pytest.fixture
async def scene(table: Table, start: Callable[..., Worker], tmp_path: Path) -> Scene:
    await table.connection.execute(TRANSITIONS)
    return Scene(table, start, tmp_path)


async def caught(scene: Scene, step: Step, blocked: Fault, **environ: str) -> Worker:
    """A worker that is blocked in the middle of the step."""
    worker = await scene.worker(**environ)
    await scene.send(step.task)
    await blocked.reached()
    return worker


def kill_worker(worker: Worker) -> None:
    """Kill the worker and wait: the kernel kills its children with it."""
    children = worker.children()
    worker.process.kill()
    worker.process.wait()
    assert psutil.wait_procs(children, 5)[1] == []


def chaos(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.chaos)
