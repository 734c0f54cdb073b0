"""Shown in place of a graph: a choice between workflows, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies_tui.look.lines import Span, words, wrapped
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Band, Line, OpenWorkflow, Section

if TYPE_CHECKING:
    from horsies.views import Ambiguous
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.story.lines import Document
    from horsies_tui.workflow.feed import WorkflowSnapshot


def workflow_choices(ambiguous: Ambiguous, glyphs: Glyphs) -> Document:
    """A list of workflows to open, if the text is the beginning or end of several ids."""
    lines = [Line(each, (words(each, Tone.ACCENT, glyphs),), OpenWorkflow(each)) for each in ambiguous.ids]
    if ambiguous.more:
        lines.append(Line("more", (Span("and others, older than these", Tone.MUTED),)))
    title = words(f"several ids begin or end with {ambiguous.text}", None, glyphs).text
    return (Band((Section("choices", title, tuple(lines)),)),)


def workflow_missing(snapshot: WorkflowSnapshot, width: int, glyphs: Glyphs) -> Document:
    """The reason, and the next step."""
    text = f"No workflow has the id {snapshot.text}, or one that begins or ends so. esc goes back."
    if snapshot.error is not None:
        text = snapshot.error
    elif snapshot.loading:
        text = f"looking for {snapshot.text}" if snapshot.text else "waiting for the database"
    lines = tuple(Line(number, spans) for number, spans in enumerate(wrapped(text, width, None, glyphs)))
    return (Band((Section("nothing", "workflow", lines),)),)
