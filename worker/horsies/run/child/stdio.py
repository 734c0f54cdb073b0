"""stdout and stderr of a child: Python's streams mark which job printed; C code and subprocesses write unmarked.

A print of a job is sent as MARK key END text MARK END, through the same pipe as all other output, so that the order of
lines is kept. `Budget` is the rate of lines and records that the log of a worker can take.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

MARK: Final = b"\x1ehorsies:"
END: Final = b"\x1f"
_C_STREAMS: Final = ("stdout", "__stdoutp")  # glibc and musl, macOS
_IOLBF: Final = 1  # setvbuf: by line

# Each line costs the parent's event loop about 10 µs in its log. A child that prints without end may take 1 % of it.
LINES_PER_SECOND: Final = 1_000
BURST_LINES: Final = 5_000
_LINE_UNIT: Final = 200  # bytes; a line of 8 kB counts as 40 short ones


class Budget:
    """The number of lines that may still pass; once exhausted, none passes until half a second's worth is back."""

    def __init__(self) -> None:
        self._left = float(BURST_LINES)
        self._at = monotonic()
        self._open = True

    def refill(self) -> bool:
        """Return whether lines may pass now."""
        now = monotonic()
        self._left = min(float(BURST_LINES), self._left + (now - self._at) * LINES_PER_SECOND)
        self._at = now
        self._open = self._open or self._left >= LINES_PER_SECOND / 2
        return self._open

    def take(self, length: int) -> bool:
        if self._open:
            self._left -= 1 + length // _LINE_UNIT
            self._open = self._left > 0
            return True
        return False


class MarkedStream(io.RawIOBase):
    """Writes unbuffered to a file descriptor and marks the text with the job that runs here."""

    def __init__(self, fd: int, key_of_job: Callable[[], str | None]) -> None:
        super().__init__()
        self._fd = fd
        self._key_of_job = key_of_job

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: ReadableBuffer, /) -> int:
        text = bytes(data)
        key = self._key_of_job()
        rest = text if key is None else b"".join((MARK, key.encode(), END, text, MARK, END))
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        return len(text)


def mark_prints(key_of_job: Callable[[], str | None]) -> Callable[[], None]:
    """Replace sys.stdout and sys.stderr by marked streams; the returned function flushes them."""
    faulthandler.enable(2)
    _flush_c_stdout_by_line()
    streams = [_text_stream(fd, key_of_job) for fd in (1, 2)]
    sys.stdout, sys.stderr = streams

    def flush() -> None:
        for stream in streams:
            # User code may have closed its stdout, or the pipe's other end may be closed.
            try:  # noqa: SIM105 - suppress() takes 0.2 µs more, for each stream of each task
                stream.flush()
            except (ValueError, OSError):
                pass

    return flush


def _text_stream(fd: int, key_of_job: Callable[[], str | None]) -> io.TextIOWrapper:
    raw = MarkedStream(fd, key_of_job)
    return io.TextIOWrapper(raw, "utf-8", errors="backslashreplace", newline="\n", line_buffering=True)  # type: ignore[arg-type]  # a raw stream, as `python -u` has it


def _flush_c_stdout_by_line() -> None:
    """Flush by line: C code's printf into a pipe is else buffered up to 4 kB, and lost when the process is killed."""
    library = ctypes.CDLL(None)
    for name in _C_STREAMS:
        with contextlib.suppress(ValueError):
            library.setvbuf(ctypes.c_void_p.in_dll(library, name), None, _IOLBF, 0)
            return
