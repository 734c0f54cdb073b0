"""The output of user code in a child: prints and log records. `Budget` limits its rate to what a log can take.

Python's streams mark which job printed; C code and subprocesses write unmarked. A print of a job is sent as MARK key
END text MARK END, through the same pipe as all other output, so that the order of lines is kept. Each record of
`logging` goes to the worker's log as one record, with its level and job.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import logging
import os
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from horsies.domain.codec import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer

    from horsies.run.contract import LogRecord


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


_LONGEST_TEXT: Final = 16_000
_LONGEST_TRACEBACK: Final = 32_000
_LONGEST_EXTRA: Final = 1_000
_MOST_EXTRAS: Final = 50
_OWN_NAMES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_formatter: Final = logging.Formatter()


class RecordSender(logging.Handler):
    """Sends records to the worker, at most as many as its log can take; beyond that they are counted.

    A process that user code has forked has no connection to the worker: there they are written to stderr.
    """

    def __init__(self, level: int, send: Callable[[LogRecord], None]) -> None:
        super().__init__(level)
        self._send = send
        self._budget, self._budget_of_errors = Budget(), Budget()  # a flood of others costs no error
        self._dropped = 0
        self._sent: WeakSet[logging.LogRecord] = WeakSet()
        """Sent by a handler of a logger below the root. A mark on the record would show in logs of the application."""
        self.used = False
        """Something was logged since the last `take`."""

    def install(self) -> None:
        """Called after the import of the application. Where that has configured logging, its configuration stays: what
        it would write to stdout or stderr is sent in the same words, but with its level, and not cut into lines."""
        for handler in _stream_handlers():
            self._adopt(handler)
        root = logging.getLogger()
        if root.handlers:
            return
        root.addHandler(self)
        if root.level == logging.WARNING:  # the level that it has unless it is set
            root.setLevel(self.level)
        if threading.excepthook is threading.__excepthook__:
            threading.excepthook = _log_thread_exception

    def emit(self, record: logging.LogRecord) -> None:
        if record in self._sent:
            return
        try:
            text = clean_text(record.getMessage(), _LONGEST_TEXT)
            self._pass_on(record, text, _traceback(record), dict(_extras(record)))
        except Exception:  # noqa: BLE001 - a format that does not fit its arguments
            self.handleError(record)

    def take(self) -> bool:
        """Report, at the end of a job, what was left out. Return True: there are records before its result."""
        if self._dropped:
            self._report_dropped()
        self.used = False
        return True

    def _report_dropped(self) -> None:
        count, self._dropped = self._dropped, 0
        what = "record" if count == 1 else "records"
        text = f"{count:,} {what} left out: more than {LINES_PER_SECOND:,} a second"
        self._send((logging.WARNING, "horsies.log", text, None, {}, False))

    def _adopt(self, handler: logging.Handler) -> None:
        def emit(record: logging.LogRecord) -> None:
            try:
                text = clean_text(handler.format(record), _LONGEST_TEXT + _LONGEST_TRACEBACK)
                self._sent.add(record)
                if record.levelno >= self.level:
                    self._pass_on(record, text, None, None)
            except Exception:  # noqa: BLE001 - as above
                handler.handleError(record)

        handler.emit = emit  # type: ignore[method-assign]  # its level, filters and formatter stay

    def _pass_on(
        self, record: logging.LogRecord, text: str, traceback: str | None, extra: dict[str, Any] | None
    ) -> None:
        self.used = True
        budget = self._budget_of_errors if record.levelno >= logging.ERROR else self._budget
        if not (budget.refill() and budget.take(len(text) + len(traceback or ""))):
            self._dropped += 1
            return
        try:
            if self._dropped:
                self._report_dropped()
            self._send((record.levelno, record.name, text, traceback, extra or {}, extra is None))
        except OSError:
            line = text if extra is None else f"{record.levelname} {record.name}: {text}"
            print(line if traceback is None else f"{line}\n{traceback}", file=sys.stderr)  # noqa: T201


def _stream_handlers() -> Iterator[logging.Handler]:
    """Yield the application's handlers that write to stdout or stderr, without subclasses, which do as they like."""
    known = list(logging.Logger.manager.loggerDict.values())
    for logger in (logging.getLogger(), *known):
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if type(handler) is logging.StreamHandler and handler.stream in (sys.stdout, sys.stderr):
                yield handler


def _traceback(record: logging.LogRecord) -> str | None:
    parts = [_formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    parts += [record.stack_info] if record.stack_info else []
    return clean_text("\n".join(parts), _LONGEST_TRACEBACK) if parts else None


def _extras(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the fields that the caller has added, as values that can be sent."""
    names = [name for name in vars(record) if name not in _OWN_NAMES]
    for name in names[:_MOST_EXTRAS]:
        value = vars(record)[name]
        if value is None or type(value) in (int, float, bool):
            yield name, value
        else:
            yield name, clean_text(value if type(value) is str else repr(value), _LONGEST_EXTRA)


def _log_thread_exception(end: threading.ExceptHookArgs) -> None:
    if end.exc_type is not SystemExit and end.exc_value is not None:
        name = end.thread.name if end.thread is not None else "unknown"
        logging.getLogger("horsies.thread").error("exception in thread %s", name, exc_info=end.exc_value)
