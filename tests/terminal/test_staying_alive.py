"""Faults of terminals, shells and databases under an open console: it goes on, or ends at once.

How it ends on a signal, on ctrl+c and with its terminal is in `tests/console/test_frame_leaving.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from forked_commands import HORSIES, run_command
from pty_console import PtyConsole

from horsies.store.embedded import EmbeddedServer


@pytest.fixture
def database(embedded_database: str) -> str:
    """One of these tests freezes the server."""
    return embedded_database


async def test_ctrl_z_and_fg(quiet: dict[str, str]) -> None:
    shell = {**quiet, "PS1": "here> ", "HISTFILE": ""}
    with PtyConsole(shell, command=("bash", "--norc", "--noprofile", "-i")) as console:
        await asyncio.to_thread(console.until, "here>")
        console.type(f"{HORSIES} tui --screen tasks\n")
        await asyncio.to_thread(console.until_ready)
        console.type("\x1a")
        await asyncio.to_thread(console.until, "Stopped")
        console.type("echo $((6 * 7))\n")
        await asyncio.to_thread(console.until, "42")
        console.type("fg\n")
        await asyncio.to_thread(console.until_ready)
        console.type("j")
        await asyncio.to_thread(console.until_so, lambda: console.cursor_line == 6, "the cursor a line lower")
        console.type("q")
        await asyncio.to_thread(console.until, "here>")


async def test_keys_that_come_all_at_once_mean_what_they_mean_one_by_one(quiet: dict[str, str]) -> None:
    """As over a link that stalls and then delivers all keys at once: no letter of a filter is a verb."""
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        console.type("/name:CRETy_*\r")
        await asyncio.to_thread(console.until, "/ name:CRETy_*", "No task matches")
        console.type("\x1b")
        await asyncio.to_thread(console.until, "shop.task_1 ")
        console.type("\x0771h ago")
        await asyncio.to_thread(console.until, "Go to a time", "71h ago")


async def test_a_storm_of_resizes_ends_in_the_right_size(quiet: dict[str, str]) -> None:
    chance = random.Random(5)
    with PtyConsole(quiet) as console:
        await asyncio.to_thread(console.until_ready)
        for _ in range(60):
            console.resize(chance.randint(1, 220), chance.randint(1, 70))
            await asyncio.to_thread(console.pass_time, chance.choice((0.0, 0.005, 0.03)))
        console.resize(100, 30)
        await asyncio.to_thread(console.until_so, lambda: "? help" in console.screen.display[29], "the footer")
        console.type("j")
        await asyncio.to_thread(console.until_so, lambda: console.cursor_line == 6, "the cursor a line lower")
        await asyncio.to_thread(console.until, "LIVE", "shop.task_1")  # a read that the storm held up was SLOW or OLD


@pytest.mark.parametrize("term", ["dumb", "", None])
async def test_a_dumb_terminal_is_refused_with_another_way(environ: dict[str, str], term: str | None) -> None:
    dumb = {name: value for name, value in environ.items() if name != "TERM"}
    with PtyConsole(dumb if term is None else {**dumb, "TERM": term}) as console:
        assert await asyncio.to_thread(console.end) == 1
        assert console.shows("TERM is dumb", "horsies tasks ls")


def test_no_terminal_is_refused_with_another_way(environ: dict[str, str]) -> None:
    ended = run_command(["tui"], env=environ, text=True, timeout=20)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "needs a terminal" in ended.stderr
    assert "horsies tasks ls" in ended.stderr


@contextmanager
def frozen(server: EmbeddedServer) -> Iterator[None]:
    """The server and all its processes are stopped."""
    postmaster = psutil.Process(int((server.place.data / "postmaster.pid").read_text().splitlines()[0]))
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            os.kill(process.pid, signal.SIGCONT)
