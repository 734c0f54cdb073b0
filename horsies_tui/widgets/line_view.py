"""The base of widgets made of lines, which sends only the changed pieces to the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from horsies_tui.look.damage import drawn
from horsies_tui.look.lines import Line, Span, blank_line, changed_spans, damaged_lines, span_pieces, width_of
from horsies_tui.look.tones import TONES, tone_css
from horsies_tui.textual_internals import Lasting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rich.style import Style
    from textual.selection import Selection

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans

_STRIPS_KEPT: Final = 512


class LineView(Lasting, Widget):
    """A widget that marks only changed regions as dirty, because Textual sends every dirty region, changed or not."""

    _glyphs: Glyphs

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._lines: list[Line] = []
        self._styles_of: dict[tuple[str, ...], Style] = {}
        self._strips: LRUCache[Line, Strip] = LRUCache(_STRIPS_KEPT)
        self._painting = False

    def draw_lines(self, make: Callable[[], list[Line]]) -> None:
        """Show the lines that `make` returns, each as wide as the widget."""
        before = self._lines
        self._lines = lines = drawn(self.id or type(self).__name__, make, self._damaged_lines)
        if len(before) != len(lines):
            self.refresh()
            return
        places = [
            Region(x, y, width, 1)
            for y, (old, new) in enumerate(zip(before, lines, strict=True))
            if old is not new and old != new
            for x, width in changed_spans(old, new)
        ]
        if places:
            self.refresh(*places)

    def _damaged_lines(self, words: str) -> list[Line]:
        return damaged_lines(words, *self.size, self._glyphs)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        strip = self._strip(self._lines[y] if y < len(self._lines) else blank_line(width))
        # Textual may paint at a new size before it notifies the widget.
        strip = strip.adjust_cell_length(width, self._style(()))
        if (selection := self.text_selection) is not None:
            strip = self._selected(strip, selection, y)
        # At the start of a selection, Textual reads the positions in the line under the mouse from its styles. Painted
        # lines do not have them, because each position would need a separate style.
        return strip if self._painting else strip.apply_offsets(0, y)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._painting = True
        try:
            return super().render_lines(crop)
        finally:
            self._painting = False

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text between two positions, without the padding at the ends of lines."""
        text = "\n".join("".join(piece.text for piece in line) or " " for line in self._lines)
        return "\n".join(line.rstrip() for line in selection.extract(text).splitlines()), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _selected(self, strip: Strip, selection: Selection, y: int) -> Strip:
        if (span := selection.get_span(y)) is None:
            return strip
        first, last = span
        begin = cell_len(strip.text[:first])
        end = strip.cell_length if last == -1 else cell_len(strip.text[:last])
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([strip.crop(0, begin), strip.crop(begin, end).apply_style(style), strip.crop(end)])

    # Textual refreshes a whole widget that gets or loses the focus: 17 kB for each `/` and `esc`, with no visible
    # change. These methods avoid that.

    def focus(self, scroll_visible: bool = True) -> Self:
        self.app.call_later(self._take_focus)
        return self

    def on_focus(self, event: events.Focus) -> None:
        event.prevent_default()
        self.has_focus = True
        self._focus_changed()
        if isinstance(self.parent, Widget):
            self.parent.post_message(events.DescendantFocus(self))

    def on_blur(self, event: events.Blur) -> None:
        event.prevent_default()
        self.has_focus = False
        self._focus_changed()
        if isinstance(self.parent, Widget):
            self.parent.post_message(events.DescendantBlur(self))

    def _focus_changed(self) -> None:
        """Update the widget after it got or lost the focus, in subclasses that look different with it."""

    def _take_focus(self) -> None:
        if self.is_attached:
            self.screen.set_focus(self)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles_of.clear()
        self._strips.clear()

    def _strip(self, line: Line) -> Strip:
        strip = self._strips.get(line)
        if strip is None:
            segments = [Segment(piece.text, self._style(piece.classes)) for piece in line]
            strip = self._strips[line] = Strip(segments, sum(piece.width for piece in line)).simplify()
        return strip

    def _style(self, classes: tuple[str, ...]) -> Style:
        style = self._styles_of.get(classes)
        if style is None:
            style = self.get_visual_style(*classes).rich_style
            for name in classes:
                style += self.get_component_styles(name).text_style  # Textual's visual styles do not include `reverse`
            self._styles_of[classes] = style
        return style


class EndsLine(LineView):
    """A line above a list with text at both ends, which `ends` returns for a width."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONES}
    DEFAULT_CSS = f"""
    EndsLine {{ height: 1; padding: 0 1 0 3; color: $text-muted; }}
    {tone_css("EndsLine")}
    """

    def __init__(
        self,
        glyphs: Glyphs,
        ends: Callable[[int], tuple[Spans, Spans]],
        *,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._ends_for = ends

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        if self.size.width:
            self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width = self.size.width
        left, right = self._ends_for(width)
        gap = Span(" " * max(width - width_of(left) - width_of(right), 0))
        return [tuple(span_pieces((*left, gap, *right), width, self._glyphs))]
