"""The output of a chatty task over a slow link: what arrives, and that keys are answered meanwhile.

`pytest -m bench -n 0 -s tests/terminal/test_looks_numbers.py` prints the figures.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import asyncpg
import pytest
from forked_commands import HORSIES
from pty_console import PtyConsole

pytestmark = pytest.mark.bench

APPS = Path(__file__).parent.parent / "process"
LINK = 30_000


async def test_100_000_lines_a_second_are_watched_over_a_link_of_30_kb_a_second(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha)"
        " VALUES ('019a7c2e-0000-7000-8000-00001cd6ba9a', 'write_for_ever', 'default', '[100000]', 'b')"
    )
    worker = subprocess.Popen(  # noqa: ASYNC220
        [HORSIES, "worker", "hang_app:app", "--processes", "1", "--loglevel", "WARNING"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        cwd=APPS,
        stdout=subprocess.DEVNULL,
    )
    try:
        with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, "task", "019a7c2e", rate=LINK) as console:
            console.until("RUNNING")
            console.type("O")
            console.until("2000 lines; it is followed")
            bytes_per_s = console.pass_time(10) / 10
            pressed = time.perf_counter() - console.started
            console.type("\x1b")
            closed_s = console.until_gone("it is followed") - pressed
            then = console.pass_time(3)
    finally:
        worker.kill()
        worker.wait()
    print(f"\n100,000 lines/s over {LINK} B/s: {bytes_per_s:,.0f} B/s; closed after {closed_s:.2f} s, then {then} B")
    assert bytes_per_s < 0.8 * LINK, "keys have room"
    assert closed_s < 3
    assert then < LINK / 2, "nothing goes on being sent"
