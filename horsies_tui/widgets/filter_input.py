"""The text field of the filter bar: highlights keys and marks errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from horsies.query.scanner import words
from horsies_tui.widgets.typed_line import Marks, TypedInput

if TYPE_CHECKING:
    from rich.text import Text


class _KeysAndMarks(Marks):
    def highlight(self, text: Text) -> None:
        key = self._field.get_component_rich_style("filter--key", partial=True)
        for word in words(text.plain):
            if word.key is not None:
                text.stylize(key, word.start, word.body + len(word.key) + 1)
        super().highlight(text)


class FilterInput(TypedInput):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"filter--key"}
    DEFAULT_CSS = """
    FilterInput {
        & > .filter--key { color: $text-accent; }
        &:focus { background: $boost; }
    }
    """
    MARKS = _KeysAndMarks
