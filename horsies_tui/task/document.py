"""Lays out the sections of a task's screen, side by side if the width allows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from horsies_tui.look.damage import drawn
from horsies_tui.look.lines import Span, cut_spans, words, wrapped
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Band, Line, OpenTask, Section, damaged, section
from horsies_tui.story.page import side_by_side, widths
from horsies_tui.story.parts import damage
from horsies_tui.story.payload import ARGUMENTS, OPTIONS, OUTCOME
from horsies_tui.task.facts import links, operator_actions, output, progress, why
from horsies_tui.task.heartbeats import heartbeats
from horsies_tui.task.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.views import Ambiguous
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.story.lines import Document
    from horsies_tui.story.payload import Payload, PayloadPart, StoryContext
    from horsies_tui.task.feed import DetailSnapshot


_CODE: Final = 84
"""With less, the lines of a traceback would be cut in half of the width, beside short arguments."""


def document(context: StoryContext, width: int) -> Document:
    """`width` is that of the text, without the gutter of each column."""
    columns, task_id = widths(width), context.detail.row.id
    bands = [*damage(context.detail, width, context.glyphs), *course(context, width)]
    bands += texts(context.payload, width, context.glyphs, task_id)
    if (written := section("output", lambda: output(context, width), "task", task_id)) is not None:
        bands.append(Band((written,)))
    actions = section("operator actions", lambda: operator_actions(context, columns[0]), "task", task_id)
    linked = section("links", lambda: links(context, columns[-1]), "task", task_id)
    bands += side_by_side((actions, linked), columns)
    if context.payload is not None and (part := context.payload.options) is not None:
        options = _payload_section(part, OPTIONS, "options", width, context.glyphs, task_id)
        bands.append(Band((options,)))
    return tuple(bands)


def course(context: StoryContext, width: int) -> Iterator[Band]:
    """The task's history so far."""
    makers: dict[str, Callable[[StoryContext, int], Section | None]] = {
        "progress": progress,
        "timeline": timeline,
        "heartbeats": heartbeats,
        "why": why,
    }
    for title, make in makers.items():
        made = section(title, partial(make, context, width), "task", context.detail.row.id)
        if made is not None:
            yield Band((made,))


def texts(payload: Payload | None, width: int, glyphs: Glyphs, task_id: str) -> Iterator[Band]:
    """The arguments and the result."""
    columns = widths(width)
    if payload is not None and payload.outcome is not None and payload.outcome.tree.has_code and columns[0] < _CODE:
        columns = (width,)
    if payload is None:
        yield Band((Section(ARGUMENTS, "arguments", (Line("", (Span("reading", Tone.MUTED),)),)),))
        return
    arguments = _payload_section(payload.arguments, ARGUMENTS, "arguments", columns[0], glyphs, task_id)
    outcome = _payload_section(payload.outcome, OUTCOME, "result", columns[-1], glyphs, task_id)
    # If they are stacked, the result with its error comes first.
    yield from side_by_side((arguments, outcome) if len(columns) > 1 else (outcome, arguments), columns)


def _payload_section(
    part: PayloadPart | None, key: str, title: str, width: int, glyphs: Glyphs, task_id: str
) -> Section:
    if part is None:
        return Section(key, title, (Line("", (Span("none", Tone.MUTED),)),))
    lines = drawn(part.title, lambda: part.tree.lines(width, glyphs), damaged, "task", task_id)
    if part.note:
        note = cut_spans((words(f"{glyphs.ellipsis} {part.note}", Tone.WARNING, glyphs),), width, glyphs)
        lines = (*lines, Line("note", note))
    return Section(key, part.title, lines)


def choices(ambiguous: Ambiguous, glyphs: Glyphs) -> Document:
    """A list of tasks to open, if the text is the beginning or end of several ids."""
    lines = [Line(each, (words(each, Tone.ACCENT, glyphs),), OpenTask(each)) for each in ambiguous.ids]
    more = "  and others, older than these" if ambiguous.more else ""
    if more:
        lines.append(Line("more", (Span(more.strip(), Tone.MUTED),)))
    title = words(f"several ids begin or end with {ambiguous.text}", None, glyphs).text
    return (Band((Section("choices", title, tuple(lines)),)),)


def nothing(snapshot: DetailSnapshot, width: int, glyphs: Glyphs, *, existed: bool = False) -> Document:
    """Shown if there is no task: the reason, and the next step. `existed`: its row was there a moment ago."""
    text = f"No task has the id {snapshot.text}, or one that begins or ends so. esc goes back."
    if existed:
        text = f"Task {snapshot.text} was deleted: retention deletes tasks that ended long ago."
    if snapshot.error is not None:
        text = snapshot.error
    elif snapshot.loading:
        text = f"looking for {snapshot.text}" if snapshot.text else "waiting for the database"
    lines = tuple(Line(number, spans) for number, spans in enumerate(wrapped(text, width, None, glyphs)))
    return (Band((Section("nothing", "task", lines),)),)
