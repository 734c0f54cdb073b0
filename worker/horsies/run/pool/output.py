"""The output of children: line by line with the job that wrote it, at a rate that a log can take; each task's last."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from horsies.run.child.stdio import END, LINES_PER_SECOND, MARK, Budget

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from horsies.lifecycle.claim_token import Token


_CHUNK: Final = 65_536
_LONGEST_LINE: Final = 8_192
_LONGEST_MARK: Final = len(MARK) + 300
_MOST_LEFT: Final = 1 << 20  # the most that a pipe holds


class OutputReader:
    """One of a child's two pipes. `emit` gets (key or None, line); `key_now` returns the job for unmarked output."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        emit: Callable[[str | None, str], None],
        key_now: Callable[[], str | None],
    ) -> None:
        os.set_blocking(fd, False)
        loop.add_reader(fd, self.read)
        self._loop = loop
        self._fd = fd
        self._emit = emit
        self._key_now = key_now
        self._budget = Budget()
        self._marked: str | None = None  # the job whose marked text is being read
        self._cut_mark = b""  # a mark that the end of the last chunk has cut in two
        self._line = b""  # an incomplete line, and its job
        self._line_key: str | None = None
        self.dropped = 0

    def read(self) -> bool:
        """Read one chunk at most; False if there is nothing to read."""
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._feed(data)
        else:
            self._loop.remove_reader(self._fd)  # every writer has closed it
        return bool(data)

    def job_ended(self, key: str) -> None:
        """Pass on what this job has printed without an end of line, and report how many lines were dropped."""
        if self._line and self._line_key == key:
            line, self._line = self._line, b""
            self._pass_on(line, key)
        if self.dropped:
            self._report_dropped(key)

    def finish(self) -> None:
        """Read what is in the pipe now, not until its end: a process that the task has started may hold it open."""
        for _ in range(_MOST_LEFT // _CHUNK):
            if not self.read():
                break
        if self._line:
            self._pass_on(self._line, self._line_key)
        if self.dropped:
            self._report_dropped(self._line_key)
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _feed(self, data: bytes) -> None:
        data = self._without_cut_mark(self._cut_mark + data)
        if not self._budget.refill():
            self._drop(data)
            return
        if self.dropped:
            self._report_dropped(self._line_key)
        text, *marked = data.split(MARK)
        self._text(text)
        for piece in marked:
            key, _, text = piece.partition(END)
            self._marked = key.decode(errors="replace") or None
            self._text(text)

    def _without_cut_mark(self, data: bytes) -> bytes:
        """Return all but an incomplete mark at the end, which is kept for the next chunk."""
        begin = data.rfind(MARK[:1], -_LONGEST_MARK)
        if begin < 0 or END in data[begin:] or not MARK.startswith(data[begin : begin + len(MARK)]):
            self._cut_mark = b""
            return data
        self._cut_mark = data[begin:]
        return data[:begin]

    def _drop(self, data: bytes) -> None:
        self.dropped += data.count(b"\n")
        self._line = b""
        _, mark, last = data.rpartition(MARK)
        if mark:
            self._marked = last.partition(END)[0].decode(errors="replace") or None
        self._line_key = self._marked or self._key_now()

    def _text(self, text: bytes) -> None:
        if not text:
            return
        key = self._marked or self._key_now()
        if self._line and key == self._line_key:
            text = self._line + text
        elif self._line:
            self._pass_on(self._line, self._line_key)
        *lines, self._line = text.split(b"\n")
        self._line_key = key
        for line in lines:
            self._pass_on(line, key)
        if len(self._line) > _LONGEST_LINE:
            line, self._line = self._line, b""
            self._pass_on(line, key)

    def _pass_on(self, line: bytes, key: str | None) -> None:
        # A progress bar returns to the beginning of its line again and again: only the last state is kept.
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
        for begin in range(0, max(1, len(line)), _LONGEST_LINE):
            piece = line[begin : begin + _LONGEST_LINE]
            if self._budget.take(len(piece)):
                self._emit(key, piece.decode(errors="replace"))
            else:
                self.dropped += 1

    def _report_dropped(self, key: str | None) -> None:
        lines, self.dropped = self.dropped, 0
        what = "line" if lines == 1 else "lines"
        self._emit(key, f"… {lines:,} {what} left out: more than {LINES_PER_SECOND:,} a second")


RING_BYTES: Final = 65_536
_LINE_BYTES: Final = 100
"""Memory of a line beside its text."""
_ENDED: Final = 16
"""So many tasks that have ended keep their output: a follower must see the last lines."""


class OutputRing:
    """The last lines of one task, numbered from 1 on. `left_out` lines have no room any more."""

    __slots__ = ("_bytes", "_last", "_lines")

    def __init__(self) -> None:
        self._lines: deque[tuple[int, float, str, str]] = deque()
        self._bytes = 0
        self._last = 0

    def add(self, stream: str, line: str) -> None:
        self._last += 1
        self._lines.append((self._last, time.time(), stream, line))
        self._bytes += len(line) + _LINE_BYTES
        while self._bytes > RING_BYTES:
            self._bytes -= len(self._lines.popleft()[-1]) + _LINE_BYTES

    def since(self, after: int, most: int) -> dict[str, Any]:
        """Return the lines after that number, the last ones of them up to about `most` bytes."""
        found: deque[tuple[int, float, str, str]] = deque()
        size = 0
        for line in reversed(self._lines):
            size += len(line[-1]) + _LINE_BYTES
            if line[0] <= after or size > most:
                break
            found.appendleft(line)
        first = found[0][0] if found else self._last + 1
        return {"lines": list(found), "last": self._last, "left_out": first - after - 1}

    def tail(self, most: int) -> str:
        """Return the last lines, up to that many characters."""
        lines: deque[str] = deque()
        for *_, line in reversed(self._lines):
            most -= len(line) + 1
            if most < 0:
                break
            lines.appendleft(line)
        return "\n".join(lines)


class OutputRings:
    """The rings by claim. A task that writes nothing has none and costs nothing."""

    def __init__(self) -> None:
        self._running: dict[Token, OutputRing] = {}
        self._ended: dict[Token, OutputRing] = {}

    def add(self, token: Token, stream: str, line: str) -> None:
        ring = self._running.get(token)
        if ring is None:
            ring = self._running[token] = OutputRing()
        ring.add(stream, line)

    def ended(self, token: Token) -> None:
        ring = self._running.pop(token, None)
        if ring is not None:
            self._ended[token] = ring
            if len(self._ended) > _ENDED:
                del self._ended[next(iter(self._ended))]

    def of(self, token: Token) -> OutputRing | None:
        return self._running.get(token) or self._ended.get(token)
