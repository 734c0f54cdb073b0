"""Signals to the whole process group, and the loss of the parent, while a child runs or starts."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from forked_commands import Program

HERE = Path(__file__).parent
RUN = """
import asyncio, sys
from child_parent import main
sys.stdout.reconfigure(line_buffering=True)
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Opening it waits for the other side."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


class Parent:
    """child_parent.py in its own process group."""

    def __init__(self, locator: str, task_name: str, *args: Any) -> None:
        given = (locator, task_name, json.dumps(args))
        self.process: Program[str] = Program(
            RUN, *given, cwd=HERE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.said: list[str] = []

    def hear(self, word: str) -> str:
        """The next line that begins with this word, without it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith(word):
                return line[len(word) :].strip()
        raise AssertionError(f"no {word!r} in {self.said}")

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


@contextmanager
def program(*arguments: Any) -> Iterator[Parent]:
    made = Parent(*arguments)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize(
    "task_name",
    [*(pytest.param(name, marks=pytest.mark.chaos) for name in ("spin", "sleep")), "hold_the_gil", "block_the_loop"],
)
def test_a_child_dies_with_its_parent_whatever_it_is_doing(task_name: str) -> None:
    with program("child_app:app", task_name) as parent:
        child = os.pidfd_open(int(parent.hear("child ")))
        parent.hear("output begun")
        parent.process.kill()
        assert select.select([child], [], [], 1.0)[0], "the child lives on without its parent"
        os.close(child)


def test_ctrl_c_in_a_terminal_disturbs_no_task(fifo: Path) -> None:
    with program("child_app:app", "read_file", str(fifo)) as parent:
        parent.hear("output begun")
        os.killpg(parent.process.pid, signal.SIGINT)
        parent.hear("interrupted")
        fifo.write_text("undisturbed")
        assert "undisturbed" in parent.hear("result ")
        assert "returncode=0" in parent.hear("exit ")


def test_ctrl_c_in_a_terminal_disturbs_no_child_that_is_starting(tmp_path: Path, fifo: Path) -> None:
    starting = tmp_path / "starting_app.py"
    starting.write_text(f"print('importing', flush=True)\nopen({str(fifo)!r}).read()\nfrom child_app import app\n")
    with program(f"{starting}:app", "add", 1, 1) as parent:
        parent.hear("output importing")
        os.killpg(parent.process.pid, signal.SIGINT)
        parent.hear("interrupted")
        fifo.write_text("go on")
        assert '"ok":2' in parent.hear("result ")
