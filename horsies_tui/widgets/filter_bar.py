"""The filter bar: shows the filter of a list, and edits it with completion and marked errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Horizontal
from textual.message import Message

from horsies.query import Completion, FilterError, Problem, completions, parse
from horsies_tui.actions import Scope, bindings
from horsies_tui.widgets.plain import LineCell
from horsies_tui.widgets.suggestions import Suggestions
from horsies_tui.widgets.typed_line import FilterInput, TypedLine, repairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.query.language import Filter
    from horsies.query.values import Present

PLACEHOLDER: Final = "filter, for example status:failed queue:mail name:send_* since:1h"
MOST_REMEMBERED: Final = 50


class FilterBar(TypedLine):
    """The filter bar. It never applies an invalid filter, but stays open and marks the error."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.FILTER)]

    DEFAULT_CSS = """
    FilterBar {
        height: 1;
        & > Horizontal { height: 1; padding: 0 1; }
        & > Horizontal > LineCell { width: 2; color: $text-muted; }
        &:focus-within > Horizontal > LineCell { color: $text-accent; text-style: bold; }
    }
    """

    @dataclass
    class Opened(Message):
        """Editing has begun; the view reads the suggestions now."""

        bar: FilterBar

        @property
        def control(self) -> FilterBar:
            return self.bar

    @dataclass
    class Closed(Message):
        """Editing has ended. `filter` is the new filter, or None if it is unchanged."""

        bar: FilterBar
        filter: Filter | None

        @property
        def control(self) -> FilterBar:
            return self.bar

    def __init__(
        self,
        *,
        read: Callable[[str, Present | None], Filter] = parse,
        placeholder: str = PLACEHOLDER,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        """Create the bar; `read` parses a filter in the language of the list."""
        super().__init__(id=id)
        self._read, self._language = read, read("", None).language
        self.present: Callable[[], Present | None] = lambda: None
        """Returns the current time and the zone of times on the screen, which give a typed time of day its meaning."""
        self._placeholder = placeholder
        self.values: Mapping[str, Sequence[str]] = {}
        """Known values by key, for suggestions."""
        self.named: Callable[[], Mapping[str, str]] = dict
        """The saved filters, suggested while the bar is empty."""
        self._applied = ""
        self._remembered: list[str] = []
        self._open = False

    def compose(self) -> ComposeResult:
        self._field = FilterInput(id="filter-text", placeholder=self._placeholder)
        self._suggestions = Suggestions()
        prompt = LineCell()
        prompt.put("/")
        yield Horizontal(prompt, self._field)
        yield self._suggestions

    def read(self, text: str) -> Filter:
        """Parse the text as a filter. Raises FilterError if it is invalid."""
        return self._read(text, self.present())

    @property
    def editing(self) -> bool:
        return self._open

    @property
    def text(self) -> str:
        """Return the text in the bar."""
        return self._field.value

    @property
    def applied(self) -> str:
        """Return the applied filter."""
        return self._applied

    def show(self, text: str) -> None:
        """Show this text as the applied filter."""
        self._applied = text
        if not self._open:
            self._write(text)

    def edit(self, text: str | None = None) -> None:
        """Begin editing this text, or the applied filter."""
        self._begin()
        if text is None and self.text.strip():
            text = f"{self.text.rstrip()} "  # a blank, so that the next word can be typed
        if text is not None:
            self._write(text)
        self._field.focus()
        self._field.cursor_position = len(self.text)

    def learn(self, values: Mapping[str, Sequence[str]]) -> None:
        self.values = values
        if self._open:
            self._suggest()

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        self._begin()

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """Cancel editing when the focus moves elsewhere on the screen, because the bar must show the applied filter.

        Sheets and other windows take the focus only temporarily and do not cancel editing.
        """
        if self._open and self.screen.is_active and self.app.app_focus:
            self._close(None)

    def action_apply(self) -> None:
        """Insert the selected suggestion, if any, and apply the filter."""
        if (chosen := self._suggestions.chosen) is not None:
            self._take(chosen)
            return
        try:
            understood = self.read(self.text)
        except FilterError as error:
            self._show_wrong(error.problems)
            return
        self._remember(self.text.strip())
        self._close(understood)

    def action_leave(self) -> None:
        self._close(None)

    def _begin(self) -> None:
        if not self._open:
            self._open, self._back = True, 0
            self.post_message(self.Opened(self))
            self._suggest()

    def _close(self, understood: Filter | None) -> None:
        self._open = False
        self._suggestions.show("", ())
        self._field.mark(())
        if understood is not None:
            self._applied = understood.text
        self._write(self._applied)
        self.post_message(self.Closed(self, understood))

    def _suggest(self) -> None:
        """Show suggestions, and errors unless a suggestion can still complete the word at the cursor."""
        text, cursor = self.text, self._field.cursor_position
        offers = self._named() if not text.strip() else []
        offers += [each for each in completions(text, cursor, self.values, self._language) if _says_more(each, text)]
        problems = [each for each in self._problems(text) if not (offers and each.start <= cursor <= each.end)]
        self._field.mark(problems)
        self._suggestions.show(str(problems[0]) if problems else "", offers or repairs(problems[:1]))

    def _problems(self, text: str) -> list[Problem]:
        try:
            self.read(text)
        except FilterError as error:
            return error.problems
        return []

    def _show_wrong(self, problems: Sequence[Problem]) -> None:
        """Mark every error of an invalid filter, and move the cursor to the first one."""
        self._field.cursor_position = problems[0].end
        self._field.mark(problems)
        self._suggestions.show(str(problems[0]), repairs(problems[:1]))

    def _named(self) -> list[Completion]:
        return [Completion(0, len(self.text), text, name) for name, text in self.named().items()]

    def _remember(self, text: str) -> None:
        if text:
            self._remembered = [text, *(other for other in self._remembered if other != text)][:MOST_REMEMBERED]

    def _earlier(self) -> Sequence[str]:
        return self._remembered


def _says_more(offer: Completion, text: str) -> bool:
    return text[offer.start : offer.end] != offer.text
