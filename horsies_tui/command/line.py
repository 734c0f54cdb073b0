"""The command line's input: completions below it, its errors in place, earlier commands above."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester

from horsies_tui.actions import Scope, bindings
from horsies_tui.widgets.plain import LineCell
from horsies_tui.widgets.suggestions import Suggestions
from horsies_tui.widgets.typed_line import TypedInput, TypedLine, repairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.query import Completion, Problem
    from horsies.query.values import Present
    from horsies_tui.command.completing import Known
    from horsies_tui.command.grammar import Command
    from horsies_tui.command.history import CommandHistory


class _Hint(Suggester):
    """The completion that `tab` would accept, dimmed after the cursor."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.known: Known | None = None

    async def get_suggestion(self, value: str) -> str | None:
        from horsies_tui.command.completing import hint

        return None if self.known is None else hint(value, len(value), self.known) or None


class CommandLine(TypedLine):
    """The input line. It covers one line of the screen, so that nothing moves. An invalid command stays, marked."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.COMMAND)]

    DEFAULT_CSS = """
    CommandLine {
        overlay: screen;
        width: 100%;
        height: 1;
        display: none;
        background: $panel;
        & > Horizontal { height: 1; padding: 0 1; }
        & > Horizontal > LineCell { width: 2; color: $text-accent; text-style: bold; }
    }
    """

    @dataclass
    class Entered(Message):
        """Posted when enter is pressed on a valid command."""

        command: Command
        text: str

    class Closed(Message):
        """Posted when the line has closed; the screen below takes the focus again."""

    def __init__(self, history: CommandHistory) -> None:
        super().__init__()
        self._history = history
        self.present: Callable[[], Present | None] = lambda: None
        """The reference time of times in a filter, see FilterBar."""
        self._hint = _Hint()

    def compose(self) -> ComposeResult:
        self._field = TypedInput(id="command-text", suggester=self._hint)
        self._suggestions = Suggestions()
        prompt = LineCell()
        prompt.put(":")
        yield Horizontal(prompt, self._field)
        yield self._suggestions

    @property
    def editing(self) -> bool:
        return bool(self.display)

    def open(self, known: Known, text: str = "") -> None:
        self._hint.known = known
        self._back = 0
        self.display = True
        self._write(text)
        self._suggest()
        self._field.focus()

    def learn(self, known: Known) -> None:
        """Add names that were read after the line was opened."""
        self._hint.known = known
        if self.display:
            self._suggest()

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """Close the line on a click elsewhere; sheets and other windows take the focus only temporarily."""
        if self.display and self.screen.is_active and self.app.app_focus:
            self._close()

    def action_run(self) -> None:
        """Accept a selected completion, if any; otherwise run the command. An empty line closes."""
        if (chosen := self._suggestions.chosen) is not None:
            self._take(chosen)
            return
        from horsies_tui.command.grammar import CommandError, parse_command

        text = self._field.value.strip()
        try:
            command = parse_command(self._field.value, self.present())
        except CommandError as error:
            self._show_wrong(error.problem)
            return
        self._close()
        if command is not None:
            kept = self._history.remember(text)
            if kept is not None:
                self.run_worker(partial(self._history.append, kept), group="history", thread=True)
            self.post_message(self.Entered(command, text))

    def action_leave(self) -> None:
        self._close()

    def _close(self) -> None:
        self._suggestions.show("", ())
        self._field.mark(())
        self.display = False
        self.post_message(self.Closed())

    def _suggest(self) -> None:
        """Offer completions; an incomplete line may still become valid, so only enter reports errors."""
        from horsies_tui.command.completing import Known, complete

        text = self._field.value
        offers = complete(text, self._field.cursor_position, self._hint.known or Known())
        self._field.mark(())
        self._suggestions.show("", [each for each in offers if text[each.start : each.end] != each.text])

    def _show_wrong(self, problem: Problem) -> None:
        self._field.cursor_position = problem.end
        self._field.mark([problem])
        self._suggestions.show(str(problem), repairs([problem]))

    def _gap(self, offer: Completion, rest: str) -> str:
        """Return a blank after a complete word, so that the next key completes the next word."""
        return "" if rest or offer.text.endswith((":", " ")) else " "

    def _earlier(self) -> Sequence[str]:
        return self._history.lines
