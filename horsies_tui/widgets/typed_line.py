"""The base of lines in which text is typed, with marked errors, suggestions and a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.highlighter import Highlighter
from textual import on
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from horsies.query import Completion
from horsies.query.scanner import words
from horsies_tui.widgets.suggestions import Suggestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text
    from textual.binding import BindingType
    from textual.suggester import Suggester

    from horsies.query import Problem


class Marks(Highlighter):
    """Marks the errors of a field."""

    def __init__(self, field: TypedInput) -> None:
        self._field = field

    def highlight(self, text: Text) -> None:
        wrong = self._field.get_component_rich_style("typed--wrong", partial=True)
        for problem in self._field.wrong:
            # A missing part has no characters, so the character before it is marked.
            text.stylize(wrong, problem.start if problem.end > problem.start else problem.start - 1, problem.end)


class TypedInput(Input, inherit_bindings=False):
    """The field of a typed line."""

    # Input's binding of enter is left out: applying is an action of the line, whose key the user can change.
    BINDINGS: ClassVar[list[BindingType]] = [
        each for each in Input.BINDINGS if isinstance(each, Binding) and each.key != "enter"
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"typed--wrong"}
    DEFAULT_CSS = """
    TypedInput {
        width: 1fr;
        height: 1;
        padding: 0;
        border: none;
        background: transparent;
        & > .typed--wrong { color: $text-error; text-style: bold underline; }
        &:focus { border: none; background: transparent; background-tint: transparent; }
    }
    """
    MARKS: ClassVar[type[Marks]] = Marks

    def __init__(self, *, id: str, placeholder: str = "", suggester: Suggester | None = None) -> None:  # noqa: A002
        super().__init__(
            placeholder=placeholder,
            highlighter=self.MARKS(self),
            suggester=suggester,
            select_on_focus=False,
            compact=True,
            id=id,
        )
        self.cursor_blink = False
        self.wrong: Sequence[Problem] = ()

    def mark(self, problems: Sequence[Problem]) -> None:
        """Mark these errors, and remove other marks."""
        if list(problems) != list(self.wrong):
            self.wrong = problems
            self.refresh()


class TypedLine(Widget):
    """The filter bar and the command line. A subclass composes `_field` and `_suggestions`."""

    _field: TypedInput
    _suggestions: Suggestions

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._back = 0
        """Position in the history of the recalled text, from 1 for the newest; 0 if none is recalled."""
        self._unfinished = ""
        """The typed text, kept while an earlier text is recalled."""

    # Overridden by subclasses.

    def _earlier(self) -> Sequence[str]:
        """Return the history of entered texts, newest first."""
        raise NotImplementedError

    @property
    def editing(self) -> bool:
        raise NotImplementedError

    def _suggest(self) -> None:
        """Suggest what fits the text at the cursor."""
        raise NotImplementedError

    def _gap(self, offer: Completion, rest: str) -> str:
        """Return the text to insert between a suggestion and the text after it."""
        return ""

    # Keys.

    def action_complete(self) -> None:
        offer = self._suggestions.chosen or self._suggestions.first
        if offer is not None:
            self._take(offer)

    def action_below(self) -> None:
        """Move down in the suggestions, or back to a later text."""
        if self._back:
            self._recall(-1)
        else:
            self._suggestions.move(1)

    def action_above(self) -> None:
        """Move up in the suggestions; above the first one, recall earlier texts."""
        if not self._suggestions.move(-1):
            self._recall(1)

    @on(Suggestions.Taken)
    def _take_clicked(self, message: Suggestions.Taken) -> None:
        message.stop()
        self._take(message.offer)
        self._field.focus()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.editing:
            self._suggest()

    def _take(self, offer: Completion) -> None:
        """Insert a suggestion in place of the word at the cursor."""
        text = self._field.value
        rest = text[offer.end :]
        written = offer.text + self._gap(offer, rest)
        self._field.value = text[: offer.start] + written + rest
        self._field.cursor_position = offer.start + len(written)
        self._suggest()

    def _recall(self, step: int) -> None:
        texts = self._earlier()
        back = min(self._back + step, len(texts))
        if not self._back:
            self._unfinished = self._field.value
        if back != self._back:
            self._back = back
            self._write(texts[back - 1] if back else self._unfinished)

    def _write(self, text: str) -> None:
        self._field.value = text
        self._field.cursor_position = len(text)


def repairs(problems: Iterable[Problem]) -> list[Completion]:
    """Return the corrections that these errors suggest."""
    return [
        Completion(each.start, each.end, each.suggestion, "tab inserts it")
        for each in problems
        if each.suggestion is not None
    ]


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
