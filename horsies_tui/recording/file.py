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
"""Maximum size of a frame, deflated or not; a longer one is damage, or an attempt to exhaust the memory."""
_MOST_HEAD: Final = 4_000_000
"""Maximum size of a head. The heads of all frames are read at the start."""
_MOST_MEMORY: Final = 256_000_000
"""Maximum memory for the values of a segment: a crafted file of 22 MB took 3.6 GB."""
_VALUE_BYTES: Final = 64
"""Memory that Python needs for each value of a JSON text, besides its characters."""
LARGE_SEGMENT: Final = 16_000_000
"""Size in characters at which a recorder begins another segment, far below the limit of the reader."""


class RecordingError(HorsiesError):
    """Raised when a recording cannot be written or read."""


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """One frame. `begins` is true if it begins a segment, `at_ms` is the database's time of writing, `body` is deflated
    in the file.
    """

    begins: bool
    at_ms: int
    head: bytes
    body: bytes


class RecordingWriter:
    """Appends frames. A new file is readable by its owner only; an existing file is not overwritten."""

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
        """Append a frame. If that raises RecordingError, the frames before it stay readable."""
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


class RecordingReader:
    """Reads the frames of a file, which may still be growing; frames appended later are not seen."""

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
                f"{path} is not a recording of horsies tui",
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
        """Offset of the first damaged byte; None if the file is intact except for an unfinished last frame."""

    def frames(self, begin: int | None = None) -> Iterator[tuple[int, RecordedFrame]]:
        """Yield the intact frames with their offsets and deflated bodies. Raise ValueError for a head that is too
        large.
        """
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
        """Return the inflated frames from the K at this offset to the next one. Raise ValueError if they cannot be
        inflated.
        """
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
