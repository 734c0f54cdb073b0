"""stdout and stderr of a child: Python's streams mark which job printed; C code and subprocesses write unmarked.

A print of a job is sent as MARK key END text MARK END, through the same pipe as all other output, so that the order of
lines is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

MARK: Final = b"\x1ehorsies:"
END: Final = b"\x1f"
_C_STREAMS: Final = ("stdout", "__stdoutp")  # glibc and musl, macOS
_IOLBF: Final = 1  # setvbuf: by line


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
    """Without this, C code's printf into a pipe is buffered up to 4 kB, and lost when the process is killed."""
    library = ctypes.CDLL(None)
    for name in _C_STREAMS:
        with contextlib.suppress(ValueError):
            library.setvbuf(ctypes.c_void_p.in_dll(library, name), None, _IOLBF, 0)
            return
