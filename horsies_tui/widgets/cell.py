"""A one-line text that is sent to the terminal again only when it changes."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Region
from textual.widget import Widget

from horsies.domain.plain_text import clean
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.lines import changed_part
from horsies_tui.look.text import cut


class LineCell(Widget):
    """One line of text; too long a text ends with an ellipsis, in ASCII if the application has the class `-ascii`."""

    DEFAULT_CSS = "LineCell { height: 1; width: auto; text-wrap: nowrap; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._text = ""
        self._classes_put: tuple[str, ...] = ()

    def put(self, text: str, *classes: str) -> None:
        """Show this text, with these classes in place of those of the last call."""
        if classes != self._classes_put:
            self.remove_class(*self._classes_put).add_class(*classes)
            self._classes_put = classes
        if text != self._text:
            # A layout sends the whole screen again, so it is done only if the width follows the text, not for a ticking
            # clock.
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
