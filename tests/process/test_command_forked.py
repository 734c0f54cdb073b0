"""A command that tests fork is the command that users start: same streams, exit code, directory and environment."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from forked_commands import HORSIES, Command, run_command
from test_worker import Worker, is_guard, is_nursery

JOBS = """
import os, sys
from horsies import AppConfig, Horsies, PostgresConfig
app = Horsies(AppConfig(broker=PostgresConfig(database_url=os.environ["TEST_URL"])))
print("from jobs", os.getcwd(), sys.argv[1:], sys.stdout.encoding, sys.stdout.line_buffering, os.isatty(0), flush=True)
print("and an error", sys.stderr.encoding, sys.stderr.errors, file=sys.stderr)
"""


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """What both are started with."""
    (tmp_path / "jobs.py").write_text(JOBS)
    environ = {**os.environ, "TEST_URL": "postgresql://u@localhost:1/d", "HOME": str(tmp_path)}
    return {"cwd": tmp_path, "env": environ, "text": True}


@pytest.mark.parametrize("words", [["check", "jobs:app"], ["db", "status"], ["check", "--nothing"]])
def test_it_says_and_returns_the_same(given: dict[str, Any], words: list[str]) -> None:
    given["env"]["HORSIES_DATABASE_URL"] = "postgresql://u@127.0.0.1:1/d"
    forked = run_command(words, **given)
    started = subprocess.run([HORSIES, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, **given)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_signals_reach_it_and_none_is_left(given: dict[str, Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    (tmp_path / "jobs.py").write_text("open('go').read()")
    command: Command[str] = Command(["check", "jobs:app"], start_new_session=True, **given)
    with (tmp_path / "go").open("w"):  # now it reads
        assert (command.poll(), os.getsid(command.pid)) == (None, command.pid)
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(0.01)
        command.kill()
        assert command.wait(60) == command.poll() == -signal.SIGKILL
    assert not psutil.pid_exists(command.pid)


def test_guard_and_children_of_a_forked_worker_are_its_own_and_end_with_it(database: str) -> None:
    worker = Worker("--processes", "2", HORSIES_DATABASE_URL=database)
    try:
        worker.wait_for("ready")
        below = psutil.Process(worker.process.pid).children(recursive=True)
        assert {each.ppid() for each in below} == {worker.process.pid}
        assert [is_guard(each) for each in below].count(True) == [is_nursery(each) for each in below].count(True) == 1
        assert len(worker.children()) == 2
        assert max(sum(each.cpu_times()[:2]) for each in below) < 0.1, "they have imported nothing"
    finally:
        worker.kill()
    assert psutil.wait_procs(below, 5)[1] == []
