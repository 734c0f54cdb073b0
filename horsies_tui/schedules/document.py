"""The story of one schedule: what it sends, its next runs in two zones, and how its past runs ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies.domain.schedule_times import zone_named
from horsies.query import TaskFilter, Term
from horsies.query.values import Glob
from horsies.views import Standing, next_runs
from horsies.views.schedules import about_all_next, about_next, note, sends
from horsies_tui.look.charts import spark
from horsies_tui.look.lines import Span, cut_spans, words, wrapped
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import LENGTH_WIDTH, age, clock_text, length, moment_text, number, ticking
from horsies_tui.schedules.schedule_texts import strip, tone
from horsies_tui.story.lines import Band, Line, OpenTask, OpenWorkflow, Section, ShowTasks, section
from horsies_tui.story.page import side_by_side, widths
from horsies_tui.story.parts import damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from horsies.views import NextRun, ScheduleRow, ScheduleRun, ScheduleStory
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.lines import Document, Target

NEXT_RUNS: Final = 10
RUNS: Final = "runs"
_LABEL: Final = 11
_STATE: Final = 14
_BAR, _LEAST_BAR = 20, 6
_MOST_ACTIONS: Final = 3
_UNSENT: Final = frozenset({"SKIPPED", "PRUNED"})


@dataclass(frozen=True, slots=True)
class ScheduleContext:
    story: ScheduleStory
    row: ScheduleRow
    """As the list has it, which may be newer."""
    now: datetime
    glyphs: Glyphs
    zone: tzinfo | None
    """That of the operator."""


def document(context: ScheduleContext, width: int) -> Document:
    """`width` is that of the text, without the gutter of each column."""
    columns, name = widths(width), context.row.name
    parts = (
        section("next runs", lambda: _next(context, columns[0]), "schedule", name),
        section("past runs", lambda: _past(context, columns[-1]), "schedule", name),
    )
    facts = section(name, lambda: _facts(context, width), "schedule", name)
    return (Band((facts,)), *damage(context.story.row, width, context.glyphs), *side_by_side(parts, columns))


def reading(name: str, glyphs: Glyphs) -> Document:
    """Return the document shown until the runs of a schedule are read."""
    lines = (Line("", (words(f"reading its runs{glyphs.ellipsis}", Tone.MUTED, glyphs),)),)
    return (Band((Section("facts", name, lines),)),)


def _facts(context: ScheduleContext, width: int) -> Section:
    lines: list[Line] = []
    for label, text, shown, target in _lines_of_facts(context):
        for part, spans in enumerate(wrapped(text, width - _LABEL, shown, context.glyphs)):
            said = Span((label if not part else "").ljust(_LABEL), Tone.MUTED)
            lines.append(Line((label, part), (said, *spans), target))
    return Section("facts", context.row.name, tuple(lines))


def _lines_of_facts(context: ScheduleContext) -> Iterator[tuple[str, str, Tone | None, Target | None]]:
    row, now = context.row, context.now
    definition, standing = row.definition, row.standing(now)
    yield "state", _state(context), tone(standing) or Tone.GOOD, None
    if definition is None:
        yield "sends", about_all_next(row), Tone.MUTED, None
    else:
        yield "when", definition.words, None, None
        missed = "each is sent, late" if definition.catch_up_missed else "missed runs are merged into one"
        yield "if missed", missed, None, None
        queue = "" if definition.queue is None else f", queue {definition.queue}, priority {definition.priority}"
        named = TaskFilter((Term("name", (Glob.literal(definition.target),)),))
        target = ShowTasks(named.text) if definition.kind == "task" else None
        yield "sends", f"{sends(definition)}{queue}", Tone.ACCENT if target else None, target
        yield "served by", _served(context), None if row.schedulers else Tone.WARNING, None
    for number_of, action in enumerate(context.story.audit[:_MOST_ACTIONS]):
        label = "actions" if not number_of else ""
        by = f"{action.verb} by {action.os_user or '?'}@{action.os_host or '?'}"
        what = by if action.outcome == "applied" else f"{by}: {action.outcome}, {action.detail or ''}"
        yield label, f"{what}, {moment_text(action.acted_at, now, context.zone)}", Tone.MUTED, None


def _state(context: ScheduleContext) -> str:
    """`scheduled, next run at 12:04:31Z; its last run ended with TIMEOUT`."""
    row, now = context.row, context.now
    standing, said = row.standing(now), note(row, now, ticking)
    if standing is Standing.PAUSED:
        return said
    if standing is Standing.OVERDUE:
        return f"overdue: {said}"
    at = "due now" if row.next_run_at is None or row.next_run_at <= now else ""
    at = at or f"next run at {moment_text(row.next_run_at, now, context.zone)}"
    if row.last is not None and said and said == row.last.error_code:
        said = f"its last run ended with {said}"
    return "; ".join(filter(None, (f"{standing}, {at}", said)))


def _served(context: ScheduleContext) -> str:
    """The schedulers that serve it; if none does, the one that did so last."""
    if living := [one.name for one in context.story.schedulers if one.lives(context.now)]:
        return ", ".join(living)
    if not context.story.schedulers:
        return "no scheduler: horsies scheduler MODULE starts one"
    last = max(context.story.schedulers, key=lambda one: one.seen_at)
    return f"no scheduler; the last one, {last.name}, was seen {age(context.now - last.seen_at)} ago"


# The next runs.


def _next(context: ScheduleContext, width: int) -> Section:
    row = context.row
    planned = next_runs(row, context.now, NEXT_RUNS)
    there = _zone_that_differs(context, planned)
    lines = [Line(("all", part), spans) for part, spans in enumerate(_about_all(context, width))]
    for place, run in enumerate(planned):
        spans = cut_spans(tuple(_planned(context, planned, place, there)), width, context.glyphs)
        lines.append(Line(run.at, spans))
    if not planned:
        lines.append(Line("none", (Span("it is never due again", Tone.WARNING),)))
    zone = "" if row.definition is None else row.definition.timezone
    return Section("next", "next runs", tuple(lines), zone)


def _zone_that_differs(context: ScheduleContext, planned: tuple[NextRun, ...]) -> tzinfo | None:
    """The zone of the schedule, if its clocks show another time than the operator's."""
    if context.row.definition is None:
        return None
    zone = zone_named(context.row.definition.timezone)
    differs = any(run.at.astimezone(zone).utcoffset() != run.at.astimezone(context.zone).utcoffset() for run in planned)
    return zone if differs else None


def _about_all(context: ScheduleContext, width: int) -> Iterator[Spans]:
    if context.row.definition is not None and (about := about_all_next(context.row)):
        yield from wrapped(about, width, Tone.WARNING, context.glyphs)


def _planned(
    context: ScheduleContext, planned: tuple[NextRun, ...], place: int, there: tzinfo | None
) -> Iterator[Span]:
    run, now = planned[place], context.now
    seconds = any(one.at.second for one in planned)
    left = "now" if run.at <= now else ticking(run.at - now)
    if context.row.paused_at is not None:
        left = ""
    shown = Tone.MUTED if run.is_skipped or context.row.paused_at is not None else None
    yield Span(f"{left:>{LENGTH_WIDTH}}  ", shown)
    yield Span(clock_text(run.at, context.zone, seconds=seconds), shown)
    if there is not None:
        same_day = run.at.astimezone(there).date() == run.at.astimezone(context.zone).date()
        yield Span("  " + clock_text(run.at, there, seconds=seconds, day="" if same_day else "%a"), Tone.MUTED)
    if about := about_next(context.row, run, now):
        yield words(f"  {about}", Tone.WARNING, context.glyphs)


# The past runs.


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of the lines of all runs, so that their bars can be compared."""

    longest: timedelta
    bar: int
    seconds: bool


def _past(context: ScheduleContext, width: int) -> Section:
    runs = context.story.row.runs
    if not runs:
        return Section(RUNS, "past runs", (Line("", (Span("it has not run yet", Tone.MUTED),)),))
    failed = sum(run.failed for run in runs)
    more = f"{number(failed)} of {number(len(runs))} failed" if failed else f"{number(context.row.run_count)} in all"
    scale = _scale(context, runs, width)
    each = [(run, cut_spans(tuple(_run(context, run, scale)), width, context.glyphs)) for run in runs]
    lines = (*_strips(context, runs, width), *(Line(run.slot, spans, target_of(run)) for run, spans in each))
    return Section(RUNS, "past runs", lines, more)


def _scale(context: ScheduleContext, runs: tuple[ScheduleRun, ...], width: int) -> _Scale:
    # The slot of a run that an operator ordered is the time of the order.
    seconds = any(run.slot.second and run.ordered_by is None for run in runs)
    about = max(sum(len(text) + 1 for text in _about(run) if text) for run in runs)
    at = len(clock_text(runs[0].slot, context.zone, seconds=seconds, day="%d %b"))
    taken = _STATE + at + LENGTH_WIDTH + 3 + about
    longest = max((took for run in runs if (took := run.duration(context.now)) is not None), default=timedelta())
    return _Scale(longest, max(min(width - taken, _BAR), _LEAST_BAR), seconds)


def _strips(context: ScheduleContext, runs: tuple[ScheduleRun, ...], width: int) -> Iterator[Line]:
    """The durations as bars above the outcomes: a place for each run, the newest at the right."""
    shown = runs[: max(width - _LABEL, 1)]
    seconds = [took.total_seconds() if (took := run.duration(context.now)) else None for run in reversed(shown)]
    bars = spark(seconds, len(seconds), ascii_only=context.glyphs.ascii)
    signs, tones = strip(shown, context.glyphs)
    yield Line("durations", (Span("duration".ljust(_LABEL), Tone.MUTED), *_toned(bars, tones)))
    yield Line("outcomes", (Span("outcome".ljust(_LABEL), Tone.MUTED), *_toned(signs, tones)))


def _toned(signs: str, tones: tuple[Tone | None, ...]) -> Spans:
    return tuple(Span(one, shown) for one, shown in zip(signs, tones, strict=True))


def _run(context: ScheduleContext, run: ScheduleRun, scale: _Scale) -> Iterator[Span]:
    shown = state_tone(run.state)
    state = context.glyphs.state_text(run.state)
    yield Span(state + " " * max(_STATE - cell_len(state), 0), shown)
    at = clock_text(run.slot, context.zone, seconds=scale.seconds, day="%d %b")
    yield Span(at, None if target_of(run) else Tone.MUTED)
    took = run.duration(context.now)
    text = length(took) if run.ended_at is not None else ticking(took)
    yield Span(f"  {text:>{LENGTH_WIDTH}} ")
    places = 0 if took is None else max(round(scale.bar * (took / scale.longest)) if scale.longest else 0, 1)
    yield Span(context.glyphs.stroke * places + " " * (scale.bar - places), shown)
    error, by = _about(run)
    yield words(f" {error}" if error else "", Tone.FAILED, context.glyphs)
    yield words(f" {by}" if by else "", Tone.MUTED, context.glyphs)


def _about(run: ScheduleRun) -> tuple[str, str]:
    """Return its error, unless the state says it, and who ordered it."""
    error = "" if run.state == "INTERRUPTED" else run.error_code or ""
    return error, f"by {run.ordered_by}" if run.ordered_by else ""


def target_of(run: ScheduleRun) -> OpenTask | OpenWorkflow | None:
    """Return its task or workflow, if that is still stored."""
    if run.state in _UNSENT:
        return None
    if run.task_id is not None:
        return OpenTask(run.task_id)
    return None if run.workflow_id is None else OpenWorkflow(run.workflow_id)
