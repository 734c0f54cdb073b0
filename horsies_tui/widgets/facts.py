"""Labels and texts in two columns that wrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.widgets import Static

from horsies.domain.plain_text import clean
from horsies_tui.look.tones import TONES, Tone, tone_css

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies_tui.intents import Fact
    from horsies_tui.look.glyphs import Glyphs

_LABEL_WIDTH: Final = 24
"""The width of the longest label, so that all sheets have the same layout."""


class Facts(Static):
    """As high as its content. Texts may come from user code: control characters are removed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONES)

    DEFAULT_CSS = "Facts { height: auto; }\n" + tone_css("Facts")

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        label_width: int = _LABEL_WIDTH,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._label_width = label_width
        self._shown: tuple[Sequence[Fact], str] | None = None
        """Together with the theme, because the text contains its colours."""

    def show(self, facts: Sequence[Fact]) -> None:
        if (facts, self.app.theme) == self._shown:
            return
        self._shown = (facts, self.app.theme)
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(width=self._label_width)
        grid.add_column(ratio=1)
        for fact in facts:
            grid.add_row(self._text(fact.label, fact.tone or Tone.MUTED), self._text(fact.text, fact.tone))
        # A layout sends the whole screen again: 11 kB for each step of the cursor on the recovery screen.
        self.update(grid, layout=self._height_of(grid) != self.size.height)

    def _height_of(self, grid: Table) -> int:
        least = self.styles.min_height
        lines = self.app.console.render_lines(grid, self.app.console.options.update_width(max(self.size.width, 1)))
        return max(len(lines), 0 if least is None else int(least.value))

    def _text(self, words: str, tone: Tone | None) -> Text:
        style = self.get_component_rich_style(tone, partial=True) if tone else ""
        return Text(self._glyphs.text(clean(words)), style)
