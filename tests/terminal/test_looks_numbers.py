"""Sheets and bars of running tasks over a slow link: what arrives, and that keys are answered meanwhile.

`pytest -m bench -n 0 -s tests/terminal/test_looks_numbers.py` prints the figures.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from forked_commands import HORSIES
from pty_console import PtyConsole

pytestmark = pytest.mark.bench

APPS = Path(__file__).parent.parent / "process"
LINK = 30_000
TASK = "019a7c2e-0000-7000-8000-00001cd6ba9a"


@contextmanager
def watching(database: str, environ: dict[str, str], app: str, *words: str) -> Iterator[PtyConsole]:
    """A worker of this application, and the console over the slow link."""
    worker = subprocess.Popen(
        [HORSIES, "worker", f"{app}:app", "--processes", "1", "--loglevel", "WARNING"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        cwd=APPS,
        stdout=subprocess.DEVNULL,
    )
    try:
        with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, *words, rate=LINK) as console:
            yield console
    finally:
        worker.kill()
        worker.wait()


async def send(connection: asyncpg.Connection, task_name: str, args: str = "[]") -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha)"
        f" VALUES ('{TASK}', $1, 'default', $2, 'b')",
        task_name,
        args,
    )


def close(console: PtyConsole, word: str) -> float:
    """Seconds from `esc` until the sheet with this word is gone, of which the terminal's driver takes 0.1."""
    pressed = time.perf_counter() - console.started
    console.type("\x1b")
    return console.until_gone(word) - pressed


async def test_100_000_lines_a_second_are_watched_over_a_link_of_30_kb_a_second(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    await send(connection, "write_for_ever", "[100000]")
    with watching(database, environ, "hang_app", "task", TASK[:8]) as console:
        console.until("RUNNING")
        console.type("O")
        console.until("2000 lines; following")
        bytes_per_s = console.pass_time(10) / 10
        closed_s = close(console, "; following")
        then = console.pass_time(3)
    print(f"\n100,000 lines/s over {LINK} B/s: {bytes_per_s:,.0f} B/s; closed after {closed_s:.2f} s, then {then} B")
    assert bytes_per_s < 0.2 * LINK, "keys have room"
    assert closed_s < 0.8
    assert then < LINK / 4, "nothing goes on being sent"


@pytest.mark.parametrize(("task_name", "args"), [("call_back_and_forth", "[0]"), ("sleep_long", "[]")])
async def test_a_stack_is_watched_over_a_link_of_30_kb_a_second(
    database: str, connection: asyncpg.Connection, environ: dict[str, str], task_name: str, args: str
) -> None:
    await send(connection, task_name, args)
    with watching(database, environ, "hang_app", "task", TASK[:8]) as console:
        console.until("RUNNING")
        console.type("S")
        console.until(f"{task_name} runs for")
        console.pass_time(1)
        bytes_per_s = console.pass_time(10) / 10
        closed_s = close(console, f"{task_name} runs for")
    print(f"\nthe stack of {task_name} over {LINK} B/s: {bytes_per_s:,.0f} B/s; closed after {closed_s:.2f} s")
    assert bytes_per_s < 0.05 * LINK
    assert closed_s < 0.8


@pytest.mark.parametrize("words", [(), ("task", TASK[:8])], ids=["list", "task"])
async def test_a_progress_bar_is_watched_over_a_link_of_30_kb_a_second(
    database: str, connection: asyncpg.Connection, environ: dict[str, str], words: tuple[str, ...]
) -> None:
    await send(connection, "hurry", "[3600]")
    with watching(database, environ, "progress_app", *words) as console:
        console.until("rows" if words else " left", within=60)
        console.pass_time(2)
        bytes_per_s = console.pass_time(10) / 10
    print(f"\na progress bar in {words or 'the list'} over {LINK} B/s: {bytes_per_s:,.0f} B/s")
    assert bytes_per_s < 0.05 * LINK
