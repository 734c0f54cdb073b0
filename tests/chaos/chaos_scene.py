"""The common part of the fault scenes: workers on one database, tasks that write a ledger, and the audit at the end."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import asyncpg
import psutil
from forked_commands import Command

from horsies.domain.ids import new_task_id

HERE = Path(__file__).parent
TABLE_VARIABLE = "HORSIES_FAULT_TABLE"
"""Names a Markdown file to which each scene that was audited or has failed writes its row."""

RETRIED = {
    "retry_policy": {
        "max_retries": 10,
        "intervals": [1] * 10,
        "backoff_strategy": "fixed",
        "jitter": False,
        "auto_retry_for": ["WORKER_CRASHED"],
    },
    "good_until": None,
}
_TRANSITIONS = """
CREATE TABLE transitions (number bigserial, at timestamptz DEFAULT clock_timestamp(), task_id text, queue text,
                          old text, new text, worker text, claimed_at timestamptz);
CREATE FUNCTION note_transition() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO transitions (task_id, queue, old, new, worker, claimed_at)
    VALUES (NEW.id, NEW.queue_name, OLD.status, NEW.status, NEW.claimed_by_worker_id, NEW.claimed_at);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE OF status ON horsies_tasks FOR EACH ROW
    WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION note_transition();
"""
_LIVING = "SELECT count(*) FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"


@dataclass(frozen=True)
class Run:
    """One run of user code, from the ledger: its process, its first and last mark, and whether it ended."""

    pid: int
    begin: float
    last: float
    ended: bool


@dataclass
class Audit:
    """The result of a scene. `violations` must be empty."""

    tasks: int = 0
    runs: int = 0
    overlap_s: float = 0.0
    crashed: int = 0
    violations: list[str] = field(default_factory=list)


class Scene:
    """One database with workers, each a separate process."""

    def __init__(
        self, url: str, connection: asyncpg.Connection, directory: Path, name: str, environ: dict[str, str]
    ) -> None:
        self.name = name
        self.url = url
        self.connection = connection
        self.directory = directory
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.ids: dict[str, str] = {}
        self.workers: list[subprocess.Popen[str]] = []
        self._environ = environ
        self._audited: Audit | None = None

    async def worker(self, *options: str, url: str | None = None, **environ: str) -> subprocess.Popen[str]:
        """A worker that is ready. Its log is `worker-N.log` in the scene's directory, one JSON object per line."""
        log = self.directory / f"worker-{len(self.workers)}.log"
        process = self._start(log, options, url or self.url, environ)
        await until(lambda: '"ready"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def _start(self, log: Path, options: Sequence[str], url: str, environ: Mapping[str, str]) -> subprocess.Popen[str]:
        with log.open("w") as file:
            process: Command[str] = Command(
                ["worker", "chaos_app:app", "--log-format", "json", "--loglevel", "DEBUG", *options],
                env={**os.environ, **self._environ, **environ, "HORSIES_DATABASE_URL": url},
                cwd=HERE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                text=True,
                start_new_session=True,  # a scene can stop the whole group
            )
        self.workers.append(process)
        return process

    def log(self, process: subprocess.Popen[str]) -> list[dict[str, object]]:
        lines = (self.directory / f"worker-{self.workers.index(process)}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def children(self, process: subprocess.Popen[str]) -> list[psutil.Process]:
        """The processes that run user code; `ps` shows `horsies: child 3 of host:pid`."""
        return [each for each in psutil.Process(process.pid).children() if " child " in " ".join(each.cmdline())]

    async def send(
        self, task: str, count: int, seconds: float, *, retried: bool = True, **columns: object
    ) -> list[str]:
        """Insert `count` tasks with plain SQL; their labels are `task-0`, `task-1` …"""
        made = []
        for _ in range(count):
            label = f"{task}-{len(self.ids)}"
            values: dict[str, object] = {
                "id": new_task_id(),
                "task_name": task,
                "queue_name": "default",
                "status": "PENDING",
                "args": json.dumps([str(self.ledger), label, seconds]),
                "enqueue_sha": "by-hand",
                **({"max_retries": 10, "task_options": json.dumps(RETRIED)} if retried else {}),
                **columns,
            }
            names, marks = ", ".join(values), ", ".join(f"${place}" for place in range(1, len(values) + 1))
            await self.connection.execute(f"INSERT INTO horsies_tasks ({names}) VALUES ({marks})", *values.values())
            self.ids[label] = str(values["id"])
            made.append(label)
        return made

    def runs(self) -> dict[str, list[Run]]:
        """By label, in the order of their beginnings."""
        marks: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        for line in self.ledger.read_text().splitlines():
            at, label, run, mark = line.split()
            marks[label, run].append((float(at), mark))
        runs: dict[str, list[Run]] = defaultdict(list)
        for (label, run), lines in marks.items():
            runs[label].append(Run(int(run.split("-")[0]), lines[0][0], lines[-1][0], lines[-1][1] == "end"))
        return {label: sorted(each, key=lambda run: run.begin) for label, each in runs.items()}

    async def begun(self, labels: list[str], times: int = 1, patience_s: float = 20.0) -> None:
        """Wait until the user code of each task has begun this often."""
        await until(lambda: all(len(self.runs().get(label, [])) >= times for label in labels), patience_s)

    async def settled(self, patience_s: float) -> None:
        """Wait until each task has ended; at the time limit the audit reports those that have not."""
        try:
            async with asyncio.timeout(patience_s):
                while await self.connection.fetchval(_LIVING):  # noqa: ASYNC110 - the database has no event for this
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return

    async def audit(self, *, cap: int | None = None, crashes: int | None = 0) -> Audit:
        """Compare rows, attempts and ledger; `crashes`: how many runs the fault may end, None for any number."""
        for task_id, kwargs in await self.connection.fetch(
            "SELECT id, kwargs FROM horsies_tasks WHERE is_workflow_task"
        ):
            self.ids[json.loads(kwargs)["label"]] = task_id  # sent by an advance, not by this scene
        self._audited = audit = Audit(tasks=len(self.ids))
        runs = self.runs()
        audit.runs = sum(map(len, runs.values()))
        for label, task_id in self.ids.items():
            await self._check(audit, label, task_id, runs.get(label, []))
        if crashes is not None and audit.crashed > crashes:
            audit.violations.append(f"{audit.crashed} runs counted as crashed, {crashes} expected")
        if cap is not None and (most := await self._most_at_once()) > cap:
            audit.violations.append(f"{most} ran at once under a cap of {cap}")
        _record(self.name, audit)
        return audit

    async def note_failure(self) -> None:
        """Record that the scene has failed, with the violations found so far or those in its rows."""
        if self._audited is None:
            with suppress(Exception):  # its server may have stopped
                async with asyncio.timeout(10):
                    await self.audit(crashes=None)
        _record(self.name, self._audited or Audit(), failed=True)

    async def _check(self, audit: Audit, label: str, task_id: str, runs: list[Run]) -> None:
        row = await self.connection.fetchrow("SELECT * FROM horsies_tasks WHERE id = $1", task_id)
        attempts = await self.connection.fetch(
            "SELECT * FROM horsies_task_attempts WHERE task_id = $1 ORDER BY attempt", task_id
        )
        changes = await self.connection.fetch("SELECT * FROM transitions WHERE task_id = $1 ORDER BY number", task_id)
        crashed = [attempt for attempt in attempts if attempt["error_code"] == "WORKER_CRASHED"]
        audit.crashed += len(crashed)
        ends = [change["new"] for change in changes if change["new"] in ("COMPLETED", "FAILED")]
        tokens = [(change["worker"], change["claimed_at"]) for change in changes if change["new"] == "RUNNING"]
        checks = {
            f"is {row['status']}": row["status"] in ("COMPLETED", "FAILED"),
            f"ended {len(ends)} times": len(ends) == 1,
            "has a gap in its attempts": [a["attempt"] for a in attempts] == list(range(1, len(attempts) + 1)),
            "ran twice under one claim": len(set(tokens)) == len(tokens),
            f"ran {len(runs)} times in {len(tokens)} starts": len(runs) <= len(tokens),
            "is COMPLETED and no run came to its end": row["status"] != "COMPLETED" or any(run.ended for run in runs),
        }
        audit.violations += [f"{label} {what}" for what, holds in checks.items() if not holds]
        finished = {run.pid for run in runs if run.ended}
        if row["status"] == "COMPLETED" and len(runs) == 1:
            finished.clear()  # its only run is the one that was accepted
        buried = [one for one in crashed if one["worker_pid"] in finished]
        audit.violations += [f"{label} had come to its end and was counted as crashed" for _ in buried]
        for earlier, later in pairwise(runs):
            if later.begin < earlier.last:
                audit.overlap_s = max(audit.overlap_s, earlier.last - later.begin)
                audit.violations.append(f"{label} ran in two places for {earlier.last - later.begin:.2f} s")

    async def _most_at_once(self) -> int:
        changes = await self.connection.fetch("SELECT old, new FROM transitions ORDER BY number")
        running = most = 0
        for change in changes:
            running += (change["new"] == "RUNNING") - (change["old"] == "RUNNING")
            most = max(most, running)
        return most

    def close(self) -> None:
        for process in self.workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


async def until(true: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Wait for output of another process."""
    async with asyncio.timeout(patience_s):
        while not true():  # noqa: ASYNC110 - there is no event for a file of another process
            await asyncio.sleep(0.02)


@asynccontextmanager
async def scene(
    url: str, directory: Path, name: str, *, worker_url: str | None = None, **environ: str
) -> AsyncIterator[Scene]:
    """`url` is the audit's connection; `worker_url`, if it differs, is the workers'.

    `name` is the row of the scene in the table.
    """
    connection = await asyncpg.connect(url)
    await connection.execute(_TRANSITIONS)
    made = Scene(worker_url or url, connection, directory, name, environ)
    try:
        yield made
    except Exception:
        await made.note_failure()
        raise
    finally:
        made.close()
        await made.connection.close()  # a scene that stopped its server has replaced the connection


def _record(name: str, audit: Audit, *, failed: bool = False) -> None:
    """One row per scene, sorted by name; a run replaces the row of the previous run."""
    target = os.environ.get(TABLE_VARIABLE)
    if not target:
        return
    path = Path(target)
    head = [
        "# Faults",
        "",
        f"Written by the fault scenes: `{TABLE_VARIABLE}=docs/faults.md pytest -m 'chaos or soak' tests/chaos`.",
        "",
        "| scene | tasks | runs | counted as crashed | longest overlap | violations |",
        "|---|---|---|---|---|---|",
    ]
    lock = os.open(path.parent, os.O_RDONLY)  # scenes run concurrently
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = path.read_text().splitlines() if path.exists() else []
        rows = {line.split(" | ")[0]: line for line in old if line.startswith("| ") and not line.startswith("| scene")}
        violations = f"failed, {len(audit.violations)}" if failed else len(audit.violations)
        cells = name, audit.tasks, audit.runs, audit.crashed, f"{audit.overlap_s:.2f} s", violations
        rows[f"| {name}"] = f"| {' | '.join(map(str, cells))} |"
        path.write_text("\n".join([*head, *(rows[key] for key in sorted(rows))]) + "\n")
    finally:
        os.close(lock)
