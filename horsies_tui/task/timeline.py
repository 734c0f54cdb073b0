"""The attempt timeline: all attempts and the waits between them, drawn to one scale."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import span
from horsies.views.workers import place_of
from horsies_tui.look.lines import Span, cut_spans, flow, width_of, words, wrap_spans, wrapped
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import date_and_time, length, moment_text, ticking, time_of_day
from horsies_tui.story.lines import Fold, Line, Section
from horsies_tui.task.lanes import Lane, LanePhase, lanes, places

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from horsies.views import Attempt, AuditRow
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.payload import StoryContext

KEY: Final = "timeline"
EARLIER: Final = Fold(KEY, "earlier")

_MOST_ATTEMPTS: Final = 6
"""Number of attempts that are shown; older ones are folded, to leave room for the error below."""
_NUMBER: Final = 3
_MOST_WORD_LINES: Final = 3
"""Number of lines below an attempt while it is folded."""
_LEAST_BAR: Final = 22
"""Least width of a bar: that of the two times on the axis below it."""
_INDENT: Final = Span(" " * (_NUMBER + 2))
_DAY: Final = timedelta(days=1)

_GLYPHS: Final = {
    LanePhase.LATER: ("backoff", Tone.MUTED),
    LanePhase.WAITING: ("waiting", Tone.PENDING),
    LanePhase.CLAIMED: ("claimed", Tone.CLAIMED),
    LanePhase.RUNNING: ("running", Tone.RUNNING),
    LanePhase.BACKOFF: ("backoff", Tone.RETRY),
}
_LEGEND: Final = (
    (LanePhase.WAITING, "waiting"),
    (LanePhase.CLAIMED, "claimed"),
    (LanePhase.RUNNING, "running"),
    (LanePhase.BACKOFF, "backoff"),
)


def timeline(context: StoryContext, width: int) -> Section:
    found = lanes(context.detail, context.now)
    shown = found if EARLIER in context.open else _newest(found)
    bar = max(_LEAST_BAR, width * 2 // 5)
    lines = [*_left_out(context, found, shown)]
    for lane, drawn in zip(shown, _bars(shown, bar, context), strict=True):
        lines += _lane(lane, drawn, width, context)
    return Section(KEY, "timeline", (*lines, *_axis(shown, bar, width, context)))


def _newest(found: tuple[Lane, ...]) -> tuple[Lane, ...]:
    starts = [index for index, lane in enumerate(found) if lane.attempt is not None]
    return found[starts[-_MOST_ATTEMPTS] :] if len(starts) > _MOST_ATTEMPTS else found


def _left_out(context: StoryContext, found: tuple[Lane, ...], shown: tuple[Lane, ...]) -> Iterator[Line]:
    folded = sum(lane.attempt is not None for lane in found) - sum(lane.attempt is not None for lane in shown)
    is_open = EARLIER in context.open
    if folded or is_open:
        sign = context.glyphs.unfolded if is_open else context.glyphs.folded
        text = "all attempts" if is_open else f"{folded} earlier attempts"
        yield Line(EARLIER.part, (Span(f"{sign} {text}"),), EARLIER, is_open)
    if context.detail.earlier_attempts and (is_open or not folded):
        yield Line("older", (Span(f"  {context.detail.earlier_attempts} older ones were not read", Tone.MUTED),))


def _bars(shown: Sequence[Lane], bar: int, context: StoryContext) -> list[Spans]:
    """Return each lane's bar, offset by its start: `bar` columns, and one for the sign of its end."""
    stretches = [stretch for lane in shown for stretch in lane.stretches]
    given = iter(places([stretch.length.total_seconds() for stretch in stretches], bar))
    drawn: list[Spans] = []
    at = 0
    for lane in shown:
        pieces = [Span(" " * at)]
        for stretch in lane.stretches:
            taken = next(given)
            at += taken
            name, tone = _GLYPHS.get(stretch.phase, ("", None))
            pieces.append(Span((getattr(context.glyphs, name) if name else " ") * taken, tone))
        sign = _end_sign(lane, context)
        drawn.append((*pieces, sign, Span(" " * (bar - at + 1 - len(sign.text)))))
    return drawn


def _end_sign(lane: Lane, context: StoryContext) -> Span:
    """Return the sign of the lane's outcome, or a blank if it has not ended."""
    if lane.attempt is not None:
        state = lane.attempt.state
    elif _is_end(lane, context):
        state = context.detail.row.state
    else:
        return Span("")
    return Span(context.glyphs.state(state), state_tone(state))


def _is_end(lane: Lane, context: StoryContext) -> bool:
    """Return whether the lane is the end of a task that was cancelled, expired or failed without running."""
    return lane.due is None and lane.phase(LanePhase.ENDED) is None and context.detail.row.finished_at is not None


def _lane(lane: Lane, drawn: Spans, width: int, context: StoryContext) -> Iterator[Line]:
    attempt = lane.attempt
    if attempt is not None:
        number, said = str(attempt.attempt), _attempt_words(lane, attempt, context)
    elif lane.due is not None or lane.phase(LanePhase.ENDED):
        number, said = context.glyphs.state("RETRY"), _between_words(lane, context)
    else:
        number, said = str(context.detail.row.attempt), _present_words(lane, context)
    bar = (Span(number.ljust(_NUMBER), Tone.MUTED), *drawn, Span("  "))
    key = _key(lane)
    fold = Fold(KEY, key)
    # The text wraps to the right of the bar.
    first, *more = wrap_spans(said, width - width_of(bar))
    yield Line(key, cut_spans((*bar, *first), width, context.glyphs), fold if attempt else None, fold in context.open)
    if attempt is None or fold not in context.open:
        margin = Span(" " * width_of(bar))
        for at, spans in enumerate(more[:_MOST_WORD_LINES], 1):
            end = Span(f" {context.glyphs.ellipsis}" if at == _MOST_WORD_LINES < len(more) else "")
            yield Line((key, "words", at), cut_spans((margin, *spans, end), width, context.glyphs))
    if attempt is not None and fold in context.open:
        yield from _inside(lane, attempt, width, context)


def _key(lane: Lane) -> Hashable:
    if lane.attempt is not None:
        return lane.attempt.attempt
    ended = lane.phase(LanePhase.ENDED)
    return ("between", lane.due, ended and ended.begin) if lane.due is not None or ended else "now"


def _attempt_words(lane: Lane, attempt: Attempt, context: StoryContext) -> Iterator[Span]:
    ran = f"ran {_long(attempt.finished_at - attempt.started_at)}"
    yield Span(f"{ran:<10}")
    # Without the child process, which would push the error code out of a line of 80 columns.
    child = None if attempt.worker_id else attempt.worker_pid
    where = place_of(attempt.worker_id, attempt.worker_hostname, child)
    if where:
        yield words(f" on {where}", Tone.MUTED, context.glyphs)
    if attempt.error_code:
        yield words(f"  {attempt.error_code}", None if attempt.will_retry else Tone.FAILED, context.glyphs)
    if attempt.progress is not None and attempt.outcome != "COMPLETED":
        yield words(f"  at {attempt.progress.percent or attempt.progress.amount}", Tone.MUTED, context.glyphs)
    if lane.action is not None:
        yield words(f" by {actor_of(lane.action)}", None, context.glyphs)
    elif attempt.error_message:
        yield words(f"  {attempt.error_message}", Tone.MUTED, context.glyphs)


def _between_words(lane: Lane, context: StoryContext) -> Iterator[Span]:
    waited = lane.stretches[0].length if lane.stretches else timedelta()
    if lane.due is None:
        yield Span(f"requeued after {_long(waited)}")
    elif lane.due > context.now and context.detail.row.status == "PENDING":
        yield Span(f"retry in {ticking(lane.due - context.now)}", Tone.RETRY)
        yield Span(f"  at {moment_text(lane.due, context.now, context.zone)}", Tone.MUTED)
    else:
        yield Span(f"retry after {'about ' if lane.about else ''}{_long(waited)}")
    if lane.action is not None:
        hurried = "" if lane.due is None else "  retry now"
        yield words(f"{hurried} by {actor_of(lane.action)}", Tone.MUTED, context.glyphs)


def _present_words(lane: Lane, context: StoryContext) -> Iterator[Span]:
    row = context.detail.row
    where = words(f" on {place_of(row.worker_id, row.worker_hostname, row.worker_pid)}", Tone.MUTED, context.glyphs)
    match row.status:
        case "RUNNING":
            said = "running" if row.finalizing_at is None else "writing its result; started"
            yield Span(f"{said} {ticking(context.now - (row.started_at or context.now))}", Tone.RUNNING)
            yield where
        case "CLAIMED":
            yield Span(f"claimed {ticking(context.now - (row.claimed_at or context.now))}", Tone.CLAIMED)
            yield where
        case "PENDING" if row.due_at > context.now:
            yield Span(f"due in {ticking(row.due_at - context.now)}")
            yield Span(f"  at {moment_text(row.due_at, context.now, context.zone)}", Tone.MUTED)
        case "PENDING":
            yield Span(f"waiting {ticking(context.now - row.due_at)}")
        case _:
            yield Span(row.state.lower(), state_tone(row.state))
            waited = lane.phase(LanePhase.WAITING)
            if waited is not None:
                yield Span(f" after {_long(waited.length)} of waiting", Tone.MUTED)
            if lane.action is not None:
                yield words(f"  by {actor_of(lane.action)}", None, context.glyphs)


def _inside(lane: Lane, attempt: Attempt, width: int, context: StoryContext) -> Iterator[Line]:
    """Yield the details of one attempt, below its line."""
    room = width - len(_INDENT.text)
    lengths = [
        f"{word} {_long(stretch.length)}"
        for word, stretch in zip(
            ("waited", "claimed", "ran"),
            map(lane.phase, (LanePhase.WAITING, LanePhase.CLAIMED, LanePhase.RUNNING)),
            strict=True,
        )
        if stretch is not None
    ]
    items = [
        *lengths,
        f"started {date_and_time(attempt.started_at, context.zone)}",
        f"ended {date_and_time(attempt.finished_at, context.zone)}",
        f"outcome {attempt.outcome_words}{', retried' if attempt.will_retry else ''}",
        *([f"progress {attempt.progress.percent} {attempt.progress.amount}"] if attempt.progress else []),
        *([f"worker {attempt.worker_id}"] if attempt.worker_id else []),
        *([f"version {attempt.app_version}"] if attempt.app_version else []),
        *([f"process {attempt.worker_process_name}"] if attempt.worker_process_name else []),
    ]
    rows: list[Spans] = flow(((words(item, Tone.MUTED, context.glyphs),) for item in items), room, context.glyphs)
    for text in dict.fromkeys((attempt.error_message, attempt.failed_reason)):
        if text:
            rows += wrapped(text, room, None, context.glyphs)
    for number, spans in enumerate(rows):
        yield Line((attempt.attempt, number), (_INDENT, *spans))


def _axis(shown: Sequence[Lane], bar: int, width: int, context: StoryContext) -> Iterator[Line]:
    """Yield the line of the axis: the first and the last time, and the meaning of the signs."""
    stretches = [stretch for lane in shown for stretch in lane.stretches]
    if not stretches:
        return
    begin, end = stretches[0].begin, stretches[-1].end
    far = end - begin >= _DAY
    left, right = (
        f"{moment.astimezone(context.zone):%m-%d %H:%M}" if far else time_of_day(moment, context.zone)
        for moment in (begin, end)
    )
    middle = f" {_long(end - begin)} "
    room = bar - len(left) - len(right) - 2
    filled = middle.center(room, context.glyphs.rule) if len(middle) <= room else " " * max(room, 0)
    axis = Span(" " * _NUMBER + f"{left} {filled} {right}", Tone.MUTED)
    present = {stretch.phase for stretch in stretches}
    legend = "  ".join(
        f"{getattr(context.glyphs, _GLYPHS[phase][0])} {name}" for phase, name in _LEGEND if phase in present
    )
    spans = (axis, Span("   " + legend, Tone.MUTED))
    yield Line("axis", cut_spans(spans, width, context.glyphs))


def _long(passed: timedelta) -> str:
    """Format a duration exact to the second, because it is read alone and not compared within a column."""
    return length(passed) if passed < timedelta(minutes=1) else span(passed.total_seconds())


def actor_of(action: AuditRow) -> str:
    """Return the operator and the reason, like `ops@bastion "stuck on lock"`."""
    who = f"{action.os_user or '?'}@{action.os_host or '?'}"
    return f'{who} "{action.reason}"' if action.reason else who
