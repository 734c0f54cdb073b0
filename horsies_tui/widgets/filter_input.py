"""The text field of the filter bar: highlights keys and marks errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.highlighter import Highlighter
from textual.binding import Binding
from textual.widgets import Input

from horsies.query.scanner import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text
    from textual.binding import BindingType

    from horsies.query import Problem


class _Marks(Highlighter):
    def __init__(self, field: FilterInput) -> None:
        self._field = field

    def highlight(self, text: Text) -> None:
        key = self._field.get_component_rich_style("filter--key", partial=True)
        for word in words(text.plain):
            if word.key is not None:
                text.stylize(key, word.start, word.body + len(word.key) + 1)
        wrong = self._field.get_component_rich_style("filter--wrong", partial=True)
        for problem in self._field.wrong:
            # A missing part has no characters of its own; the character before it is marked.
            text.stylize(wrong, problem.start if problem.end > problem.start else problem.start - 1, problem.end)


class FilterInput(Input, inherit_bindings=False):
    # Without Input's own enter, which is an action of the filter bar, with a key that the user can change.
    BINDINGS: ClassVar[list[BindingType]] = [
        each for each in Input.BINDINGS if isinstance(each, Binding) and each.key != "enter"
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"filter--key", "filter--wrong"}

    DEFAULT_CSS = """
    FilterInput {
        width: 1fr;
        height: 1;
        padding: 0;
        border: none;
        background: transparent;
        & > .filter--key { color: $text-accent; }
        & > .filter--wrong { color: $text-error; text-style: bold underline; }
        &:focus { border: none; background: $boost; background-tint: transparent; }
    }
    """

    def __init__(self, *, placeholder: str) -> None:
        super().__init__(
            placeholder=placeholder, highlighter=_Marks(self), select_on_focus=False, compact=True, id="filter-text"
        )
        self.cursor_blink = False
        self.wrong: Sequence[Problem] = ()

    def mark(self, problems: Sequence[Problem]) -> None:
        """Mark these errors, and no others."""
        if list(problems) != list(self.wrong):
            self.wrong = problems
            self.refresh()
