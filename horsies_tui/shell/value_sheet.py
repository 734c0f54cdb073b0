"""The sheet in which the operator types a JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.widgets import TextArea

from horsies_tui.actions import Scope, bindings, key_for
from horsies_tui.shell.editing import EditError, read_value
from horsies_tui.widgets.plain import LineCell, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from horsies_tui.look.glyphs import Glyphs


class ValueSheet(Sheet[str]):
    """An editor that returns the JSON, or None if it was closed."""

    BINDINGS = bindings(Scope.ARGUMENTS)
    AUTO_FOCUS = "TextArea"

    DEFAULT_CSS = """
    ValueSheet {
        #value { height: 10; max-height: 60vh; border: none; }
        #said { width: 1fr; margin: 1 0 0 0; color: $text-muted; }
        #said.-error { color: $text-error; text-style: bold; }
    }
    """

    def __init__(self, title: str, value: str, glyphs: Glyphs) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield TextArea(self._value, id="value", compact=True)
            yield LineCell(id="said")

    def on_mount(self) -> None:
        entitle(self.query_one("#sheet"), self._glyphs, self._title)
        self.query_one(TextArea).select_all()
        self._say(f"JSON   {self._key('arguments.send')} preview   {self._key('sheet.close')} close")

    def action_send(self) -> None:
        """Return the JSON. If it is invalid, keep the sheet open and move the cursor to the error."""
        area = self.query_one(TextArea)
        try:
            value = read_value(area.text)
        except EditError as error:
            if error.line is not None:
                area.move_cursor((error.line - 1, 0))
            self._say(error.message, error=True)
        else:
            self.dismiss(value)

    def _say(self, text: str, *, error: bool = False) -> None:
        self.query_one("#said", LineCell).put(self._glyphs.text(text), *(("-error",) if error else ()))

    def _key(self, action_id: str) -> str:
        return key_for(action_id, self, self._glyphs)
