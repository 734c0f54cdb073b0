"""The widget of a workflow's timeline: a line for each node, with the cursor on one of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.message import Message

from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies_tui.actions import bindings_of
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import cut_middle
from horsies_tui.look.lines import Piece, blank_line, damaged_lines, filled, piece
from horsies_tui.look.tones import TONES, Tone, state_tone, tone_css
from horsies_tui.look.units import length, ticking, time_of_day
from horsies_tui.widgets.line_view import LineView
from horsies_tui.widgets.rows_view import set_height
from horsies_tui.workflow.gantt import Gantt, GanttRow, Part, places
from horsies_tui.workflow.graph_labels import state_of
from horsies_tui.workflow.head import TimelineWanted

if TYPE_CHECKING:
    from datetime import tzinfo

    from textual import events
    from textual.binding import BindingType

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line

CURSOR: Final = "gantt--cursor"
_NAMES: Final = 0.35
"""Largest share of the width for the names."""
_TIME: Final = 10
"""Width of the column with the total duration and the number of runs."""
_SHARE: Final = 0.55
_LEAST_ROWS: Final = 5
_PAGE: Final = 10
_KEYS: Final = (*("open", "up", "down", "left", "right", "page_up", "page_down", "first", "last", "story", "timeline"),)


class GanttView(LineView, can_focus=True):
    """The timeline, shown instead of the graph while the screen has the class `-timeline`."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(*(f"graph.{name}" for name in _KEYS))]
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR, *TONES}
    DEFAULT_CSS = f"""
    GanttView {{ height: 1fr; color: $text; background: $background; }}
    GanttView > .{CURSOR} {{ background: $block-cursor-background; text-style: bold; }}
    GanttView:ansi > .{CURSOR} {{ color: ansi_default; background: ansi_default; text-style: reverse; }}
    {tone_css("GanttView")}
    """

    @dataclass
    class CursorMoved(Message):
        """The cursor is on another node."""

        row: GanttRow

    @dataclass
    class Opened(Message):
        """A node was opened by enter or a double click, or its sub-workflow is to be folded or unfolded."""

        row: GanttRow

    class StoryWanted(Message):
        """Move the focus to the details of the node under the cursor."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._gantt: Gantt | None = None
        self._zone: tzinfo | None = None
        self._cursor: tuple[str, int] | None = None
        self._top = 0

    @property
    def row(self) -> GanttRow | None:
        """Return the node under the cursor."""
        rows = self._rows
        return next((row for row in rows if row.key == self._cursor), rows[0] if rows else None)

    def put(self, gantt: Gantt | None, zone: tzinfo | None, height: int) -> None:
        """Show the timeline, as high as needed within its share of the height; None while it is being read."""
        self._gantt, self._zone = gantt, zone
        set_height(self, min(len(self._rows) + 2, max(int(height * _SHARE), _LEAST_ROWS)))
        self._redraw()

    def go_to(self, workflow_id: str, index: int) -> None:
        self._cursor = workflow_id, index
        self._redraw()

    def action_open(self) -> None:
        if self.row is not None:
            self.post_message(self.Opened(self.row))

    def action_left(self) -> None:
        self._fold(unfold=False)

    def action_right(self) -> None:
        self._fold(unfold=True)

    def action_story(self) -> None:
        self.post_message(self.StoryWanted())

    def action_timeline(self) -> None:
        self.post_message(TimelineWanted())

    def action_up(self) -> None:
        self._move(self._at - 1)

    def action_down(self) -> None:
        self._move(self._at + 1)

    def action_page_up(self) -> None:
        self._move(self._at - _PAGE)

    def action_page_down(self) -> None:
        self._move(self._at + _PAGE)

    def action_first(self) -> None:
        self._move(0)

    def action_last(self) -> None:
        self._move(len(self._rows) - 1)

    def on_resize(self) -> None:
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = event.y - 1 + self._top
        if 0 <= at < len(self._rows):
            self._move(at)
            if event.chain == 2:
                self.action_open()

    @property
    def _rows(self) -> tuple[GanttRow, ...]:
        return () if self._gantt is None else self._gantt.rows

    @property
    def _at(self) -> int:
        return next((at for at, row in enumerate(self._rows) if row is self.row), 0)

    def _fold(self, *, unfold: bool) -> None:
        if self.row is not None and self.row.unfolded is (not unfold):
            self.post_message(self.Opened(self.row))

    def _move(self, at: int) -> None:
        rows = self._rows
        if rows:
            row = rows[min(max(at, 0), len(rows) - 1)]
            self.go_to(*row.key)
            self.post_message(self.CursorMoved(row))

    # Drawing.

    def _redraw(self) -> None:
        if self.size.width and self.size.height:
            self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width, height = self.size
        if self._gantt is None:
            words = piece(self._glyphs.text(f" reading the runs{self._glyphs.ellipsis}"), Tone.MUTED)
            return [filled((words,), width), *[blank_line(width)] * (height - 1)]
        room = max(height - 2, 1)
        at = self._at
        self._top = min(max(self._top, at - room + 1, 0), at, max(len(self._rows) - room, 0))
        names = self._names(width)
        axis = max(width - names - _TIME - 2, 1)
        lines = [self._axis(self._gantt, names, axis, width)]
        lines += [self._line(row, self._gantt, names, axis, width) for row in self._rows[self._top : self._top + room]]
        lines += [blank_line(width)] * (height - 1 - len(lines))
        return [*lines, self._legend(self._gantt, width)][:height]

    def _names(self, width: int) -> int:
        needed = max((2 * row.depth + 6 + cell_len(clean(row.node.label)) for row in self._rows), default=0)
        return min(needed + 1, int(width * _NAMES))

    def _axis(self, gantt: Gantt, names: int, axis: int, width: int) -> Line:
        """The times of both ends."""
        begin, end = time_of_day(gantt.begin, self._zone), time_of_day(gantt.end, self._zone)
        rule = self._glyphs.rule * max(axis - len(begin) - len(end) - 2, 0)
        return filled((Piece(" " * names, names), piece(f"{begin} {rule} {end}", Tone.MUTED)), width)

    def _line(self, row: GanttRow, gantt: Gantt, names: int, axis: int, width: int) -> Line:
        return drawn(
            f"node {row.node.index}",
            lambda: self._drawn_line(row, gantt, names, axis, width),
            lambda words: damaged_lines(words, width, 1, self._glyphs)[0],
            "workflow",
            row.workflow_id,
        )

    def _drawn_line(self, row: GanttRow, gantt: Gantt, names: int, axis: int, width: int) -> Line:
        glyphs = self._glyphs
        here = (CURSOR,) if row is self.row else ()
        state, indent = state_of(row.node), "  " * row.depth
        fold = " " if row.unfolded is None else glyphs.unfolded if row.unfolded else glyphs.folded
        name = cut_middle(glyphs.text(clean(row.node.label)), max(names - len(indent) - 6, 1), glyphs)
        tone = Tone.STRONG if row.critical else Tone.MUTED if state in ("SKIPPED", "PENDING") else None
        sign = state_tone(state)
        pieces = [
            piece(f"{self._critical if row.critical else ' '}{indent}{fold} ", Tone.WARNING, *here),
            piece(f"{glyphs.state(state)} ", *((sign,) if sign else ()), *here),
            piece(name, *((tone,) if tone else ()), *here),
        ]
        line = filled(pieces, names, *here)
        found = places(row.bars, gantt.begin, gantt.end, axis)
        for bar, same in groupby(found):
            text = (" " if bar is None else self._sign(bar.part)) * len([*same])
            style = None if bar is None else bar.tone if bar.part is Part.RUNS else Tone.MUTED
            line = (*line, piece(text, *((style,) if style else ())))
        tries = f" {glyphs.times}{row.runs}" if row.runs > 1 else ""
        lasted = ticking(row.ran) if row.node.completed_at is None else length(row.ran)
        if row.node.progress is not None and row.node.progress.percent:
            tries = f" {row.node.progress.percent}"
        ran = "skipped" if state == "SKIPPED" else lasted + tries if row.runs else state.lower()
        return filled((*line, piece(f" {ran}"[: _TIME + 1], Tone.MUTED)), width)

    def _sign(self, part: Part) -> str:
        glyphs = self._glyphs
        return {Part.WAITS: glyphs.waiting, Part.BACKOFF: glyphs.backoff, Part.RUNS: glyphs.running}[part]

    @property
    def _critical(self) -> str:
        return "*" if self._glyphs.ascii else "◆"

    def _legend(self, gantt: Gantt, width: int) -> Line:
        path = [row for row in gantt.rows if row.critical and not row.depth]
        hidden = len(gantt.rows) - self._top - max(self.size.height - 2, 1)
        parts = [f"{self._glyphs.down} {hidden} more"] if hidden > 0 else []
        parts += [f"{self._sign(part)} {word}" for part, word in _WORDS.items()]
        nodes = counted(sum(not row.depth for row in gantt.rows), "node")
        parts.append(f"{self._critical} critical path: {len(path)} of {nodes}")
        return filled((piece(f" {'   '.join(parts)}"[:width], Tone.MUTED),), width)


_WORDS: Final = {Part.WAITS: "waits", Part.BACKOFF: "waits for a retry", Part.RUNS: "runs"}
