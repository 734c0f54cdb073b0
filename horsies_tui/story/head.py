"""The lines above a story, which do not scroll with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from horsies_tui.look.lines import Span, span_pieces
from horsies_tui.look.tones import TONES, tone_css
from horsies_tui.story.page import MARGIN
from horsies_tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.story.lines import Line


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
        """Show these lines and take the height that they need; they were made for the width without the margin."""
        height = max(len(lines), 1)
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        margin = Span(" " * MARGIN)
        self.draw_lines([tuple(span_pieces((margin, *line.spans), self.size.width, self._glyphs)) for line in lines])
