"""The file of a recording: a first line, then frames that are only appended, each with its length and checksum.

    HORSIES RECORDING 1\\n
    length (4 bytes) | CRC-32 of what follows (4) | kind (1: K or D) | time in ms since 1970 (8)
        | length of the head (4) | head: which parts it has, JSON | their values: JSON, deflated

A frame K begins a segment: it has all that is shown at its moment, and needs no frame before it. The frames D after it
continue its deflate stream. So a console that is killed leaves all but its last frame, a reader may begin at any K, and
the index of a day is made of the heads in a second.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode, HorsiesError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC: Final = b"HORSIES RECORDING "
VERSION: Final = 1
_HEAD: Final = struct.Struct(">II")
_TOLD: Final = struct.Struct(">cqI")
_MOST_FRAME: Final = 64_000_000
"""Deflated or not: a longer frame is damage, or an attempt to fill the memory."""
_MOST_HEAD: Final = 4_000_000
"""The heads of all frames are read at the start."""
_MOST_MEMORY: Final = 256_000_000
"""For the values of a segment: 22 MB of a file that was made for it became 3.6 GB."""
_VALUE_BYTES: Final = 64
"""What Python takes for each value of a JSON text, besides its characters."""
LARGE_SEGMENT: Final = 16_000_000
"""Characters of values after which a recorder begins another segment, far below what a reader takes."""


class RecordingError(HorsiesError):
    """A recording that cannot be written or read."""


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """`begins` a segment. `at_ms` is the database's time when it was written. `body` is deflated in the file."""

    begins: bool
    at_ms: int
    head: bytes
    body: bytes


class Writer:
    """Appends frames. A new file belongs to its owner alone; an existing one is not overwritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except FileExistsError as error:
            raise RecordingError(
                f"{path} exists already", code=ErrorCode.CLI_INVALID_ARGS, help_text="--record writes a new file"
            ) from error
        except OSError as error:
            raise _cannot("write", path, error) from error
        self.size = 0
        self._append(MAGIC + b"%d\n" % VERSION)
        self._deflater = zlib.compressobj()

    def write(self, frame: RecordedFrame) -> None:
        """RecordingError if it cannot be written; what was written before stays readable."""
        if frame.begins:
            self._deflater = zlib.compressobj()
        told = _TOLD.pack(b"K" if frame.begins else b"D", frame.at_ms, len(frame.head)) + frame.head
        told += self._deflater.compress(frame.body) + self._deflater.flush(zlib.Z_SYNC_FLUSH)
        self._append(_HEAD.pack(len(told), zlib.crc32(told)) + told)

    def close(self) -> None:
        os.close(self._file)

    def _append(self, data: bytes) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            raise _cannot("write", self.path, error) from error
        self.size += len(data)


class Reader:
    """Reads the frames of a file. It may still be written to: what comes later is not seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                # Mapped, because a recording of days need not be in memory. An empty file cannot be mapped.
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        except OSError as error:
            raise _cannot("read", path, error) from error
        first, _, _ = self._data[:64].partition(b"\n")
        if not first.startswith(MAGIC):
            raise RecordingError(
                f"{path} is no recording of horsies tui",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text="horsies tui --record FILE makes one",
            )
        version = first.removeprefix(MAGIC)
        if version != b"%d" % VERSION:
            raise RecordingError(
                f"{path} was recorded in format {version.decode('ascii', 'replace')}, and this release reads {VERSION}",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text="replay it with the release that recorded it",
            )
        self._begin = len(first) + 1
        self.damaged_at: int | None = None
        """The byte from which on the file is damaged; None: it is whole, but for an end that was not written."""

    def frames(self, begin: int | None = None) -> Iterator[tuple[int, RecordedFrame]]:
        """Each frame with its offset, its body still deflated, as far as they are whole. ValueError for a huge head."""
        data, offset = self._data, self._begin if begin is None else begin
        least = _TOLD.size
        while offset + _HEAD.size + least <= len(data):
            length, crc = _HEAD.unpack_from(data, offset)
            if length <= _MOST_FRAME and offset + _HEAD.size + length > len(data):
                return  # its end was not written
            told = data[offset + _HEAD.size : offset + _HEAD.size + length] if length <= _MOST_FRAME else b""
            if len(told) < least or zlib.crc32(told) != crc:
                self.damaged_at = offset
                return
            kind, at_ms, size = _TOLD.unpack_from(told)
            if size > _MOST_HEAD:
                raise ValueError(f"the head of a frame has more than {_MOST_HEAD // 1_000_000} MB")
            yield offset, RecordedFrame(kind == b"K", at_ms, told[least : least + size], told[least + size :])
            offset += _HEAD.size + length

    def segment(self, begin: int) -> Iterator[RecordedFrame]:
        """The frames from the K at this offset to the next one, inflated. ValueError if they cannot be."""
        inflater, memory = zlib.decompressobj(), 0
        for offset, frame in self.frames(begin):
            if frame.begins and offset != begin:
                return
            try:
                body = inflater.decompress(frame.body, _MOST_FRAME)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            if inflater.unconsumed_tail:
                raise ValueError(f"a frame inflates to more than {_MOST_FRAME // 1_000_000} MB")
            memory += len(body) + _VALUE_BYTES * (body.count(b",") + body.count(b"[") + body.count(b"{"))
            if memory > _MOST_MEMORY:
                raise ValueError(
                    f"the values of a segment would take more than {_MOST_MEMORY // 1_000_000} MB of memory"
                )
            yield replace(frame, body=body)


def _cannot(do: str, path: Path, error: OSError) -> RecordingError:
    why = os.strerror(error.errno) if error.errno else str(error)
    return RecordingError(f"cannot {do} the recording {path}: {why}", code=ErrorCode.CLI_INVALID_ARGS)
