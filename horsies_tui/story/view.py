"""The widgets of a story: its head, and its sections, in which the cursor stays on its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.message import Message

from horsies_tui.actions import Scope, bindings
from horsies_tui.look.lines import FOUND, Span, blank_line, span_pieces
from horsies_tui.look.tones import TONES, Tone, tone_css
from horsies_tui.story.lines import Fold
from horsies_tui.story.page import CURSOR, MARGIN, Place, StoryPage, lay_out, row_pieces, text_width
from horsies_tui.widgets.line_view import LineView

if TYPE_CHECKING:
    import re

    from textual import events
    from textual.binding import BindingType

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line as Pieces
    from horsies_tui.story.lines import Document, Line, Target
    from horsies_tui.story.page import PageSpot

_WHEEL_ROWS: Final = 3


class StoryView(LineView, can_focus=True):
    """The sections of a story, below each other or side by side. The last line says how much is below the view."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.STORY)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR, FOUND, *TONES}
    DEFAULT_CSS = f"""
    StoryView {{ height: 1fr; color: $text; background: $background; }}
    StoryView > .{CURSOR} {{ background: $block-cursor-background; }}
    StoryView > .{FOUND} {{ background: $warning 40%; text-style: bold; }}
    StoryView:ansi > .{CURSOR} {{ color: ansi_default; background: ansi_default; text-style: reverse; }}
    StoryView:ansi > .{FOUND} {{ background: ansi_default; text-style: bold underline; }}
    {tone_css("StoryView")}
    """

    @dataclass
    class Chosen(Message):
        """A line that folds or is a link was chosen by enter or a click."""

        story: StoryView
        target: Target

        @property
        def control(self) -> StoryView:
            return self.story

    @dataclass
    class Resized(Message):
        """The width has changed, so the document must be made again."""

        story: StoryView

        @property
        def control(self) -> StoryView:
            return self.story

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, StoryView.Resized)

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        beside: bool = False,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        """Create a view. One that is `beside` a list shows its cursor only while it has the focus."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._beside = beside
        self._document: Document = ()
        self._page = StoryPage()
        self._place: Place | None = None
        self._top = 0
        self._sought: re.Pattern[str] | None = None
        self._said = ""

    @property
    def text_width(self) -> int:
        """Return the width for which a document must be made; 0 before the widget has a size."""
        return text_width(self.size.width) if self.size.width else 0

    @property
    def document(self) -> Document:
        return self._document

    @property
    def place(self) -> Place | None:
        """Return the place of the cursor."""
        return self._place

    @property
    def line(self) -> Line | None:
        """Return the line under the cursor."""
        spot = self._page.spot(self._place)
        return None if spot is None else spot.placed.line

    def put(self, document: Document) -> None:
        """Show a document that was made for `text_width`. The cursor stays on its line."""
        before = self._page.spot(self._place)
        height_before = None if before is None else before.y - self._top
        self._document = document
        self._page = lay_out(document, self.size.width)
        spot = self._page.spot(self._place)
        self._place = None if spot is None else spot.placed.place
        if spot is not None and height_before is not None and before is not None and spot.y != before.y:
            self._top = spot.y - height_before
        self._redraw()

    def start_again(self) -> None:
        """Return to the top, for another task."""
        self._place, self._top = None, 0

    def go_to(self, place: Place) -> None:
        """Move the cursor to this line."""
        self._move(self._page.spot(place))

    def scroll_half(self, step: int) -> None:
        """Scroll down by half of the height (-1: up), together with the cursor."""
        self._scroll(step * max(self._height // 2, 1))

    def mark(self, sought: re.Pattern[str] | None, said: str) -> None:
        """Highlight the matches, and show the result of the search in the last line."""
        self._sought, self._said = sought, said
        self._redraw()

    def action_up(self) -> None:
        self._step(-1)

    def action_down(self) -> None:
        self._step(1)

    def action_page_up(self) -> None:
        self._step(-max(self._height - 1, 1))

    def action_page_down(self) -> None:
        self._step(max(self._height - 1, 1))

    def action_first(self) -> None:
        self._top = 0
        self._move(self._page.first)

    def action_last(self) -> None:
        self._move(self._page.near(len(self._page.rows) - 1, 0, -1))

    def action_open(self) -> None:
        if self.line is not None and self.line.target is not None:
            self.post_message(self.Chosen(self, self.line.target))

    def action_unfold(self) -> None:
        """Unfold the line; if it cannot be unfolded further, move to the column on the right."""
        line, spot = self.line, self._page.spot(self._place)
        if line is not None and isinstance(line.target, Fold) and not line.is_open:
            self.action_open()
        elif spot is not None:
            self._move(self._page.beside(spot, 1))

    def action_fold(self) -> None:
        """Fold the line; if it is folded, move to its parent, and from the top level to the column on the left."""
        line, spot = self.line, self._page.spot(self._place)
        if line is None or spot is None:
            return
        inside = isinstance(line.key, tuple) and Place(spot.placed.section.key, line.key[:-1])
        if isinstance(line.target, Fold) and line.is_open:
            self.action_open()
        elif inside and inside in self._page.spots:
            self.go_to(inside)
        else:
            self._move(self._page.beside(spot, -1))

    def action_next_part(self) -> None:
        self._part(1)

    def action_previous_part(self) -> None:
        self._part(-1)

    def on_resize(self, event: events.Resize) -> None:
        self.post_message(self.Resized(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._wheel(_WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._wheel(-_WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        y = self._top + event.y
        if event.y >= self._height or y >= len(self._page.rows):
            return
        for placed in self._page.rows[y]:
            if placed.line is not None and placed.x <= event.x < placed.x + placed.width:
                self.go_to(placed.place)
                self.action_open()

    @property
    def _height(self) -> int:
        """Return the height without the last line."""
        return max(self.size.height - 1, 1)

    def _focus_changed(self) -> None:
        if self._beside:
            self._redraw()

    def _step(self, rows: int) -> None:
        spot = self._page.spot(self._place)
        if spot is None:
            return
        wanted = min(max(spot.y + rows, 0), len(self._page.rows) - 1)
        towards = 1 if rows > 0 else -1
        near = self._page.near(wanted, spot.placed.x, towards) or self._page.near(wanted, spot.placed.x, -towards)
        self._move(near)

    def _wheel(self, rows: int) -> None:
        """Move the cursor by the mouse wheel, or scroll if the cursor is hidden."""
        if self._beside and not self.has_focus:
            self._scroll(rows)
        else:
            self._step(rows)

    def _scroll(self, rows: int) -> None:
        self._top = min(max(self._top + rows, 0), max(len(self._page.rows) - self._height, 0))
        spot = self._page.near(self._top, 0, 1)
        self._place = self._place if spot is None else spot.placed.place
        self._redraw()

    def _part(self, step: int) -> None:
        spot = self._page.spot(self._place)
        if spot is not None:
            self._move(self._page.part(spot, step))

    def _move(self, spot: PageSpot | None) -> None:
        if spot is not None:
            self._place = spot.placed.place
            self._keep_in_view(spot)
            self._redraw()

    def _keep_in_view(self, spot: PageSpot) -> None:
        """Scroll so that the line is visible, and also the title if it is the first line of its section."""
        titled = spot.y > 0 and all(placed.line is None for placed in self._page.rows[spot.y - 1])
        self._top = min(max(self._top, spot.y - self._height + 1), spot.y - titled)

    def _redraw(self) -> None:
        self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Pieces]:
        width, height = self.size
        if not width or not height:
            return []
        rows = self._page.rows
        self._top = min(max(self._top, 0), max(len(rows) - self._height, 0))
        shown = rows[self._top : self._top + self._height]
        here = self._place if self.has_focus or not self._beside else None
        lines = [row_pieces(row, here, self._sought, width, self._glyphs) for row in shown]
        lines += [blank_line(width)] * (self._height - len(lines))
        return [*lines, self._foot(len(rows) - self._top - self._height)]

    def _foot(self, below: int) -> Pieces:
        more = f" {self._glyphs.down} {below} more {'line' if below == 1 else 'lines'}" if below > 0 else ""
        gap = "   " if more and self._said else " "
        spans = (Span(more, Tone.MUTED), Span(gap + self._glyphs.text(self._said), Tone.ACCENT))
        return tuple(span_pieces(spans, self.size.width, self._glyphs))


class StoryHead(LineView):
    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONES}
    DEFAULT_CSS = f"""
    StoryHead {{ height: 2; color: $text; background: $background; }}
    {tone_css("StoryHead")}
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs

    def put(self, lines: tuple[Line, ...]) -> None:
        """Show these lines and take their height. They must be made for the width without the margin."""
        height = max(len(lines), 1)
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        margin = Span(" " * MARGIN)
        width = self.size.width
        self.draw_lines(lambda: [tuple(span_pieces((margin, *line.spans), width, self._glyphs)) for line in lines])
