"""Records the snapshots of the feeds: those of the current screen, and a base set that always runs."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from horsies.query import parse_workflows
from horsies_tui.activity.feed import ActivityFeed
from horsies_tui.feed.pace import Rhythm
from horsies_tui.feed.status import sentence, sentence_with_place
from horsies_tui.health.windows import USUAL, WINDOWS
from horsies_tui.overview.feed import PAST_EVERY, OverviewFeed
from horsies_tui.recording.codec import Encoder
from horsies_tui.recording.file import LARGE_SEGMENT, RecordedFrame, RecordingError
from horsies_tui.recording.recorded_classes import NotAValue
from horsies_tui.schedules.feed import SchedulesFeed
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.workers.feed import WorkersFeed
from horsies_tui.workflows.feed import WorkflowsFeed
from horsies_tui.workflows.view import USUAL_FILTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.loop import Feed
    from horsies_tui.feed.recorded import Recordable, SnapshotPart
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.health.windows import Window
    from horsies_tui.recording.file import RecordingWriter

TICK_S: Final = 1.0
"""Minimum interval between frames. A part that changes more often is recorded as it is at the tick."""
BEAT_S: Final = 10.0
"""Interval at which a frame is written even without changes, so that a replay can tell an idle system from a gap."""
_PATIENCE_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
_SEGMENT_S: Final = 300.0
_MOST_OBJECTS: Final = 10_000
"""Maximum number of objects in a segment. They stay in memory until it ends, 1 kB each."""
MOST_BYTES: Final = 1_000_000_000
"""Maximum size, about a week of a busy cluster. At this size the recording ends, because it was forgotten."""
_BASE: Final = Rhythm(tick_s=1.0, poll_s=2.0, reconcile_s=5.0)
"""The pace of the base set: at most once a second, and no more often than a screen would read a slow database."""

Key = tuple[str, ...]
"""The feed, the part and the subject."""


class _ChartsFeed(OverviewFeed):
    """A feed of the charts of another window. It is cheap, because only the newest part is read."""

    def __init__(self, link: DatabaseLink, publish: Callable[[Any], None], window: Window) -> None:
        every = max(window.step.total_seconds() / 2, PAST_EVERY.poll_s)
        rhythm = replace(PAST_EVERY, tick_s=every, poll_s=every, reconcile_s=every)
        super().__init__(link, publish, window=window, past_every=rhythm)
        self._reads = (self._past,)

    def parts(self) -> tuple[SnapshotPart, ...]:
        return super().parts()[1:]


def base_feeds(link: DatabaseLink) -> tuple[Feed[Any], ...]:
    """Create the feeds that make each screen, without a filter, live in the replay."""

    def publish(_snapshot: object) -> None:
        """Do nothing: the recorder reads the snapshots itself."""

    workflows = WorkflowsFeed(link, publish, rhythm=_BASE)
    workflows.ask(parse_workflows(USUAL_FILTER))
    charts = (_ChartsFeed(link, publish, window) for window in WINDOWS if window != USUAL)
    return (
        OverviewFeed(link, publish),
        *charts,
        TaskFeed(link, publish, rhythm=_BASE),
        WorkersFeed(link, publish),
        workflows,
        SchedulesFeed(link, publish),
        ActivityFeed(link, publish),
    )


@dataclass(slots=True)
class _Track:
    """One part of one subject: its number in the file, and the value last written."""

    number: int
    values: tuple[Any, ...] = ()
    told: str = ""
    on: bool = False


class Recorder:
    """Records the feeds of a link. `run` records until it is cancelled; an error ends the recording but never the
    console.
    """

    def __init__(self, writer: RecordingWriter, hide: Callable[[Any], Any], failed: Callable[[str], None]) -> None:
        self._writer = writer
        self._hide = hide
        self._failed = failed
        self._feeds: list[Recordable] = []
        self._tracks: dict[Key, _Track] = {}
        self._encoder = Encoder(hide)
        self._began_ms: int | None = None
        self._wrote_ms = 0
        self._segment_bytes = 0
        self._writing: asyncio.Future[None] | None = None

    def watch(self, feed: Recordable) -> None:
        self._feeds.append(feed)

    def unwatch(self, feed: Recordable) -> None:
        with suppress(ValueError):
            self._feeds.remove(feed)

    async def run(self, link: DatabaseLink) -> None:
        base = base_feeds(link)
        link.tape = self
        for feed in base:
            feed.start()
        try:
            await self._until_ready(base)
            while True:
                await asyncio.sleep(TICK_S)
                shown = [*self._shown(), (("link", "status"), (_steady(link.status),))]
                at_ms = round(link.clock.now().timestamp() * 1000)
                # Encoding 200 changed rows takes 10 ms, which a key need not wait for.
                self._writing = asyncio.ensure_future(asyncio.to_thread(self.write, at_ms, shown))
                await asyncio.shield(self._writing)
        except Exception as error:  # noqa: BLE001 - the header would go on to say that it records
            what = sentence(error) if isinstance(error, (RecordingError, NotAValue)) else sentence_with_place(error)
            self._failed(f"the recording has ended: {what}")
        finally:
            link.tape = None
            for feed in base:
                feed.stop()
            self._feeds.clear()
            if self._writing is not None:
                await asyncio.wait([self._writing])  # the file is closed next

    async def _until_ready(self, base: tuple[Feed[Any], ...]) -> None:
        """Wait for the first rows, so that a replay does not begin empty. An unreachable database is recorded, too."""
        for _ in range(round(_PATIENCE_S / _LOOK_EVERY_S)):
            if all(part.ready for feed in base for part in feed.parts()):
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        self._writer.close()

    def _shown(self) -> Iterator[tuple[Key, tuple[Any, ...]]]:
        """Yield the snapshots of the running feeds. If two feeds make the same request, the one of the base set is
        recorded.
        """
        seen: set[Key] = set()
        for feed in self._feeds:
            snapshot = feed.snapshot
            for part in feed.parts():
                key = (feed.NAME, part.name, *part.subject)
                if key not in seen:
                    seen.add(key)
                    if part.ready:
                        yield key, tuple(getattr(snapshot, field) for field in part.fields)
                    elif key in self._tracks and self._tracks[key].on:
                        yield key, self._tracks[key].values

    def write(self, at_ms: int, shown: list[tuple[Key, tuple[Any, ...]]]) -> None:
        """Append a frame if anything has changed, or if the last one is old."""
        if self._writer.size > MOST_BYTES:
            raise RecordingError(f"{self._writer.path} has reached {MOST_BYTES // 1_000_000} MB")
        begins = self._began_ms is None or self._is_over(at_ms)
        if begins:
            self._encoder = Encoder(self._hide)
            self._began_ms, self._segment_bytes = at_ms, 0
        names: dict[int, Key] = {}
        values: dict[int, Any] = {}
        for key, fields in shown:
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = _Track(len(self._tracks))
                names[track.number] = key
            if not begins and track.on and all(map(is_, fields, track.values)):
                continue
            told = self._encoder.encode(fields)
            text = json.dumps(told)
            if begins or not track.on or text != track.told:
                values[track.number] = told
            track.values, track.told, track.on = fields, text, True
        now_on = {key for key, _ in shown}
        off = [track.number for key, track in self._tracks.items() if track.on and key not in now_on]
        for key, track in self._tracks.items():
            if key not in now_on:
                track.on, track.values, track.told = False, (), ""
        if names or values or off or at_ms - self._wrote_ms >= BEAT_S * 1000:
            classes, objects = self._encoder.take()
            head = {"names": names, "on": sorted(values), "off": off}
            objects_text = f"[{','.join(objects)}]"
            body = f'{{"classes":{_json(classes)},"objects":{objects_text},"values":{_json(values)}}}'
            frame = RecordedFrame(begins, at_ms, _json(head).encode(), body.encode())
            self._segment_bytes += len(frame.body)
            self._writer.write(frame)
            self._wrote_ms = at_ms

    def _is_over(self, at_ms: int) -> bool:
        assert self._began_ms is not None
        old = not 0 <= at_ms - self._began_ms < _SEGMENT_S * 1000
        return old or len(self._encoder) > _MOST_OBJECTS or self._segment_bytes > LARGE_SEGMENT


def _steady(status: LinkStatus) -> LinkStatus:
    """Return the value without the parts that differ at every read."""
    return replace(status, last_data_at=None, latency_s=None, next_try_at=None, clock_offset_s=0.0)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
