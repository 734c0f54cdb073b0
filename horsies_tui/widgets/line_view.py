"""A widget made of lines, which sends only the pieces of them that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from horsies_tui.look.lines import Line, blank_line, changed_spans

if TYPE_CHECKING:
    from typing import Self

    from rich.style import Style

_STRIPS_KEPT: Final = 512


class LineView(Widget):
    """Textual sends all of what a widget calls dirty, changed or not: so here exact places are named."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._lines: list[Line] = []
        self._styles_of: dict[tuple[str, ...], Style] = {}
        self._strips: LRUCache[Line, Strip] = LRUCache(_STRIPS_KEPT)

    def draw_lines(self, lines: list[Line]) -> None:
        """What is to be seen from now on, from the top; each line as wide as the widget."""
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        places = [
            Region(x, y, width, 1)
            for y, (old, new) in enumerate(zip(before, lines, strict=True))
            if old != new
            for x, width in changed_spans(old, new)
        ]
        if places:
            self.refresh(*places)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        strip = self._strip(self._lines[y] if y < len(self._lines) else blank_line(width))
        # Textual may paint in a new size before it tells the widget.
        return strip.adjust_cell_length(width, self._style(()))

    # Textual refreshes all of a widget that gets or loses the focus: 17 kB for each `/` and `esc`, and nothing
    # looks different. These three do the same without that.

    def focus(self, scroll_visible: bool = True) -> Self:
        self.app.call_later(self._take_focus)
        return self

    def on_focus(self, event: events.Focus) -> None:
        event.prevent_default()
        self.has_focus = True
        if isinstance(self.parent, Widget):
            self.parent.post_message(events.DescendantFocus(self))

    def on_blur(self, event: events.Blur) -> None:
        event.prevent_default()
        self.has_focus = False
        if isinstance(self.parent, Widget):
            self.parent.post_message(events.DescendantBlur(self))

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
                style += self.get_component_styles(name).text_style  # textual leaves `reverse` out of visual styles
            self._styles_of[classes] = style
        return style
