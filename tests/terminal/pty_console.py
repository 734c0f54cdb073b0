"""The real `horsies tui` in a pseudo-terminal: its output with arrival times, over a link of any speed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pyte
from forked_commands import HORSIES, Command, take_terminal

CURSOR = "▌"
PATIENCE_S = 20.0
_MOST_AT_ONCE = 65_536
_SLICE_S = 0.005


class _Screen(pyte.Screen):
    """Its text is made anew only in the lines that have changed: 10 ms for 60 lines, at each of 200 parts a second."""

    _text: tuple[str, ...] = ()

    @property
    def display(self) -> list[str]:
        if len(self._text) != self.lines:
            self.dirty.update(range(self.lines))
        if self.dirty:
            old = {y: line for y, line in enumerate(self._text) if y not in self.dirty}
            self._text = tuple(old[y] if y in old else self._line(y) for y in range(self.lines))
            self.dirty.clear()
        return list(self._text)

    def _line(self, y: int) -> str:
        """Behind a wide character is an empty one."""
        line = self.buffer[y]
        return "".join([line[x].data for x in range(self.columns)])


class PtyConsole:
    """Starts the command at once; used with `with`, so that no process is left.

    `rate`: the link's bytes per second. `installed`: the script that users start, not a fork of what has imported it.
    """

    def __init__(
        self,
        environ: dict[str, str],
        *words: str,
        command: Iterable[str | Path] | None = None,
        columns: int = 120,
        rows: int = 40,
        rate: int | None = None,
        screen: str = "tasks",
        installed: bool = False,
    ) -> None:
        self.screen = _Screen(columns, rows)
        self.written = b""
        self.received = 0
        self._stream = pyte.ByteStream(self.screen)
        self._rate = rate
        self._changed = threading.Condition()
        self._conditions: list[tuple[Callable[[], bool], list[float]]] = []
        self._master, slave = pty.openpty()
        self._set_size(columns, rows)
        self.settings = termios.tcgetattr(slave)
        self._slave = slave
        self.started = time.perf_counter()
        started: dict[str, Any] = {
            "env": environ,
            "stdin": slave,
            "stdout": slave,
            "stderr": slave,
            "start_new_session": True,
            "preexec_fn": take_terminal,
        }
        tui = ["tui", "--screen", screen]
        self.process: subprocess.Popen[bytes] = (
            subprocess.Popen([*(command or (HORSIES, *tui)), *words], **started)
            if command or installed
            else Command([*tui, *words], **started)
        )
        self.usage = psutil.Process(self.process.pid)
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> PtyConsole:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.usage.children(recursive=True) if self.process.poll() is None else ():
            child.kill()
        self.process.kill()
        self.process.wait()
        self.hang_up()

    # The screen.

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self.screen.display)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def shows(self, *words: str) -> bool:
        return all(word in self.text for word in words)

    def until(self, *words: str, within: float = PATIENCE_S) -> float:
        """Wait until all of these words are on the screen; returns the seconds since the start."""
        return self.until_so(lambda: all(word in "\n".join(self.screen.display) for word in words), repr(words), within)

    def until_gone(self, word: str, within: float = PATIENCE_S) -> float:
        return self.until_so(lambda: word not in "\n".join(self.screen.display), f"the end of {word!r}", within)

    def until_so(self, condition: Callable[[], bool], what: str, within: float = PATIENCE_S) -> float:
        """Wait until the condition holds; returns when the bytes arrived that made it true."""
        with self._changed:
            if condition():
                return time.perf_counter() - self.started
            made: list[float] = []
            entry = (condition, made)
            self._conditions.append(entry)
            self._changed.wait_for(lambda: bool(made) or self._ended.is_set(), within)
            self._conditions.remove(entry)
            shown = "\n".join(self.screen.display)
            assert made, f"{what} did not come within {within} s (exit code {self.process.poll()}):\n{shown}"
            return made[0] - self.started

    def until_ready(self) -> None:
        """Wait until it is connected, shows rows, and follows."""
        self.until("LIVE", "shop.", "FOLLOW")

    @property
    def cursor_line(self) -> int | None:
        return next((y for y in range(self.screen.lines) if self.screen.buffer[y][0].data == CURSOR), None)

    # Input and events.

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def key_to_paint(self, key: str, step: int) -> float:
        """Seconds from a key to the arrival of the bytes that show the cursor `step` lines lower."""
        before = self.cursor_line
        assert before is not None, self.text
        pressed = time.perf_counter()
        self.type(key)
        return self.until_so(lambda: self.cursor_line == before + step, f"the cursor on {before + step}") - (
            pressed - self.started
        )

    def resize(self, columns: int, rows: int) -> None:
        with self._changed:
            self.screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def hang_up(self) -> None:
        """Close the terminal."""
        self._ended.set()
        self._reader.join()
        for end in (self._master, self._slave):
            if end >= 0:
                os.close(end)
        self._master = self._slave = -1

    def end(self, within: float = PATIENCE_S) -> int:
        """The exit code, after the rest of the output."""
        code = self.process.wait(within)
        self.pass_time(0.1)
        return code

    def pass_time(self, seconds: float) -> int:
        """The number of bytes that arrive in that time."""
        before = self.received
        self._ended.wait(seconds)
        return self.received - before

    @property
    def cpu_s(self) -> float:
        times = self.usage.cpu_times()
        return times.user + times.system

    @property
    def memory_mb(self) -> float:
        return self.usage.memory_info().rss / 1e6

    @property
    def is_as_found(self) -> bool:
        """Whether the terminal's settings are restored, with the main screen and the cursor."""
        tail = self.written[-4_000:]
        back = tail.rfind(b"\x1b[?1049l") > tail.rfind(b"\x1b[?1049h") and b"\x1b[?25h" in tail
        return termios.tcgetattr(self._slave) == self.settings and back

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        share = _MOST_AT_ONCE if self._rate is None else max(int(self._rate * _SLICE_S), 1)
        due = time.perf_counter()
        while not self._ended.is_set():
            ready, _, _ = select.select([self._master], [], [], 0.05)
            if not ready:
                due = time.perf_counter()
                continue
            if self._rate is not None:
                time.sleep(max(due - time.perf_counter(), 0))
            try:
                part = os.read(self._master, share)
            except OSError:
                return
            at = time.perf_counter()
            if self._rate is not None:
                due = max(due, at - _SLICE_S) + len(part) / self._rate
            self._take(part, at)

    def _take(self, part: bytes, at: float) -> None:
        with self._changed:
            self.received += len(part)
            self.written = (self.written + part)[-65_536:]
            self._stream.feed(part)
            for condition, made in self._conditions:
                if not made and condition():
                    made.append(at)
                    self._changed.notify_all()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
