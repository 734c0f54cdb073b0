"""The line in which a command is typed: completion below it, its errors where they are, earlier commands above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.highlighter import Highlighter
from textual import on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input

from horsies.query import Completion
from horsies_tui.actions import Scope, bindings
from horsies_tui.command.completing import Known, complete, hint
from horsies_tui.command.grammar import CommandError, parse_command
from horsies_tui.widgets.cell import LineCell
from horsies_tui.widgets.suggestions import Suggestions

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.query import Problem
    from horsies_tui.command.grammar import Command
    from horsies_tui.command.history import History


class _Hint(Suggester):
    """What `tab` would write, dim behind the cursor."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.known = Known()

    async def get_suggestion(self, value: str) -> str | None:
        return hint(value, len(value), self.known) or None


class _Marks(Highlighter):
    def __init__(self, field: CommandInput) -> None:
        self._field = field

    def highlight(self, text: Text) -> None:
        problem = self._field.wrong
        if problem is not None:
            wrong = self._field.get_component_rich_style("command--wrong", partial=True)
            text.stylize(wrong, problem.start if problem.end > problem.start else problem.start - 1, problem.end)


class CommandInput(Input, inherit_bindings=False):
    # Without Input's own enter, which is an action of the command line, with a key that the user can change.
    BINDINGS: ClassVar[list[BindingType]] = [
        each for each in Input.BINDINGS if isinstance(each, Binding) and each.key != "enter"
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"command--wrong"}
    DEFAULT_CSS = """
    CommandInput {
        width: 1fr;
        height: 1;
        padding: 0;
        border: none;
        background: transparent;
        & > .command--wrong { color: $text-error; text-style: bold underline; }
        &:focus { border: none; background: transparent; background-tint: transparent; }
    }
    """

    def __init__(self, suggester: Suggester) -> None:
        super().__init__(
            highlighter=_Marks(self), suggester=suggester, select_on_focus=False, compact=True, id="command-text"
        )
        self.cursor_blink = False
        self.wrong: Problem | None = None

    def mark(self, problem: Problem | None) -> None:
        if problem != self.wrong:
            self.wrong = problem
            self.refresh()


class CommandLine(Widget):
    """Covers one line of the screen while it is open, so that nothing moves. A wrong command stays and is marked."""

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
        """Enter on a command that can be read."""

        command: Command
        text: str

    class Closed(Message):
        """The line is gone; what is below takes the focus again."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._hint = _Hint()
        self._back = 0
        self._typed = ""

    def compose(self) -> ComposeResult:
        self._field = CommandInput(self._hint)
        self._suggestions = Suggestions()
        prompt = LineCell()
        prompt.put(":")
        yield Horizontal(prompt, self._field)
        yield self._suggestions

    def open(self, known: Known, text: str = "") -> None:
        self._hint.known = known
        self._back, self._typed = 0, ""
        self.display = True
        self._write(text)
        self._suggest()
        self._field.focus()

    def learn(self, known: Known) -> None:
        """More is known than when the line was opened."""
        self._hint.known = known
        if self.display:
            self._suggest()

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """A click elsewhere closes it; sheets and other windows take the focus only for a while."""
        if self.display and self.screen.is_active and self.app.app_focus:
            self._close()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self._suggest()

    @on(Suggestions.Taken)
    def _clicked(self, message: Suggestions.Taken) -> None:
        message.stop()
        self._take(message.offer)
        self._field.focus()

    def action_run(self) -> None:
        """A chosen completion is taken first; an empty line closes."""
        if (chosen := self._suggestions.chosen) is not None:
            self._take(chosen)
            return
        text = self._field.value.strip()
        try:
            command = parse_command(self._field.value)
        except CommandError as error:
            self._show_wrong(error.problem)
            return
        self._close()
        if command is not None:
            self._history.remember(text)
            self.post_message(self.Entered(command, text))

    def action_leave(self) -> None:
        self._close()

    def action_complete(self) -> None:
        offer = self._suggestions.chosen or self._suggestions.first
        if offer is not None:
            self._take(offer)

    def action_below(self) -> None:
        if self._back:
            self._recall(-1)
        else:
            self._suggestions.move(1)

    def action_above(self) -> None:
        """Up in the completions; above the first one, earlier commands."""
        if not self._suggestions.move(-1):
            self._recall(1)

    def _close(self) -> None:
        self._suggestions.show("", ())
        self._field.mark(None)
        self.display = False
        self.post_message(self.Closed())

    def _write(self, text: str) -> None:
        self._field.value = text
        self._field.cursor_position = len(text)

    def _suggest(self) -> None:
        """What is typed may still become right; only enter says that it is wrong."""
        text = self._field.value
        offers = complete(text, self._field.cursor_position, self._hint.known)
        self._field.mark(None)
        self._suggestions.show("", [each for each in offers if text[each.start : each.end] != each.text])

    def _show_wrong(self, problem: Problem) -> None:
        self._field.cursor_position = problem.end
        self._field.mark(problem)
        repair = problem.suggestion
        offers = () if repair is None else (Completion(problem.start, problem.end, repair, "tab puts it there"),)
        self._suggestions.show(str(problem), offers)

    def _take(self, offer: Completion) -> None:
        """A whole word is followed by a blank, so that the next key completes the next word."""
        text = self._field.value
        rest = text[offer.end :]
        gap = "" if rest or offer.text.endswith((":", " ")) else " "
        self._field.value = text[: offer.start] + offer.text + gap + rest
        self._field.cursor_position = offer.start + len(offer.text) + len(gap)
        self._suggest()

    def _recall(self, step: int) -> None:
        lines = self._history.lines
        back = min(self._back + step, len(lines))
        if not self._back and back:
            self._typed = self._field.value
        if back != self._back:
            self._back = back
            self._write(lines[back - 1] if back else self._typed)
