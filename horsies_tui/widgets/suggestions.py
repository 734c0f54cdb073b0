"""The box below a text field: its error, and suggestions for the word at the cursor."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from horsies.domain.plain_text import clean
from horsies_tui.look.glyphs import cut, glyphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual import events

    from horsies.query import Completion

MOST_LINES: Final = 8
"""Largest height of the box, which leaves ten rows of the list visible at 80x24."""
_TEXT_WIDTH: Final = 28
_PADDING: Final = 4
_LEAST_WIDTH: Final = 40


class Suggestions(Widget):
    """The box. It covers the rows below it, so that nothing moves when it opens."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "suggestions--chosen",
        "suggestions--text",
        "suggestions--help",
        "suggestions--problem",
    }

    DEFAULT_CSS = """
    Suggestions {
        overlay: screen;
        width: 100%;
        height: 1;
        display: none;
        padding: 0 1 0 3;
        text-wrap: nowrap;
        background: $panel;
        & > .suggestions--text { color: $text; }
        & > .suggestions--help { color: $text-muted; }
        & > .suggestions--problem { color: $text-error; text-style: bold; }
        & > .suggestions--chosen { color: $text; text-style: bold reverse; }
    }
    """

    can_focus = False

    class Taken(Message):
        """A suggestion was clicked."""

        def __init__(self, offer: Completion) -> None:
            super().__init__()
            self.offer = offer

    def __init__(self) -> None:
        super().__init__()
        self._problem: list[str] = []
        self._offers: Sequence[Completion] = ()
        self._at: int | None = None

    @property
    def chosen(self) -> Completion | None:
        """Return the selected suggestion."""
        return None if self._at is None else self._offers[self._at]

    @property
    def first(self) -> Completion | None:
        return self._offers[0] if self._offers else None

    def show(self, problem: str, offers: Sequence[Completion]) -> None:
        """Show suggestions, none selected. The error is shown in full, because its end may name the correction."""
        width = max(self.parent.size.width if isinstance(self.parent, Widget) else 0, _LEAST_WIDTH) - _PADDING
        self._problem, self._offers, self._at = wrap(clean(problem), width), offers, None
        lines = min(len(offers), MOST_LINES) + len(self._problem)
        if lines:
            self.styles.height = lines
        self.display = lines > 0
        self.refresh()

    def move(self, step: int) -> bool:
        """Move the selection by `step`, from none to the first, and from the first upwards to none.

        Returns whether there was anything to select.
        """
        if not self._offers or (self._at is None and step < 0):
            return False
        at = (-1 if self._at is None else self._at) + step
        self._at = None if at < 0 else min(at, len(self._offers) - 1)
        self.refresh()
        return True

    def render(self) -> Text:
        problem = self._style("problem")
        lines = [*(Text(line, problem) for line in self._problem), *map(self._line, self._visible())]
        return Text("\n").join(lines)

    def _visible(self) -> range:
        last = max(MOST_LINES - 1, self._at or 0)
        return range(last - MOST_LINES + 1, min(last + 1, len(self._offers)))

    def _line(self, index: int) -> Text:
        offer = self._offers[index]
        signs = glyphs(ascii_only=self.app.has_class("-ascii"))
        text: str = clean(signs.text(offer.text))
        text += " " * (_TEXT_WIDTH - cell_len(text))
        line = Text(text, self._style("text"))
        room = max(self.content_size.width - cell_len(text) - 1, 0)
        line.append(f" {cut(clean(signs.text(offer.help)), room, signs)}", self._style("help"))
        if index == self._at:
            line.stylize(self._style("chosen"))
        return line

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"suggestions--{name}", partial=True)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        index = at.y - len(self._problem) if at is not None else -1
        visible = self._visible()
        if 0 <= index < len(visible):
            self.post_message(self.Taken(self._offers[visible[index]]))
