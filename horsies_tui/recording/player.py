"""Plays a recording: its current moment, its speed, and what was on screen then."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode
from horsies_tui.feed.recorded import Seen, SnapshotPart
from horsies_tui.feed.status import LinkStatus
from horsies_tui.recording.file import RecordingError
from horsies_tui.recording.recorder import BEAT_S
from horsies_tui.recording.tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies_tui.recording.file import RecordingReader

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_TICK_S: Final = 0.25
_GAP_MS: Final = 3 * BEAT_S * 1000
"""Maximum time between two frames, which are written every ten seconds. A longer one means that the console slept or
was killed.
"""
_STATUS: Final = SnapshotPart("status", ("status",), what="the state of the connection")


class Player:
    """The clock of a replay, and the playback for its feeds. `now` stops at the last frame."""

    def __init__(self, reader: RecordingReader, speed: float = 1.0) -> None:
        self._tracks = Tracks(reader)
        times = self._tracks.times
        self.begins, self.ends = _moment(times[0]), _moment(times[-1])
        damage = reader.damaged_at
        self.damage = "" if damage is None else f"the file is damaged from byte {damage:,} on, and ends there"
        self.paused = False
        self.speed = speed
        self._at, self._since = self.begins, time.monotonic()
        self._callbacks: list[Callable[[], object]] = []
        self._hurry = asyncio.Event()
        first = self.look("link", _STATUS)
        if not first.values or not isinstance(first.values[0], LinkStatus):  # refused at once, and not screen by screen
            raise RecordingError(f"{reader.path} cannot be replayed: {first.note}", code=ErrorCode.CLI_INVALID_ARGS)
        self._status = first.values[0]

    # The clock, see feed/clock.py.

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        if self.paused:
            return self._at
        passed = timedelta(seconds=(time.monotonic() - self._since) * self.speed)
        return min(self._at + passed, self.ends)

    @property
    def offset_s(self) -> float:
        return 0.0

    def learn(self, told: datetime, asked: float, answered: float) -> None:
        """Do nothing: the recording has the times."""

    # The playback.

    @property
    def at_end(self) -> bool:
        return self.now() >= self.ends

    def pause(self, on: bool) -> None:
        """Pause or continue; at the end, continuing starts at the beginning."""
        self._stand_at(self.begins if self.at_end and not on else self.now())
        self.paused = on
        self._hurry.set()

    def faster(self, steps: int) -> None:
        self._stand_at(self.now())
        at = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - self.speed))
        self.speed = SPEEDS[min(max(at + steps, 0), len(SPEEDS) - 1)]
        self._hurry.set()

    def seek(self, seconds: float) -> None:
        self._stand_at(self.now() + timedelta(seconds=seconds))
        self._hurry.set()

    def _stand_at(self, moment: datetime) -> None:
        self._at, self._since = min(max(moment, self.begins), self.ends), time.monotonic()

    async def run(self) -> None:
        """Notify the feeds of each new moment once its values are decoded in a thread, which takes up to a second."""
        told = None
        while True:
            if self.now() != told or self._hurry.is_set():
                self._hurry.clear()
                told = self.now()
                for moment in (told, told + timedelta(seconds=self.speed)):
                    if not self._tracks.is_prepared(_ms(moment)):
                        await asyncio.to_thread(self._tracks.prepare, _ms(moment))
                self._moved()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._hurry.wait()

    def on_moved(self, callback: Callable[[], object]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def _moved(self) -> None:
        for callback in tuple(self._callbacks):
            callback()

    def look(self, feed: str, part: SnapshotPart) -> Seen:
        key, at_ms = (feed, part.name, *part.subject), _ms(self.now())
        track = self._tracks.tracks.get(key)
        if track is None:
            return Seen(None, note=f"{part.what} was not on screen while this was recorded")
        found = track.at(at_ms)
        if found is None:
            later = _moment(track.times[0])
            return Seen(None, note=f"{part.what} was not on screen before {later:%H:%M:%SZ}")
        frame, left = found
        at = _moment(self._tracks.times[frame])
        note = (
            "" if left is None else f"{part.what} was on screen until {_moment(left):%H:%M:%SZ}, and is as it was then"
        )
        try:
            values = self._tracks.values(key, frame)
        except RecordingError as error:
            return Seen(None, note=error.message)
        if not isinstance(values, tuple) or len(values) != len(part.fields):
            return Seen(None, note=f"{part.what} was recorded by another release, which shows it")
        return Seen(values, at, note)

    def status(self) -> LinkStatus:
        """Return the recorded status of the console at this moment."""
        seen = self.look("link", _STATUS)
        if seen.values and isinstance(seen.values[0], LinkStatus):
            self._status = seen.values[0]
        return self._status

    @property
    def gap(self) -> str:
        """Return a sentence if nothing was recorded at this moment, otherwise an empty string."""
        times, at_ms = self._tracks.times, _ms(self.now())
        after = bisect_right(times, at_ms)
        if after == len(times) or times[after] - times[after - 1] <= _GAP_MS:
            return ""
        before, then = _moment(times[after - 1]), _moment(times[after])
        return f"nothing was recorded from {before:%H:%M:%SZ} to {then:%H:%M:%SZ}"


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def words(player: Player) -> str:
    """Return the words for the status cell: `4×`, `paused`, `ended`."""
    if player.at_end:
        return "ended"
    if player.paused:
        return "paused"
    return f"{player.speed:g}×"
