"""Two environment variables enable logs about the import of an application, here and in child processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from forked_commands import run_command
from test_worker import HERE, Table, Worker


def check(database: str, **environ: str) -> str:
    """The stderr of `horsies check` at its default level."""
    environ = {**os.environ, "HORSIES_DATABASE_URL": database, **environ}
    done = run_command(["check", "worker_app.py:app"], env=environ, cwd=HERE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_imports_are_told_on_request_whatever_the_log_level(database: str) -> None:
    assert check(database) == ""
    assert check(database, HORSIES_DEBUG_IMPORTS="0") == ""
    told = check(database, HORSIES_DEBUG_IMPORTS="1")
    assert "importing worker_app.py as worker_app" in told
    assert f"imported worker_app from {HERE / 'worker_app.py'} in " in told


async def test_children_tell_their_imports_only_on_request_of_their_own(
    table: Table, start: Callable[..., Worker]
) -> None:
    quiet = start(HORSIES_DEBUG_IMPORTS="1")
    assert await asyncio.to_thread(quiet.stop) == 0
    quiet.kill()
    assert [record["line"] for record in quiet.all_records() if record["event"] in ("stdout", "stderr")] == []
    talking = start("--loglevel", "INFO", HORSIES_CHILD_DISCOVERY_LOGS="1", ready=False)
    record = await asyncio.to_thread(talking.wait_for, "stderr")
    assert record["line"] == "DEBUG horsies.registry: importing worker_app as worker_app"
    assert record["child"] == 1
    record = await asyncio.to_thread(talking.wait_for, "stderr")
    assert record["line"].startswith(f"DEBUG horsies.registry: imported worker_app from {HERE / 'worker_app.py'} in ")
    row = await table.done(await table.send("add", 1, 2))
    assert row["status"] == "COMPLETED"
