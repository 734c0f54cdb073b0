"""The heartbeat strip of the newest execution: received and missing heartbeats, and the stale threshold."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from math import ceil
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import span
from horsies.views.workers import name_of, place_of
from horsies_tui.look.lines import Span, cut_spans, flow, words
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import length, ticking
from horsies_tui.story.lines import Line, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from horsies.views import Execution
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.payload import StoryContext

_LATE_BEATS: Final = 2
"""Intervals without a beat after which it is late. The stale threshold always is larger; one late beat is normal."""


class BeatState(Enum):
    """The state at one column of the strip."""

    ON_TIME = auto()
    LATE = auto()
    """No beat for longer than two intervals."""
    STALE = auto()
    """No beat for longer than the threshold."""


@dataclass(frozen=True, slots=True)
class BeatTrack:
    """The beats of one execution, and its threshold."""

    role: str
    beats: tuple[datetime, ...]
    begin: datetime
    end: datetime
    live: bool
    every: timedelta
    stale_after: timedelta

    @property
    def last(self) -> datetime:
        """Return the time of the last beat, or the start if there was none."""
        return max((*self.beats[-1:], self.begin))


def strip(known: BeatTrack, width: int) -> tuple[BeatState, ...]:
    """Return the states of at most `width` periods of equal length, each at least one beat long."""
    passed = max(known.end - known.begin, timedelta())
    if width <= 0:
        return ()
    step = max(known.every, passed / width, timedelta(milliseconds=1))
    count = min(max(ceil(passed / step), 1), width)
    ends = [min(known.begin + step * (number + 1), known.end) for number in range(count)]
    return tuple(_state_at(known, end) for end in ends)


def _state_at(known: BeatTrack, at: datetime) -> BeatState:
    """Return the state at this moment, by the time since the last beat. The start counts as a beat."""
    before = bisect_right(known.beats, at)
    silent = at - max(known.begin, *known.beats[max(before - 1, 0) : before], known.begin)
    if silent > known.stale_after:
        return BeatState.STALE
    return BeatState.LATE if silent > _LATE_BEATS * known.every else BeatState.ON_TIME


def beats_of(context: StoryContext) -> BeatTrack | None:
    """Return the newest execution's beats; None if there was no execution, or if it ended without beats."""
    if not context.detail.executions:
        return None
    row, newest, settings = context.detail.row, context.detail.executions[-1], context.recovery
    claimed = row.status == "CLAIMED"
    beats = newest.claimer if claimed else newest.runner
    live = row.status in ("CLAIMED", "RUNNING")
    begin, end = _bounds(context, newest)
    if begin is None or (not live and not beats):
        return None
    return BeatTrack(
        role="claimer" if claimed else "runner",
        beats=beats,
        begin=beats[0] if newest.cut and beats else begin,
        end=max(context.now if live else end or context.now, begin),
        live=live,
        every=_ms(settings.claimer_heartbeat_interval_ms if claimed else settings.runner_heartbeat_interval_ms),
        stale_after=_ms(_threshold_ms(context)),
    )


def _bounds(context: StoryContext, newest: Execution) -> tuple[datetime | None, datetime | None]:
    row = context.detail.row
    if row.status in ("CLAIMED", "RUNNING"):
        return (row.claimed_at if row.status == "CLAIMED" else row.started_at), None
    for attempt in context.detail.attempts:
        if attempt.attempt == newest.attempt:
            return attempt.started_at, attempt.finished_at
    return None, None


def _threshold_ms(context: StoryContext) -> int:
    row, settings = context.detail.row, context.recovery
    if row.status == "CLAIMED":
        return settings.claimed_stale_threshold_ms
    return settings.running_stale_threshold_ms if row.finalizing_at is None else settings.finalizing_stale_threshold_ms


def heartbeats(context: StoryContext, width: int) -> Section | None:
    known = beats_of(context)
    if known is None:
        return None
    newest = context.detail.executions[-1]
    who = _sender(context, newest.runner_sender if known.role == "runner" else None)
    sent_by = words(f"{known.role} {who}" if who else known.role, None, context.glyphs).text
    said = list(_words(known, context))
    room = width - sum(len(item[0].text) + 3 for item in said)
    drawn = _drawn(known, newest.cut, min(max(room, width // 3), width), context)
    rows = flow((drawn, *said), width, context.glyphs)
    lines = tuple(Line(number, cut_spans(row, width, context.glyphs)) for number, row in enumerate(rows))
    return Section("heartbeats", "heartbeats", lines, f"attempt {newest.attempt}, {sent_by}")


def _sender(context: StoryContext, runner: str | None) -> str:
    """Return the worker, which sends the beats, and the child process for which it sends a runner's beat."""
    if runner is None:
        return name_of(context.detail.row.worker_id or "")
    worker_id, _, pid = runner.rpartition(":")
    return place_of(worker_id, None, int(pid)) if name_of(worker_id) != worker_id and pid.isdecimal() else runner


def _drawn(known: BeatTrack, cut: bool, width: int, context: StoryContext) -> Spans:
    """Draw one sign per period, with the threshold where the silence exceeded it."""
    places = strip(known, width - 2)
    crossed = places.index(BeatState.STALE) if BeatState.STALE in places else len(places)
    spans = [Span(context.glyphs.ellipsis, Tone.MUTED)] if cut else []
    spans += _runs(places[:crossed], context)
    if crossed < len(places):
        spans += [Span(context.glyphs.ended, Tone.BAD), *_runs(places[crossed:], context)]
    return tuple(spans)


def _runs(places: Sequence[BeatState], context: StoryContext) -> Iterator[Span]:
    signs = {
        BeatState.ON_TIME: (context.glyphs.heart, Tone.GOOD),
        BeatState.LATE: (context.glyphs.missed, Tone.WARNING),
        BeatState.STALE: (context.glyphs.missed, Tone.BAD),
    }
    start = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] is not places[start]:
            sign, tone = signs[places[start]]
            yield Span(sign * (at - start), tone)
            start = at


def _words(known: BeatTrack, context: StoryContext) -> Iterator[Spans]:
    silent = known.end - known.last
    late, stale = silent > _LATE_BEATS * known.every, silent > known.stale_after
    tone = Tone.BAD if stale else Tone.WARNING if late else None
    yield (Span(f"every {span(known.every.total_seconds())}", Tone.MUTED),)
    if known.beats:
        ago = f"last {ticking(silent)} ago" if known.live else f"last {length(silent)} before the end"
        yield (Span(ago, tone),)
    else:
        yield (Span(f"none for {ticking(silent)}", tone),)
    yield (Span(f"stale after {span(known.stale_after.total_seconds())}", Tone.MUTED),)
    if known.live and stale:
        yield (Span(_prediction(known, context), Tone.BAD),)
    elif known.live and late:
        yield (Span(f"stale in {ticking(known.stale_after - silent)}", Tone.WARNING),)


def _prediction(known: BeatTrack, context: StoryContext) -> str:
    """Predict what the next sweep does about a stale execution, by the newest worker's configuration."""
    requeues, fails = context.recovery.auto_requeue_stale_claimed, context.recovery.auto_fail_stale_running
    if known.role == "claimer":
        return "stale: the next sweep requeues it" if requeues else "stale: no sweep requeues it"
    return "stale: the next sweep ends it as WORKER_CRASHED" if fails else "stale: no sweep ends it"


def _ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)
