"""Passes text to Textual's own widgets, titles, tooltips and palette without markup.

They parse a string as markup: a database named `[/tmp/x]` crashed the console, and `[@click=…]` in a task's name made
a link. A Content is drawn as it is. `tests/pure/test_console_doors.py` forbids all other ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Button, Static

from horsies.domain.plain_text import clean
from horsies_tui.look.glyphs import cut, glyphs
from horsies_tui.look.lines import changed_part
from horsies_tui.look.tones import TONES, Tone, tone_css

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies_tui.intents import Fact
    from horsies_tui.look.glyphs import Glyphs


_LABEL_WIDTH: Final = 24
"""Width of the label column: the longest label of all sheets, so that they have the same layout."""


def plain(lines: Sequence[str], glyphs: Glyphs) -> Content:
    """Return these lines as a Content. A line feed within a line does not start a new one."""
    return Content("\n".join(clean(glyphs.text(line)) for line in lines))


def entitle(widget: Widget, glyphs: Glyphs, title: str, subtitle: str | None = None) -> None:
    """Write a title into the border of a widget, and a subtitle if one is given."""
    widget.border_title = plain([title], glyphs)
    if subtitle is not None:
        widget.border_subtitle = plain([subtitle], glyphs)


def explain(widget: Widget, glyphs: Glyphs, *lines: str) -> None:
    """Show these lines as the widget's tooltip; without lines, remove it."""
    text = plain(lines, glyphs) if any(lines) else None
    if widget.tooltip != text:
        widget.tooltip = text


class Lines(Static):
    """Wrapped lines of text; the widget is as high as its text."""

    DEFAULT_CSS = "Lines { height: auto; }"

    def __init__(self, glyphs: Glyphs, *lines: str, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(plain(lines, glyphs), id=id, markup=False)
        self._glyphs = glyphs

    def show(self, *lines: str) -> None:
        self.update(plain(lines, self._glyphs))


class ClickButton(Button, can_focus=False):
    """A button for the mouse only. With the focus, an enter that ends a field's input could press it."""

    def show(self, label: str, glyphs: Glyphs) -> None:
        self.label = plain([label], glyphs)


class Facts(Static):
    """Labels and wrapped texts in two columns; the widget is as high as its content."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONES)

    DEFAULT_CSS = "Facts { height: auto; }\n" + tone_css("Facts")

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        label_width: int = _LABEL_WIDTH,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        super().__init__(id=id, markup=False)
        self._glyphs = glyphs
        self._label_width = label_width
        self._shown: tuple[Sequence[Fact], str] | None = None
        """The last facts with their theme, because the text contains the theme's colours."""

    def show(self, facts: Sequence[Fact]) -> None:
        if (facts, self.app.theme) == self._shown:
            return
        self._shown = (facts, self.app.theme)
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(width=self._label_width)
        grid.add_column(ratio=1)
        for fact in facts:
            grid.add_row(self._text(fact.label, fact.tone or Tone.MUTED), self._text(fact.text, fact.tone))
        # A layout sends the whole screen again, which is 11 kB for each cursor step on the recovery screen.
        self.update(grid, layout=self._height_of(grid) != self.size.height)

    def _height_of(self, grid: Table) -> int:
        least = self.styles.min_height
        lines = self.app.console.render_lines(grid, self.app.console.options.update_width(max(self.size.width, 1)))
        return max(len(lines), 0 if least is None else int(least.value))

    def _text(self, words: str, tone: Tone | None) -> Text:
        style = self.get_component_rich_style(tone, partial=True) if tone else ""
        return Text(self._glyphs.text(clean(words)), style)


class LineCell(Widget):
    """One line of text. Too long a text ends with an ellipsis, in ASCII if the application has the class `-ascii`."""

    DEFAULT_CSS = "LineCell { height: 1; width: auto; text-wrap: nowrap; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._text = ""
        self._classes_put: tuple[str, ...] = ()

    def put(self, text: str, *classes: str) -> None:
        """Show this text with these CSS classes, which replace those of the last call."""
        if classes != self._classes_put:
            self.remove_class(*self._classes_put).add_class(*classes)
            self._classes_put = classes
        if text != self._text:
            # A layout sends the whole screen again, so it is done only if the width depends on the text, unlike the
            # clock's.
            layout = self.styles.is_auto_width and cell_len(text) != cell_len(self._text)
            before, self._text = self._text, text
            changed = changed_part(before, text)
            stands = self.styles.text_align == "start" and len(text) <= self.content_size.width and not layout
            if changed is not None and stands:
                self.refresh(Region(changed[0], 0, changed[1] - changed[0], 1))
            else:
                self.refresh(layout=layout)

    def get_content_width(self, *_: object) -> int:
        return cell_len(clean(self._text))

    def render(self) -> Text:
        signs = glyphs(ascii_only=self.app.has_class("-ascii"))
        return Text(cut(signs.text(clean(self._text)), self.content_size.width, signs))
