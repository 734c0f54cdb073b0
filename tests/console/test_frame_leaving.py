"""The real command in a real terminal that is closed or killed: it never hangs and prints no traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forked_commands import Command, take_terminal

from horsies_tui.shell.leaving import Leaving

LIMIT_S = 15.0
ALTERNATE_SCREEN = b"\x1b[?1049h"
MAIN_SCREEN = b"\x1b[?1049l"
CURSOR = b"\x1b[?25h"
BREAK = """
import sys
sys.argv = ["horsies", "tui", "--database-url", sys.argv[1]]
from horsies.cli.main import main
from horsies_tui.overview.view import OverviewView
def compose(self):
    raise LookupError("nothing at postgresql://ops:hunter2@db01/app")
OverviewView.compose = compose
main()
"""


class Terminal:
    """A pseudo-terminal with the console in it: the command, or what this code makes of it.

    A session whose controlling terminal it is gets a signal when it is closed.
    """

    def __init__(self, database: str, home: Path, code: str = "", *, controlling: bool = True) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.read = b""
        cache = {name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ}
        options: dict[str, Any] = {
            "stdin": self.theirs,
            "stdout": self.theirs,
            "stderr": self.theirs,
            "env": {"PATH": "/usr/bin:/bin", "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", **cache},
            "start_new_session": True,
            "preexec_fn": take_terminal if controlling else None,
        }
        self.process: subprocess.Popen[bytes] = (
            subprocess.Popen([sys.executable, "-c", code, database], **options)
            if code
            else Command(["tui", "--database-url", database], **options)
        )

    def until(self, *words: bytes) -> bytes:
        """Read until all of these words arrived, and return everything since the last call."""
        end = time.monotonic() + LIMIT_S
        while not all(word in self.read for word in words):
            assert select.select([self.ours], [], [], max(end - time.monotonic(), 0))[0], (words, self.read[-2000:])
            self.read += os.read(self.ours, 65_536)
        told, self.read = self.read, b""
        return told

    def rest(self) -> bytes:
        """The output until the process ends."""
        end = time.monotonic() + LIMIT_S
        while self.process.poll() is None or select.select([self.ours], [], [], 0)[0]:
            assert time.monotonic() < end, self.read[-2000:]
            if select.select([self.ours], [], [], 0.05)[0]:
                self.read += os.read(self.ours, 65_536)
        return self.read

    def ended(self) -> int:
        return self.process.wait(LIMIT_S)

    @property
    def as_before(self) -> bool:
        return termios.tcgetattr(self.theirs) == self.before


@pytest.fixture
def open_terminal(database: str, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Opens a terminal; nothing is left of it after the test."""
    opened: list[Terminal] = []

    def opens(*code: str, **options: bool) -> Terminal:
        opened.append(Terminal(database, tmp_path, *code, **options))
        return opened[-1]

    yield opens
    for one in opened:
        one.process.kill()
        one.process.wait()
        for end in (one.ours, one.theirs):
            with suppress(OSError):  # the test closed it
                os.close(end)


@pytest.fixture
def terminal(open_terminal: Callable[..., Terminal]) -> Terminal:
    return open_terminal()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.until(ALTERNATE_SCREEN, b"LIVE")
    assert not terminal.as_before
    terminal.process.send_signal(number)
    said = terminal.rest()
    assert terminal.ended() == 128 + number
    assert terminal.as_before
    assert said.rindex(MAIN_SCREEN) < said.rindex(f"was ended by {number.name}".encode())
    assert CURSOR in said
    assert b"Traceback" not in said


def test_ctrl_c_ends_it_quietly(terminal: Terminal) -> None:
    terminal.until(b"LIVE")
    os.write(terminal.ours, b"\x03")
    said = terminal.rest()
    assert (terminal.ended(), terminal.as_before) == (0, True)
    assert b"Traceback" not in said


def test_a_closed_terminal_ends_it(terminal: Terminal) -> None:
    terminal.until(b"LIVE")
    os.close(terminal.theirs)
    os.close(terminal.ours)
    assert terminal.ended() == 128 + signal.SIGHUP


def test_a_closed_terminal_ends_it_even_where_no_signal_tells(open_terminal: Callable[..., Terminal]) -> None:
    """As under a shell that is not the session's leader: only writing fails."""
    terminal = open_terminal(controlling=False)
    terminal.until(b"LIVE")
    os.close(terminal.theirs)
    os.close(terminal.ours)
    assert terminal.ended() == 128 + signal.SIGHUP


def test_a_second_signal_does_not_wait(terminal: Terminal) -> None:
    terminal.until(b"LIVE")
    for _ in range(2):
        terminal.process.send_signal(signal.SIGTERM)
    terminal.rest()
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.as_before


def test_a_terminal_that_takes_nothing_more_does_not_keep_it(terminal: Terminal) -> None:
    """A dead link: the writer waits for the terminal, and the exit waits for the writer."""
    terminal.until(b"LIVE")
    termios.tcflow(terminal.theirs, termios.TCOOFF)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.as_before


def test_the_signal_is_the_reason_though_writing_fails_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`at_once` makes the terminal non-blocking, so a write that waited for it may fail in Textual's thread."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(Leaving, "_restore", lambda *_: None)
    leaving = Leaving()
    leaving.signal = signal.SIGTERM
    leaving._thread_ended(threading.ExceptHookArgs((BlockingIOError, BlockingIOError(), None, None)))
    assert codes == [128 + signal.SIGTERM]


def test_a_screen_that_cannot_be_made_is_one_sentence_and_a_report_without_secrets(
    open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    terminal = open_terminal(BREAK)
    said = terminal.rest().rpartition(MAIN_SCREEN)[2]
    report = tmp_path / ".local/state/horsies/tui-crash.txt"
    assert (terminal.ended(), terminal.as_before) == (1, True)
    assert b"horsies tui stopped: LookupError: nothing at postgresql://ops:***@db01/app" in said
    assert str(report).encode() in said.replace(b"\r\n", b"")
    assert b"Traceback" not in said
    assert "in compose" in report.read_text()
    assert "hunter2" not in report.read_text()
    assert report.stat().st_mode & 0o077 == 0
