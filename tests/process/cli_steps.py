"""Steps for tests of the command line: insert rows, run commands, read their output."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncpg
from typer import testing
from typer.main import get_command

from horsies.cli.main import app, exit_code, say_failure
from horsies.domain.errors import HorsiesError

vars(testing)["_get_command"] = cache(get_command)  # to build the commands anew takes each call 15 ms

POLICY = '{"retry_policy":{"max_retries":3,"intervals":[60],"auto_retry_for":["BROKE"]},"good_until":null}'


@dataclass(frozen=True, slots=True)
class Said:
    """A command's exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.out)
        return told

    @property
    def words(self) -> str:
        """All output on one line, for sentences that may be wrapped in a frame."""
        return " ".join((self.out + self.err).replace("│", " ").split())


def ran(*words: str, **more: Any) -> testing.Result:
    """Run a command, and leave the log as it was: after `check`, later tests would miss the records of the engine."""
    logger = logging.getLogger("horsies")
    handlers, propagate, level = [*logger.handlers], logger.propagate, logger.level
    try:
        return testing.CliRunner().invoke(app, list(words), **more)
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def said(*words: str, answer: str | None = None) -> Said:
    """Run a command; the text and exit code of its errors are those of horsies.cli.main.main."""
    result = ran(*words, input=answer)
    if isinstance(result.exception, HorsiesError):
        return Said(exit_code(result.exception), result.stdout, result.stderr + str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def printed(*words: str) -> Said:
    """Run a command as `said` does, and print its failure as the program does, defects included."""
    result, failure = ran(*words, prog_name="horsies"), io.StringIO()
    with redirect_stderr(failure):
        if isinstance(result.exception, Exception):
            say_failure(result.exception)
    return Said(result.exit_code, result.stdout, result.stderr + failure.getvalue())


async def horsies(*words: str, answer: str | None = None) -> Said:
    """Run a command in a thread, because it creates its own event loop."""
    return await asyncio.to_thread(said, *words, answer=answer)


async def insert(conn: asyncpg.Connection, *ids: str, **columns: str) -> None:
    """Tasks with these ids; a column is given as an SQL expression."""
    given = {"task_name": "'demo.add'", "queue_name": "'default'", "status": "'PENDING'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, {', '.join(given)}) SELECT id, {', '.join(given.values())}"
        " FROM unnest($1::text[]) WITH ORDINALITY AS new (id, number)",
        list(ids),
    )


async def failed(conn: asyncpg.Connection, *ids: str, code: str = "BROKE", **columns: str) -> None:
    """Tasks that failed a minute ago."""
    ended = {"status": "'FAILED'", "failed_at": ago(60), "started_at": ago(62), "error_code": f"'{code}'"}
    await insert(conn, *ids, **ended, **columns)


async def running(conn: asyncpg.Connection, *ids: str, seconds: float = 5, worker: str = "w-1", **columns: str) -> None:
    held = {"status": "'RUNNING'", "claimed_by_worker_id": f"'{worker}'", "claimed_at": ago(seconds)}
    await insert(conn, *ids, **held, started_at=ago(seconds), **columns)


async def claimed(conn: asyncpg.Connection, *ids: str, seconds: float = 5, worker: str = "w-1") -> None:
    held = {"status": "'CLAIMED'", "claimed": "true", "claimed_by_worker_id": f"'{worker}'"}
    await insert(conn, *ids, **held, claimed_at=ago(seconds), claim_expires_at=ago(-60))


async def worker(conn: asyncpg.Connection, worker_id: str = "w-1", *, seconds: float = 1, **columns: str) -> None:
    """A worker's snapshot of this age."""
    given = {"queues": "'{default}'", "memory_usage_mb": "100", **columns}
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        f" max_claim_per_worker, worker_started_at, {', '.join(given)})"
        f" VALUES ($1, {ago(seconds)}, 'host', 1, 8, 8, 8, now() - interval '2 h', {', '.join(given.values())})",
        worker_id,
    )


def ago(seconds: float) -> str:
    return f"now() - {seconds} * interval '1 s'"


async def statuses(conn: asyncpg.Connection) -> dict[str, str]:
    return {row["id"]: row["status"] for row in await conn.fetch("SELECT id, status FROM horsies_tasks")}


async def audited(conn: asyncpg.Connection) -> list[tuple[str, str, str, str | None]]:
    rows = await conn.fetch("SELECT verb, target_id, outcome, reason FROM horsies_operator_actions ORDER BY id")
    return [tuple(row) for row in rows]
