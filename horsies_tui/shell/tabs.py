"""The second line: the screens with their keys, and the number of rows that need action on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events

    from horsies_tui.look.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Tab:
    """A screen with its key, the name of its view, and its title."""

    key: str
    name: str
    title: str


_GAP: Final = 3
_SMALL: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Tabs(Widget):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tabs--key", "tabs--active", "tabs--badge"}

    DEFAULT_CSS = """
    Tabs {
        height: 1;
        padding: 0 1;
        color: $text-muted;
        & > .tabs--key { color: $text-muted; }
        & > .tabs--active { color: $text; text-style: bold underline; }
        & > .tabs--badge { color: $text-warning; text-style: bold; }
    }
    """

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        name: str

    def __init__(self, tabs: Sequence[Tab], glyphs: Glyphs) -> None:
        super().__init__()
        self._tabs = tabs
        self._glyphs = glyphs
        self._active = ""
        self._badges: Mapping[str, int] = {}
        self._ends: list[int] = []

    def show(self, active: str, badges: Mapping[str, int]) -> None:
        if (active, badges) != (self._active, self._badges):
            self._active, self._badges = active, dict(badges)
            self.refresh()

    def render(self) -> Text:
        """Render the titles with up to three blanks between them, as far as there is room."""
        for gap in (3, 2, 1):
            line = self._line(" " * gap)
            if line.cell_len - gap <= self.content_size.width:
                break
        return line

    def _line(self, gap: str) -> Text:
        line, self._ends = Text(no_wrap=True, overflow="crop"), []
        room = self.content_size.width - sum(cell_len(tab.title) + len(tab.key) + 1 for tab in self._tabs)
        room -= sum(cell_len(self._badge(count)) for count in self._badges.values() if count)
        gap = " " * min(max(room // (len(self._tabs) - 1), 1), _GAP)
        for tab in self._tabs:
            active = tab.name == self._active
            line.append(f"{tab.key} ", self.get_component_rich_style("tabs--key", partial=True))
            style = self.get_component_rich_style("tabs--active", partial=True) if active else None
            line.append(tab.title, style)
            if count := self._badges.get(tab.name):
                line.append(self._badge(count), self.get_component_rich_style("tabs--badge", partial=True))
            self._ends.append(line.cell_len)
            line.append(gap)
        return line

    def _badge(self, count: int) -> str:
        return f" ({count})" if self._glyphs.ascii else f" {count}".translate(_SMALL)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is None:
            return
        for tab, end in zip(self._tabs, self._ends, strict=True):
            if at.x < end:
                self.post_message(self.Chosen(tab.name))
                return
