"""The index of a recording: when each part was on screen, and which frame has its values."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ErrorCode
from horsies_tui.recording.codec import Decoder
from horsies_tui.recording.file import RecordingError
from horsies_tui.recording.recorded_classes import NotAValue

if TYPE_CHECKING:
    from horsies_tui.recording.file import RecordingReader

Key = tuple[str, ...]

_NOT_OURS: Final = (ValueError, NotAValue, RecursionError, LookupError, TypeError, AttributeError)
"""Errors that a file raises if it was made by hand or by another release."""
_END_MS: Final = 221_845_392_000_000
"""Latest accepted time, in the year 9000. A replay adds to and subtracts from times, and the results must be valid."""
_MOST_KEPT: Final = 3
"""Maximum number of decoded segments in memory: the current one and its neighbours."""


@dataclass(slots=True)
class Track:
    """One part of one subject. `frames` contain its values; from `ends` on it was off screen, until the next value."""

    times: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def at(self, at_ms: int) -> tuple[int, int | None] | None:
        """Return the frame of the last values and the time when they left the screen; None before the first value."""
        place = bisect_right(self.times, at_ms) - 1
        if place < 0:
            return None
        end = bisect_right(self.ends, self.times[place] - 1)
        left = self.ends[end] if end < len(self.ends) and self.ends[end] <= at_ms else None
        return self.frames[place], left


class Tracks:
    """All parts of a file, and their values, which are decoded on demand."""

    def __init__(self, reader: RecordingReader) -> None:
        self._reader = reader
        self.tracks: dict[Key, Track] = {}
        self.times: list[int] = []
        """Time of each frame."""
        self._numbers: dict[Key, int] = {}
        self._begins: list[int] = []
        """Number of the first frame of each segment."""
        self._offsets: list[int] = []
        self._segments: dict[int, tuple[Decoder, list[Any]] | Exception] = {}
        """Decoded segments, or the reason why one cannot be decoded."""
        try:
            self._index()
        except _NOT_OURS as error:
            raise self._foreign(error) from error
        if not self.times:
            what = "is damaged at its beginning" if reader.damaged_at is not None else "is empty"
            raise RecordingError(f"the recording {reader.path} {what}", code=ErrorCode.CLI_INVALID_ARGS)

    def _foreign(self, error: BaseException) -> RecordingError:
        return RecordingError(
            f"{self._reader.path} is not what this release of horsies records: {error}",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text="replay it with the release that recorded it",
        )

    def _index(self) -> None:
        last, by_number = 0, list[Track]()
        for number, (offset, frame) in enumerate(self._reader.frames()):
            # The database's clock may have been set back: the order of the frames is the order of events.
            if not 0 <= frame.at_ms < _END_MS:
                raise NotAValue(f"the time of a frame, {frame.at_ms} ms, is not between the years 1970 and 9000")
            last = max(last, frame.at_ms)
            self.times.append(last)
            if frame.begins:
                self._begins.append(number)
                self._offsets.append(offset)
            head = json.loads(frame.head)
            for given, words in head["names"].items():
                key = tuple(map(str, words))
                if int(given) != len(by_number):
                    raise NotAValue("its parts are not in order")
                self._numbers[key] = len(by_number)
                by_number.append(self.tracks.setdefault(key, Track()))
            for part in head["on"]:
                by_number[part].times.append(last)
                by_number[part].frames.append(number)
            for part in head["off"]:
                by_number[part].ends.append(last)

    def values(self, key: Key, frame: int) -> tuple[Any, ...]:
        """Return the values of a frame. Raise RecordingError if this release cannot have recorded them."""
        place = bisect_right(self._begins, frame) - 1
        self._load(place)
        try:
            segment = self._segments[place]
            if isinstance(segment, Exception):
                raise segment
            decoder, told = segment
            values: tuple[Any, ...] = decoder.decode(told[frame - self._begins[place]][str(self._numbers[key])])
        except _NOT_OURS as error:
            raise self._foreign(error) from error
        return values

    def is_prepared(self, at_ms: int) -> bool:
        """Return whether the values of this moment are decoded; those of a segment take up to a second."""
        return self._place(at_ms) in self._segments

    def prepare(self, at_ms: int) -> None:
        """Decode the values of this moment; safe to call in a thread, one at a time."""
        self._load(self._place(at_ms))

    def _place(self, at_ms: int) -> int:
        frame = max(bisect_right(self.times, at_ms) - 1, 0)
        return bisect_right(self._begins, frame) - 1

    def _load(self, place: int) -> None:
        if place in self._segments:
            return
        found: tuple[Decoder, list[Any]] | Exception
        try:
            found = self._segment(place)
        except _NOT_OURS as error:
            found = error
        while len(self._segments) >= _MOST_KEPT:
            self._segments.pop(next(iter(self._segments)))
        self._segments[place] = found

    def _segment(self, place: int) -> tuple[Decoder, list[Any]]:
        decoder, found = Decoder(), []
        for frame in self._reader.segment(self._offsets[place]):
            told = json.loads(frame.body)
            decoder.learn(told["classes"], told["objects"])
            found.append(told["values"])
        return decoder, found
