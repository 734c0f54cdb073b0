"""The widget of a workflow's graph: the cursor is on a node, and only changed places are sent to the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.message import Message

from horsies_tui.actions import Scope, bindings
from horsies_tui.look.damage import drawn
from horsies_tui.look.lines import Piece, Span, blank_line, cut_spans, span_pieces, width_of
from horsies_tui.look.tones import TONES, Tone, tone_css
from horsies_tui.widgets.line_view import LineView
from horsies_tui.workflow.graph_page import Drawing, step
from horsies_tui.workflow.graph_sizes import MAP, SIZES
from horsies_tui.workflow.head import TimelineWanted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from textual import events
    from textual.binding import BindingType

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line
    from horsies_tui.workflow.graph_labels import Labels
    from horsies_tui.workflow.graph_page import Way
    from horsies_tui.workflow.graph_sizes import Sizes

CURSOR: Final = "graph--cursor"
_MARGIN: Final = 1
"""For the cursor before a node of the first layer."""
_SHARE: Final = 0.55
"""The graph's share of the height above a node's details."""
_LEAST_ROWS: Final = 5
_PAGE: Final = 10
_WHEEL_ROWS: Final = 3


class GraphView(LineView, can_focus=True):
    """Shows drawings of one graph in several sizes, with labels. The last line says what lies outside the view."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.GRAPH)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR, *TONES}
    DEFAULT_CSS = f"""
    GraphView {{ height: 1fr; color: $text; background: $background; }}
    GraphView > .{CURSOR} {{ background: $block-cursor-background; text-style: bold; }}
    GraphView:ansi > .{CURSOR} {{ color: ansi_default; background: ansi_default; text-style: reverse; }}
    {tone_css("GraphView")}
    """

    @dataclass
    class CursorMoved(Message):
        """The cursor is on another node."""

        graph: GraphView
        index: int

        @property
        def control(self) -> GraphView:
            return self.graph

    @dataclass
    class Opened(Message):
        """Enter, or a double click, on this node."""

        graph: GraphView
        index: int

        @property
        def control(self) -> GraphView:
            return self.graph

    class StoryWanted(Message):
        """Move the focus to the details of the node under the cursor."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._sizes: Sizes | None = None
        self._labels: Labels | None = None
        self._ties: Mapping[int, Collection[int]] = {}
        self._drawing = Drawing()
        self._wanted: int | None = None
        """The size that the operator chose; None: the largest that fits."""
        self._drawn_as = MAP
        self._cursor: int | None = None
        self._left = self._top = 0
        self._shared: int | None = None
        """The height that the graph shares with the details below it."""
        self._by_row: dict[int, list[int]] = {}

    @property
    def cursor(self) -> int | None:
        """The index of the node under the cursor."""
        return self._cursor

    def put(self, sizes: Sizes, labels: Labels) -> None:
        """Show a graph, or the same one at a later time; it is drawn again only if `sizes` is another object."""
        self._labels = labels
        if sizes is not self._sizes:
            self._sizes = sizes
            self._ties = _ties(labels)
            self._fit()
        self._redraw()

    def fit_into(self, height: int | None) -> None:
        """Be as high as needed, within this height for the graph and the details; None: use all the height there is."""
        if height != self._shared:
            self._shared = height
        self._fit()
        self._redraw()

    def start_again(self) -> None:
        """Prepare for another workflow: the first node, and the largest size that fits."""
        self._wanted = self._cursor = self._sizes = None
        self._drawing, self._by_row = Drawing(), {}

    def go_to(self, index: int) -> None:
        """Move the cursor to this node."""
        self._cursor = index
        if index in self._drawing.spots:  # else no size fits yet
            self._keep_in_view()
            self._redraw()

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self, self._cursor))

    def action_story(self) -> None:
        self.post_message(self.StoryWanted())

    def action_timeline(self) -> None:
        self.post_message(TimelineWanted())

    def action_up(self) -> None:
        self._step("up")

    def action_down(self) -> None:
        self._step("down")

    def action_left(self) -> None:
        self._step("left")

    def action_right(self) -> None:
        self._step("right")

    def action_page_up(self) -> None:
        self._step("up", _PAGE)

    def action_page_down(self) -> None:
        self._step("down", _PAGE)

    def action_first(self) -> None:
        self._move(min(self._drawing.spots, key=self._reading_order, default=None))

    def action_last(self) -> None:
        self._move(max(self._drawing.spots, key=self._reading_order, default=None))

    def action_next_trouble(self) -> None:
        self._to_trouble(1)

    def action_last_trouble(self) -> None:
        self._to_trouble(-1)

    def action_larger(self) -> None:
        self._resize_to(self._drawn_as - 1)

    def action_smaller(self) -> None:
        self._resize_to(self._drawn_as + 1)

    def action_fit(self) -> None:
        """Show all of the graph, or return to a readable size."""
        whole = MAP if self._sizes is None else self._sizes.whole(*self._room)
        self._wanted = None if self._wanted == whole else whole
        self._fit()
        self._redraw()

    def on_resize(self) -> None:
        self._fit()
        self._redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._step("down", _WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._step("up", _WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        x, y = event.x + self._left - _MARGIN, event.y + self._top
        for index in self._by_row.get(y, ()):
            spot = self._drawing.spots[index]
            if spot.x <= x < spot.x + spot.width:
                self._move(index)
                if event.chain == 2:
                    self.action_open()

    # Positions.

    @property
    def _room(self) -> tuple[int, int]:
        """The greatest size of the drawing: without the margin and the last line."""
        height = self.size.height if self._shared is None else max(int(self._shared * _SHARE), _LEAST_ROWS)
        return max(self.size.width - _MARGIN, 1), max(height - 1, 1)

    def _fit(self) -> None:
        if self._sizes is None or not self.size.width:
            return
        width, height = self._room
        self._drawn_as = self._sizes.readable(width, height) if self._wanted is None else self._wanted
        self._drawing = drawing = self._sizes.drawing(self._drawn_as, width)
        self._by_row = {}
        for index, spot in sorted(drawing.spots.items(), key=lambda each: each[1].x):
            for row in range(spot.y, spot.y + drawing.rows):
                self._by_row.setdefault(row, []).append(index)
        if self._cursor not in drawing.spots:
            self._cursor = min(drawing.spots, key=self._reading_order, default=None)
        foot = self._wanted is not None or drawing.width > width or drawing.height > height
        rows = None if self._shared is None else min(drawing.height, height) + foot
        if rows is None:
            self.styles.clear_rule("height")
        elif self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows
        self._keep_in_view()

    def _resize_to(self, size: int) -> None:
        if self._sizes is None or not 0 <= size < len(SIZES):
            return
        if not self._sizes.can_draw(size):
            self.app.bell()
            return
        self._wanted = size
        self._fit()
        self._redraw()

    def _keep_in_view(self) -> None:
        """Scroll a whole screen when the cursor leaves the view, and keep the previous node visible."""
        width, height = self._room
        spot = None if self._cursor is None else self._drawing.spots.get(self._cursor)
        if spot is None:
            self._left = self._top = 0
            return
        if not self._left <= spot.x <= spot.x + spot.width <= self._left + width:
            self._left = spot.x + spot.width // 2 - width // 2
        if not self._top <= spot.y <= spot.y + self._drawing.rows <= self._top + height:
            self._top = spot.y - height // 2
        self._left = min(max(self._left, 0), max(self._drawing.width - width, 0))
        self._top = min(max(self._top, 0), max(self._drawing.height - height, 0))

    def _reading_order(self, index: int) -> tuple[int, int]:
        spot = self._drawing.spots[index]
        return (spot.y, spot.x) if self._drawing.is_map else (spot.layer, spot.y)

    def _step(self, way: Way, times: int = 1) -> None:
        index = self._cursor
        for _ in range(times if index is not None else 0):
            assert index is not None
            index = step(self._drawing, index, way, self._ties)
        self._move(index)

    def _to_trouble(self, onward: int) -> None:
        """Move to the next node that failed, runs or is about to run; after the last one, to the first."""
        if self._labels is None or self._cursor is None:
            return
        in_order = sorted(self._drawing.spots, key=self._reading_order)
        at = in_order.index(self._cursor)
        turned = [*in_order[at + 1 :], *in_order[:at]] if onward > 0 else [*in_order[:at][::-1], *in_order[:at:-1]]
        found = (index for index in turned if self._labels.is_trouble(index))
        self._move(next(found, self._cursor))

    def _move(self, index: int | None) -> None:
        if index is None or index == self._cursor:
            return
        self.go_to(index)
        self.post_message(self.CursorMoved(self, index))

    # Drawing.

    def _redraw(self) -> None:
        self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width, height = self.size
        if not width or not height or self._labels is None:
            return [blank_line(width)] * height
        lines = [tuple(self._row(row, width)) for row in range(self._top, self._top + height)]
        foot = self._foot()
        return [*lines[:-1], tuple(span_pieces((Span(foot, Tone.MUTED),), width, self._glyphs))] if foot else lines

    def _row(self, row: int, width: int) -> Iterator[Piece]:
        """The visible part of a line of the drawing, with the labels over it."""
        assert self._labels is not None
        line = self._drawing.lines[row] if row < self._drawing.height else ""
        end = self._left + width - _MARGIN
        yield Piece(" " * _MARGIN, _MARGIN)
        x = self._left
        for index in self._by_row.get(row, ()):
            spot = self._drawing.spots[index]
            if spot.x + spot.width <= x or spot.x >= end:
                continue
            if spot.x > x:
                yield self._strokes(line[x : spot.x])
                x = spot.x
            label = self._label(index, row - spot.y, spot.width)
            for piece in _from_to(label, x - spot.x, end - spot.x):
                yield piece
                x += piece.width
        if x < end:
            yield self._strokes(line[x:end].ljust(end - x))

    def _label(self, index: int, part: int, width: int) -> Iterator[Piece]:
        assert self._labels is not None
        over = (CURSOR,) if index == self._cursor and part == 0 else ()
        make = self._labels.fact if part else self._labels.label
        spans = drawn(
            f"node {index}",
            lambda: make(index, width),
            lambda words: cut_spans((Span(words, Tone.BAD),), width, self._glyphs),
        )
        if part:
            yield from span_pieces(spans, width, self._glyphs)
            return
        yield from span_pieces(spans, width_of(spans), self._glyphs, over)
        if not self._drawing.is_map:
            yield Piece(" ", 1)  # between a name and the line after it

    def _strokes(self, text: str) -> Piece:
        return Piece(self._glyphs.text(text), len(text), (Tone.MUTED,))

    def _foot(self) -> str:
        """Return what lies outside the view, and the size if the operator chose it."""
        width, height = self._room
        beyond = (
            ("←", self._left, "columns"),
            ("→", self._drawing.width - self._left - width, "columns"),
            (self._glyphs.up, self._top, "rows"),
            (self._glyphs.down, self._drawing.height - self._top - height, "rows"),
        )
        more = [f"{self._glyphs.text(sign)} {places} {what}" for sign, places, what in beyond if places > 0]
        if self._wanted is not None:
            more.append(f"drawn as {SIZES[self._drawn_as].name}")
        return "".join(f" {each}  " for each in more)


def _ties(labels: Labels) -> dict[int, set[int]]:
    """The nodes that each node is connected with."""
    tied: dict[int, set[int]] = {index: set() for index in labels.nodes}
    for index, node in labels.nodes.items():
        for need in node.dependencies:
            if need in tied:
                tied[need].add(index)
                tied[index].add(need)
    return tied


def _from_to(pieces: Iterator[Piece], start: int, end: int) -> Iterator[Piece]:
    """The part of the pieces between two columns."""
    x = 0
    for piece in pieces:
        first, last = max(start - x, 0), min(end - x, piece.width)
        x += piece.width
        if first == 0 and last == piece.width:
            yield piece
        elif first < last:
            text = piece.text[first:last] if piece.width == len(piece.text) else " " * (last - first)
            yield Piece(text, cell_len(text), piece.classes)
