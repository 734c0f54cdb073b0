"""The databases of the config file: to switch to another one, and shown when there is no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual import on
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from horsies_tui.actions import Scope, bindings
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from datetime import datetime

    from textual.app import ComposeResult

    from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs

_NO_CONTEXTS: Final = """\
{path} names no databases. With

    [contexts.staging]
    url = "postgresql://user@host/database"

in it, they are offered here; `horsies db status` says which database is used without that, and why."""


class Picker(Sheet["Context"], inherit_bindings=False):
    """Dismissed with the chosen context. `forced`: there is no screen to return to, so only a choice or `q` leaves."""

    BINDINGS = bindings(Scope.PICKER)

    DEFAULT_CSS = """
    Picker {
        & #why { color: $text-error; height: auto; display: none; }
        & #why.-said { display: block; }
        & #help { color: $text-muted; height: auto; margin-top: 1; }
        & OptionList { height: auto; max-height: 14; margin-top: 1; background: $surface; padding: 0; }
        & OptionList, & OptionList:focus { border: none; }
    }
    """

    def __init__(self, config: ConfigFile, choice: DatabaseChoice, glyphs: Glyphs, *, forced: bool) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._config = config
        self._choice = choice
        self.forced = forced
        self._why = ""

    def compose(self) -> ComposeResult:
        contexts = [self._option(context) for context in self._config.contexts.values()]
        with Vertical(id="sheet") as sheet:
            sheet.border_title = "No connection" if self.forced else "Databases"
            ways = "ctrl+r tries again now · q quits" if self.forced else "esc goes back"
            sheet.border_subtitle = self._glyphs.text(ways)
            yield Static(self._glyphs.text(self._choice.reason), id="current", markup=False)
            yield Static("", id="why", markup=False)
            if contexts:
                options = OptionList(*contexts)
                here = self._choice.context
                options.highlighted = 0 if here is None or self.forced else options.get_option_index(here.name)
                yield options
            else:
                yield Static(_NO_CONTEXTS.format(path=self._config.path), id="help", markup=False)

    def _option(self, context: Context) -> Option:
        marks = [mark for mark, on in (("production", context.production), ("read-only", context.read_only)) if on]
        words = f"{context.shown_name:<16} {context.url.label:<32} {' · '.join(marks)}"
        return Option(Text(self._glyphs.text(words)), id=context.name)

    def show(self, status: LinkStatus, now: datetime) -> None:
        """Show the status of the current database, if it is not connected."""
        why = "" if status.is_up else f"{status.words(now)}\n{status.detail}".rstrip()
        for line in self.query("#why").results(Static):  # none before the sheet is composed; the next second shows it
            if why != self._why:
                self._why = why
                line.set_class(bool(why), "-said").update(self._glyphs.text(why))

    @on(OptionList.OptionSelected)
    def take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._config.contexts[str(event.option_id)])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self.forced and action == "close")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_quit(self) -> None:
        """As everywhere: one level back, and exit if there is none."""
        if self.forced:
            self.app.exit(0)
        else:
            self.dismiss(None)

    def action_down(self) -> None:
        for options in self.query(OptionList):
            options.action_cursor_down()

    def action_up(self) -> None:
        for options in self.query(OptionList):
            options.action_cursor_up()
