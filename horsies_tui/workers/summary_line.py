"""The line above the worker list: number, states and load of all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.widget import Widget

from horsies_tui.look.text import cut
from horsies_tui.look.tones import TONES, tone_css

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.tones import Tone
    from horsies_tui.workers.words import Chip

_GAP: Final = 2


class WorkerLine(Widget):
    """Problems come first; the text is shortened if it does not fit."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONES}
    DEFAULT_CSS = "WorkerLine { height: 1; padding: 0 1 0 3; color: $text-muted; text-wrap: nowrap; }" + tone_css(
        "WorkerLine"
    )

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._chips: Sequence[Chip] = ()
        self._words: Sequence[str] = ()
        self._line = Text()

    def show(self, chips: Sequence[Chip], words: Sequence[str]) -> None:
        """`words` are right-aligned, the most important first."""
        self._chips, self._words = chips, words
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def render(self) -> Text:
        return self._line

    def _draw(self) -> None:
        width = self.content_size.width
        left = self._left(width, brief=False)
        if left is None:
            left = self._left(width, brief=True) or Text(self._glyphs.text(self._chips[0].brief))
        right = Text(self._right(width - left.cell_len - _GAP))
        left.append(" " * max(width - left.cell_len - right.cell_len, 0)).append_text(right)
        if left != self._line or left.spans != self._line.spans:
            self._line = left
            self.refresh()

    def _left(self, width: int, *, brief: bool) -> Text | None:
        """None if it does not fit."""
        line = Text()
        for chip in self._chips:
            line.append("   " if line.cell_len else "")
            line.append(self._glyphs.text(chip.brief if brief else chip.text), self._style(chip.tone))
        return line if line.cell_len <= width else None

    def _right(self, room: int) -> str:
        text = ""
        for word in self._words:
            longer = f"{text} {self._glyphs.dot} {word}" if text else word
            if len(longer) > room:
                break
            text = longer
        return cut(self._glyphs.text(text), max(room, 0), self._glyphs)

    def _style(self, tone: Tone) -> Style:
        return self.get_component_rich_style(tone, partial=True)
