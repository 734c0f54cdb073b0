"""The head of a task's screen, and its small sections: why it waits, last output, operator actions, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies.display.formatting import usual_words
from horsies.domain.quantities import counted
from horsies.domain.retry import RetryRule
from horsies.findings.why import ReasonKind
from horsies.views.workers import place_of
from horsies_tui.look.bars import progress_words, share_bar
from horsies_tui.look.lines import Span, cut_spans, flow, words, wrap_spans, wrapped
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import moment_text, ticking
from horsies_tui.story.lines import Fold, Line, OpenTask, OpenWorkflow, Section, ShowTasks, ShowWorkers
from horsies_tui.task.timeline import actor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.findings.why import Reason
    from horsies.views import Attempt, AuditRow
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.lines import Target
    from horsies_tui.story.payload import StoryContext

_LEAST_BAR: Final = 10
_LONGEST_BAR: Final = 60


_LINES_SHOWN: Final = 6
"""Number of lines of the newest attempt's output that are shown folded; longer lines are cut at the width."""


def head(context: StoryContext, width: int) -> tuple[Line, ...]:
    """Return the task's identity and state, on as few lines as possible."""
    rows = flow((*_who(context), *_when(context)), width, context.glyphs)
    return tuple(Line(number, spans) for number, spans in enumerate(rows))


def _who(context: StoryContext) -> Iterator[Spans]:
    row = context.detail.row
    tone = state_tone(row.state)
    state = " ".join((context.glyphs.state(row.state), row.state, *_durations(context)))
    if row.error_code:
        yield (Span(state, tone), words(f"  {row.error_code}", tone, context.glyphs))
    else:
        yield (Span(state, tone),)
    yield (words(row.name, Tone.STRONG, context.glyphs),)
    yield (words(row.id, Tone.MUTED, context.glyphs),)
    yield _fact("queue", row.queue, context)
    yield _fact("priority", str(row.priority), context)
    yield (Span(f"{row.attempt} of {counted(row.attempts_allowed, 'try', 'tries')}"),)


def _durations(context: StoryContext) -> Iterator[str]:
    """Yield how long it has waited or run, if it has not ended."""
    row, now = context.detail.row, context.now
    match row.status:
        case "RUNNING" if row.started_at is not None:
            yield ticking(now - row.started_at)
        case "CLAIMED" if row.claimed_at is not None:
            yield ticking(now - row.claimed_at)
        case "PENDING" if row.due_at > now:
            yield f"in {ticking(row.due_at - now)}"
        case "PENDING":
            yield f"for {ticking(now - row.due_at)}"


def _when(context: StoryContext) -> Iterator[Spans]:
    row = context.detail.row
    sent = row.sent_at or row.created_at
    yield _fact("sent", _moment(context, sent), context)
    if row.next_retry_at is None and not context.detail.attempts:
        yield _fact("due", "at once" if row.enqueued_at <= sent else _moment(context, row.enqueued_at), context)
    if row.finished_at is not None:
        yield _fact("ended", _moment(context, row.finished_at), context)
    if row.good_until is not None:
        late = row.finished_at is None and row.good_until <= context.now
        until = Span(_moment(context, row.good_until), Tone.WARNING if late else None)
        yield (Span("deadline " if not late else "deadline passed ", Tone.MUTED), until)
    if row.claim_expires_at is not None and row.status == "CLAIMED":
        yield _fact("lease ends", _moment(context, row.claim_expires_at), context)
    rule = RetryRule.from_text(context.detail.options.text if context.detail.options else None)
    if rule is not None and rule.auto_retry_for:
        waits = f"{rule.backoff_strategy} {list(rule.intervals)}"
        yield _fact("retry", f"{waits} on {', '.join(sorted(rule.auto_retry_for))}", context)


def _fact(name: str, value: str, context: StoryContext) -> Spans:
    return (Span(f"{name} ", Tone.MUTED), words(value, None, context.glyphs))


def _moment(context: StoryContext, moment: object) -> str:
    return moment_text(moment, context.now, context.zone)  # type: ignore[arg-type]


def progress(context: StoryContext, width: int) -> Section | None:
    """Return the progress that a running task reports, and how long tasks of its name usually run."""
    row, now, glyphs = context.detail.row, context.now, context.glyphs
    lines: list[Line] = []
    if row.progress is not None:
        said = progress_words(row.progress, now)
        tone = Tone.MUTED if row.progress.is_stale(now) else Tone.RUNNING
        share = row.progress.share
        room = min(max(width - cell_len(str(said)) - 2, 0), _LONGEST_BAR)
        drawn = (Span(f"{share_bar(share, room, glyphs)}  ", tone),) if share is not None and room >= _LEAST_BAR else ()
        lines.append(Line("bar", cut_spans((*drawn, words(str(said), None, glyphs)), width, glyphs)))
    run, usual = row.run(now), context.detail.usual
    if row.status == "RUNNING" and run is not None and usual is not None:
        late = Tone.WARNING if run.total_seconds() > usual.p95_s else None
        ran = (Span(ticking(run), late), Span(f" of usually {usual_words(usual)}", Tone.MUTED))
        lines.append(Line("usual", cut_spans(ran, width, glyphs)))
    return Section("progress", "progress", tuple(lines)) if lines else None


def why(context: StoryContext, width: int) -> Section | None:
    if context.why is None or not context.why.reasons or context.detail.row.status != context.why.status:
        return None
    lines: list[Line] = []
    for number, reason in enumerate(context.why.reasons):
        for part, spans in enumerate(wrapped(_reason(reason, context), width, None, context.glyphs)):
            lines.append(Line((number, part), spans))
    return Section("why", "why it waits", tuple(lines))


def _reason(reason: Reason, context: StoryContext) -> str:
    """Return the text of a reason. Its remaining time counts down from the last read; other reasons do not change."""
    if reason.until is None:
        return reason.text
    what = "it waits for its retry" if reason.kind is ReasonKind.RETRY_WAIT else "it is not due yet"
    if reason.until <= context.now:
        return f"{what}: due now"
    return f"{what}: due in {ticking(reason.until - context.now)}, at {_moment(context, reason.until)}"


def output(context: StoryContext, width: int) -> Section | None:
    """Return the last output of the failed attempts, the newest first: a few lines, or all that are kept."""
    attempts = sorted((one for one in context.detail.attempts if one.output), key=lambda one: -one.attempt)
    lines = [line for one in attempts for line in _output_of(one, one is attempts[0], context, width)]
    return Section("output", "last output", tuple(lines)) if lines else None


def _output_of(attempt: Attempt, newest: bool, context: StoryContext, width: int) -> Iterator[Line]:
    kept, fold = (attempt.output or "").splitlines(), Fold("output", attempt.attempt)
    is_open, glyphs = fold in context.open, context.glyphs
    shown = kept if is_open else kept[-_LINES_SHOWN:] if newest else []
    left_out = len(kept) - len(shown)
    said = f"{glyphs.text('…')} {counted(left_out, 'earlier line' if shown else 'line')} left out" if left_out else ""
    sign = glyphs.unfolded if is_open or not left_out else glyphs.folded
    title = (Span(f"{sign} try {attempt.attempt}"), Span(f"  {said}", Tone.MUTED))
    yield Line(attempt.attempt, cut_spans(title, width, glyphs), fold if left_out or is_open else None, is_open)
    for number, text in enumerate(kept[left_out:], left_out):
        spans = (Span("  "), words(text, None, glyphs))
        yield Line((attempt.attempt, number), cut_spans(spans, width, glyphs))


def operator_actions(context: StoryContext, width: int) -> Section:
    lines = tuple(
        Line((row.id, number), spans)
        for row in context.detail.audit
        for number, spans in enumerate(wrap_spans(_action(row, context), width))
    )
    nothing = (Line("", (Span("nothing", Tone.MUTED),)),)
    return Section("hand", "operator actions", lines or nothing)


def _action(row: AuditRow, context: StoryContext) -> Iterator[Span]:
    yield Span(f"{_moment(context, row.acted_at)} ", Tone.MUTED)
    yield words(f"{row.verb} by {actor_of(row)}", None, context.glyphs)
    if row.outcome != "applied":
        yield words(f"  {row.outcome}: {row.detail or ''}", Tone.WARNING, context.glyphs)
    if row.undone_by is not None:
        yield Span("  undone", Tone.MUTED)


def links(context: StoryContext, width: int) -> Section:
    """Return a section with a line per link, which `enter` follows."""
    lines = tuple(
        Line((name, target), cut_spans((Span(f"{name:<10}", Tone.MUTED), *spans), width, context.glyphs), target)
        for name, spans, target in _links(context)
    )
    return Section("links", "links", lines)


def _links(context: StoryContext) -> Iterator[tuple[str, Spans, Target]]:
    row, node = context.detail.row, context.detail.node

    def shown(text: str, tone: Tone | None = Tone.ACCENT) -> Spans:
        return (words(text, tone, context.glyphs),)

    if node is not None:
        name = f"{node.workflow_name} {context.glyphs.crumb} node {node.node_id or node.task_index}"
        status = f"  {node.workflow_status.lower()}, node {node.node_status.lower()}"
        yield "workflow", (*shown(name), *shown(status, None)), OpenWorkflow(node.workflow_id, node.task_index)
    if row.worker_id is not None:
        place = place_of(row.worker_id, row.worker_hostname, row.worker_pid)
        named = (*shown(place), *shown(f"  {row.worker_id}", Tone.MUTED))
        yield "worker", named, ShowWorkers(f"id:{quoted(row.worker_id)}")
    if row.rerun_of is not None:
        yield "rerun of", shown(row.rerun_of), OpenTask(row.rerun_of)
    for copy in context.detail.reruns:
        yield "rerun as", shown(copy), OpenTask(copy)
    if row.unique_key is not None:
        yield "unique", shown(row.unique_key), ShowTasks(f"unique:{quoted(row.unique_key)}")
    if row.duplicates is not None:
        since = f", the last {ticking(context.detail.now - row.duplicates.last_at)} ago"
        yield "swallowed", (*shown(row.duplicates.words), *shown(since, Tone.MUTED)), ShowTasks("dup:>0")
    same_name = f"name:{quoted(row.name)}"
    if row.error_code is not None:
        yield (
            "similar",
            shown(f"{row.name} with {row.error_code}"),
            ShowTasks(f"{same_name} error:{quoted(row.error_code)}"),
        )
    else:
        yield "similar", shown(f"all {row.name}"), ShowTasks(same_name)


def quoted(value: str) -> str:
    """Quote a value so that the filter language takes it literally."""
    if value and all(char.isalnum() or char in "-_." for char in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
