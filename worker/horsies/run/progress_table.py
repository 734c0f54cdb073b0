"""The progress of the runs in one child, in memory that the child writes and its worker reads.

A report costs no message, C code that holds the GIL does not hide the one before it, and after a crash the last one is
still there.
"""

from __future__ import annotations

import mmap
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.progress_pace import reading_of

if TYPE_CHECKING:
    from horsies.domain.progress_pace import Reading
    from horsies.task.current import Report

_VALUES: Final = Struct("ddq")
_UNIT_BYTES: Final = 40
RECORD_BYTES: Final = _VALUES.size + _UNIT_BYTES


class ProgressTable:
    """A record for each slot of the lease table, and one in front that says whether there was any report.

    A record has what is done, the total (0: none), the number of the job and the unit.
    """

    def __init__(self, fd: int) -> None:
        """Map the memory; `fd` stays open and belongs to the caller."""
        self._memory = mmap.mmap(fd, 0)
        self._bytes = memoryview(self._memory)
        self._numbers: memoryview[int] = self._bytes.cast("q")

    @property
    def used(self) -> bool:
        return bool(self._numbers[0])

    def read(self, index: int, number: int) -> Reading | None:
        """Return the last report of this job; None if it has made none."""
        begin = (index + 1) * RECORD_BYTES
        done, total, whose = _VALUES.unpack_from(self._bytes, begin)
        if whose != number:
            return None
        return reading_of(done, total, bytes(self._bytes[begin + _VALUES.size : begin + RECORD_BYTES]).rstrip(b"\0"))

    def writer(self, index: int, number: int) -> Report:
        """Return the function that writes the reports of this job."""
        self._numbers[0] = 1
        return _writer(self._bytes, (index + 1) * RECORD_BYTES, number)

    def close(self) -> None:
        self._numbers.release()
        self._bytes.release()
        self._memory.close()


def _writer(memory: memoryview[int], begin: int, number: int) -> Report:
    """Return the function that writes: a closure, because looking up attributes would take half of a method's time."""
    known: object = memory  # not the unit of the first report: the memory has that of the job before
    pack = _VALUES.pack_into

    def write(done: Any, total: Any, unit: Any) -> None:
        """Write a report. Called in inner loops of user code: no lock, clock, system call or exception."""
        try:
            if unit != known:
                name(unit)
            pack(memory, begin, done, 0.0 if total is None else total, number)
        except Exception:  # noqa: BLE001 - values of user code: none of them may fail its task
            write_odd(done, total, unit)

    def write_odd(done: Any, total: Any, unit: Any) -> None:
        finished = _number(done)
        if finished is not None:
            write(finished, _number(total) or 0.0, unit if type(unit) is str else None)

    def name(unit: str | None) -> None:
        nonlocal known
        text = b"" if unit is None else unit[:_UNIT_BYTES].encode("utf-8", "replace")[:_UNIT_BYTES]
        memory[begin + _VALUES.size : begin + RECORD_BYTES] = text.ljust(_UNIT_BYTES, b"\0")
        known = unit

    return write


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, str | bytes | None) else float(value)
    except Exception:  # noqa: BLE001 - as above
        return None
