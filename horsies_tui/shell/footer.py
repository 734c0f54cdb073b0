"""The last line of the screen: the keys that work now, or for some seconds a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from rich.text import Text
from textual.widget import Widget

from horsies.domain.plain_text import clean
from horsies_tui.actions import Action, key_label, live_actions
from horsies_tui.look.glyphs import cut

if TYPE_CHECKING:
    from textual import events
    from textual.screen import Screen
    from textual.timer import Timer

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.view import Console

MESSAGE_S: Final = 8.0
"""How long a message is shown: long enough to read the line twice. Errors stay in the list of errors (`!`)."""
OFFER_S: Final = 60.0
"""How long the undo of an operation is offered in the footer."""


class Footer(Widget):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"footer--key", "footer--note", "footer--message", "footer--error"}

    DEFAULT_CSS = """
    Footer {
        dock: bottom;
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $text-muted;
        & > .footer--key { color: $text-accent; text-style: bold; }
        & > .footer--note { color: $text; text-style: bold; }
        & > .footer--message { color: $text; }
        & > .footer--error { color: $text-error; text-style: bold; }
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._note = ""
        self._message: tuple[str, str] | None = None
        self._offer = ""
        self._running_out: list[Timer] = []
        self._hits: list[tuple[int, Action | None]] = []
        """The column at which each shown key ends, with its action, for clicks."""
        self._line = Text()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_updated)
        self.app.screen_change_signal.subscribe(self, self._another_screen)

    def on_resize(self) -> None:
        self.draw_again()

    def note(self, text: str) -> None:
        self._note = clean(self._glyphs.text(text))
        self.draw_again()

    def say(self, text: str, *, error: bool, offer: str = "") -> None:
        """Show the text for some seconds, then `offer` before the keys for a minute or until the next text.

        An error does not remove the offer, because an error may occur at any time.
        """
        self._message = (text, "footer--error" if error else "footer--message")
        for timer in self._running_out[: 1 if error else None]:
            timer.stop()
        self._running_out[:1] = [self.set_timer(MESSAGE_S, self.message_over)]
        if not error:
            self._offer = offer
            self._running_out[1:] = [self.set_timer(OFFER_S, self.offer_over)]
        self.draw_again()

    def offer_over(self) -> None:
        self._offer = ""
        self.draw_again()

    def message_over(self) -> None:
        """Remove the message when it has expired or its subject is no longer shown."""
        self._message = None
        self.draw_again()

    def _another_screen(self, screen: Screen[object]) -> None:
        """Redraw after a sheet was opened or closed, because keys and messages of the other screen do not apply."""
        if screen.is_modal:
            self._message = None
        screen.bindings_updated_signal.subscribe(self, self._bindings_updated)
        self.draw_again()

    def _bindings_updated(self, _screen: Screen[object]) -> None:
        self.draw_again()

    def draw_again(self) -> None:
        """Redraw if the content has changed, for example because the focus changed the bindings."""
        if not self.is_attached:
            return  # the application closes, and the link still reports its status
        line = self._message_line() if self._message is not None else self._keys_line(self.content_size.width)
        if line != self._line or line.spans != self._line.spans:
            self._line = line
            self.refresh()

    def render(self) -> Text:
        return self._line

    def _message_line(self) -> Text:
        text, component = self._message or ("", "footer--message")
        self._hits = []
        style = self.get_component_rich_style(component, partial=True)
        text = self._glyphs.text(clean(" ".join(text.split())))
        return Text(cut(text, self.content_size.width, self._glyphs), style, no_wrap=True)

    def _keys_line(self, width: int) -> Text:
        """Return as many keys as fit, in the registry's order; the key of the help is always included."""
        live = live_actions(self.app.screen_stack[-1]) if self.app.screen_stack else []
        offered = [(action, keys[0]) for action, keys in live if action.footer and self._usable(action)]
        line, self._hits = Text(no_wrap=True), []
        notes = [self._note, "" if self.app.screen_stack[-1:] and self.app.screen.is_modal else self._offer]
        for note in filter(None, notes):
            line.append(
                f"{self._glyphs.text(clean(note))}   ", self.get_component_rich_style("footer--note", partial=True)
            )
            self._hits = [(line.cell_len, None)]
        last = [self._hint(action, key) for action, key in offered[-1:]]
        room = width - sum(hint.cell_len for hint in last)
        for action, key in offered[:-1]:
            hint = self._hint(action, key)
            if line.cell_len + hint.cell_len + 2 > room:
                break
            line.append_text(hint).append("  ")
            self._hits.append((line.cell_len, action))
        for hint in last:
            line.append_text(hint)
            self._hits.append((line.cell_len, offered[-1][0]))
        return line

    def _hint(self, action: Action, key: str) -> Text:
        style = self.get_component_rich_style("footer--key", partial=True)
        return Text.assemble((key_label(key, ascii_only=self._glyphs.ascii), style), " ", action.label)

    def _usable(self, action: Action) -> bool:
        return cast("Console", self.app).offers(action)

    def on_click(self, event: events.Click) -> None:
        """Run the action that was clicked, unless its key has another meaning by now because the screen changed."""
        at = event.get_content_offset(self)
        action = next((action for end, action in self._hits if at is not None and at.x < end), None)
        keys = next((keys for live, keys in live_actions(self.app.screen) if live == action), None)
        if keys is not None:
            self.app.simulate_key(keys[0])
