"""The lines above a workflow's graph, the sentence in place of a missing graph, and the box of the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.containers import Container
from textual.message import Message

from horsies_tui.look.bars import bar_parts
from horsies_tui.look.damage import damaged_words
from horsies_tui.look.lines import Span, flow, words, wrapped
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import length, moment_text, number, ticking
from horsies_tui.story.lines import Band, Line, OpenWorkflow, Section

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from horsies.views import Ambiguous, WorkflowRow, WorkflowStory
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.lines import Document
    from horsies_tui.workflow.feed import WorkflowSnapshot


_PER_NODE: Final = 100
_TONES: Final = {"running": Tone.RUNNING, "failed": Tone.FAILED, "skipped": Tone.MUTED}


@dataclass(frozen=True, slots=True)
class HeadContext:
    story: WorkflowStory
    now: datetime
    glyphs: Glyphs
    zone: tzinfo | None
    path: tuple[str, ...] = ()
    """The names of the workflows that led here."""


def flow_head(context: HeadContext, width: int) -> tuple[Line, ...]:
    rows = flow((*_who(context), *_progress_lines(context), *_when(context)), width, context.glyphs)
    return tuple(Line(at, spans) for at, spans in enumerate(rows))


def _who(context: HeadContext) -> Iterator[Spans]:
    row = context.story.row
    error = f"  {row.error_code}" if row.error_code and row.status in ("FAILED", "PAUSED", "RUNNING") else ""
    run = (
        length(row.run(context.now))
        if row.status in ("COMPLETED", "FAILED", "CANCELLED")
        else ticking(row.run(context.now))
    )
    yield (
        words(f"{context.glyphs.state(row.status)} {row.status} {run}{error}", state_tone(row.status), context.glyphs),
    )
    above = "".join(f"{name} {context.glyphs.crumb} " for name in context.path)
    if not above and context.story.parent is not None:
        above = f"{context.story.parent.name} {context.glyphs.crumb} "
    yield (words(above, Tone.MUTED, context.glyphs), words(row.name, Tone.STRONG, context.glyphs))
    yield (words(row.id, Tone.MUTED, context.glyphs),)


def _progress_lines(context: HeadContext) -> Iterator[Spans]:
    row = context.story.row
    parts = [Span(f"{number(row.done)} of {number(row.total)} done")]
    for name, count in row.by_state().items():
        parts += [Span(f" {context.glyphs.dot} ", Tone.MUTED), Span(f"{number(count)} {name}", _TONES.get(name))]
    if row.part_done:
        parts += [Span(f" {context.glyphs.dot} ", Tone.MUTED), Span(f"{int(row.share * 100)} %")]
    yield tuple(parts)
    if len(context.story.nodes) < row.total:
        yield (Span(f"only the first {number(len(context.story.nodes))} are shown", Tone.WARNING),)


def _when(context: HeadContext) -> Iterator[Spans]:
    row = context.story.row
    yield _fact("started", moment_text(row.started_at or row.sent_at, context.now, context.zone), context)
    if row.completed_at is not None:
        yield _fact("ended", moment_text(row.completed_at, context.now, context.zone), context)
    yield _fact("on error", row.on_error, context)
    if found := damaged_words(row):
        stored = ", ".join(f"{name} {value}" for name, value in found.items())
        yield (words(f"damaged: {stored}", Tone.BAD, context.glyphs),)
    for action in context.story.audit[:1]:
        who = f"{action.verb} by {action.os_user or '?'}@{action.os_host or '?'}"
        yield _fact("last action", f"{who} {moment_text(action.acted_at, context.now, context.zone)}", context)


def _fact(name: str, value: str, context: HeadContext) -> Spans:
    return (Span(f"{name} ", Tone.MUTED), words(value, None, context.glyphs))


def progress_bar(row: WorkflowRow, places: int, glyphs: Glyphs) -> tuple[tuple[str, Tone], ...]:
    """The shares of its nodes that ended well, failed, were skipped, run and wait: running ones by their progress."""
    part = int(_PER_NODE * min(row.part_done, row.running))
    counts = (
        (Tone.COMPLETED, _PER_NODE * row.completed + part),
        (Tone.FAILED, _PER_NODE * row.failed),
        (Tone.CANCELLED, _PER_NODE * row.skipped),
        (Tone.RUNNING, _PER_NODE * row.running - part),
        (Tone.PENDING, _PER_NODE * row.waiting),
    )
    return bar_parts(counts, places, glyphs)


def workflow_choices(ambiguous: Ambiguous, glyphs: Glyphs) -> Document:
    """A list of workflows to open, if the text is the beginning or end of several ids."""
    lines = [Line(each, (words(each, Tone.ACCENT, glyphs),), OpenWorkflow(each)) for each in ambiguous.ids]
    if ambiguous.more:
        lines.append(Line("more", (Span("and older ones", Tone.MUTED),)))
    title = words(f"several ids begin or end with {ambiguous.text}", None, glyphs).text
    return (Band((Section("choices", title, tuple(lines)),)),)


def workflow_missing(snapshot: WorkflowSnapshot, width: int, glyphs: Glyphs, *, existed: bool = False) -> Document:
    """The reason, and the next step. `existed`: its row was there a moment ago."""
    text = f"No workflow has an id that begins or ends with {snapshot.text}. esc goes back."
    if existed:
        text = f"Workflow {snapshot.text} was deleted: retention deletes workflows that ended long ago."
    if snapshot.error is not None:
        text = snapshot.error
    elif snapshot.loading:
        text = f"looking for {snapshot.text}" if snapshot.text else "waiting for the database"
    lines = tuple(Line(number, spans) for number, spans in enumerate(wrapped(text, width, None, glyphs)))
    return (Band((Section("nothing", "workflow", lines),)),)


class ParentStep(NamedTuple):
    """A workflow from which a node led here, and that node."""

    workflow_id: str
    name: str
    node: int | None


class TimelineWanted(Message):
    """Show the timeline in place of the graph, or the graph again."""


class Body(Container):
    """Contains the graph and the details, which share its height."""

    class Resized(Message):
        """The height must be divided again."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())
