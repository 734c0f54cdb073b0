"""Lays out the sections of a task's screen, side by side if there is room."""

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
"""Least width for a traceback; with less, sections side by side would cut its lines although there is room."""


def document(context: StoryContext, width: int) -> Document:
    """Lay out the story. `width` is that of the text, without the gutter of each column."""
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
    """Yield the task's history so far."""
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
    """Yield the arguments and the result."""
    columns = widths(width)
    if payload is not None and payload.outcome is not None and payload.outcome.tree.has_code and columns[0] < _CODE:
        columns = (width,)
    if payload is None:
        yield Band((Section(ARGUMENTS, "arguments", (Line("", (Span("reading", Tone.MUTED),)),)),))
        return
    arguments = _payload_section(payload.arguments, ARGUMENTS, "arguments", columns[0], glyphs, task_id)
    outcome = _payload_section(payload.outcome, OUTCOME, "result", columns[-1], glyphs, task_id)
    # If the sections are stacked, the result with its error comes first.
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
    """Return the list of tasks to choose from, if the text is the beginning or end of several ids."""
    lines = [Line(each, (words(each, Tone.ACCENT, glyphs),), OpenTask(each)) for each in ambiguous.ids]
    more = "  and older ones" if ambiguous.more else ""
    if more:
        lines.append(Line("more", (Span(more.strip(), Tone.MUTED),)))
    title = words(f"several ids begin or end with {ambiguous.text}", None, glyphs).text
    return (Band((Section("choices", title, tuple(lines)),)),)


def nothing(snapshot: DetailSnapshot, width: int, glyphs: Glyphs, *, existed: bool = False) -> Document:
    """Return the text shown without a task: the reason and the next step. `existed` if its row was just deleted."""
    text = f"No task has an id that begins or ends with {snapshot.text}. esc goes back."
    if existed:
        text = f"Task {snapshot.text} was deleted: retention deletes tasks that ended long ago."
    if snapshot.error is not None:
        text = snapshot.error
    elif snapshot.loading:
        text = f"looking for {snapshot.text}" if snapshot.text else "waiting for the database"
    lines = tuple(Line(number, spans) for number, spans in enumerate(wrapped(text, width, None, glyphs)))
    return (Band((Section("nothing", "task", lines),)),)
