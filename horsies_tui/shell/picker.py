"""The list of the databases in the config file, with the state of each; shown on request and without a connection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Vertical
from textual.message import Message

from horsies_tui.actions import Scope, bindings
from horsies_tui.health.clusters import ClusterReads, ClusterState
from horsies_tui.shell.cluster_rows import CLUSTER_COLUMNS, about
from horsies_tui.widgets.number_table import NumberTable
from horsies_tui.widgets.plain import Lines, entitle
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from horsies.config.contexts import Context, DatabaseChoice
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.settings import ConsoleOptions

_NO_CONTEXTS: Final = (
    "{path} names no databases. With",
    "",
    "    [contexts.staging]",
    '    url = "postgresql://user@host/database"',
    "",
    "in it, they are listed here; `horsies db status` shows which database is used without it, and why.",
)
_WAYS: Final = {
    False: "enter open · ctrl+r refresh · esc back",
    True: "enter open · ctrl+r retry now · q quit",
}


class Picker(Sheet["Context"], inherit_bindings=False):
    """A sheet that returns the chosen context. If `forced`, no screen is behind it, and only a choice or `q` closes it.

    `only` names the contexts to list; the sheet is then the first page and fills the screen.
    """

    BINDINGS = bindings(Scope.PICKER)
    AUTO_FOCUS = "RowTable"

    DEFAULT_CSS = """
    Picker {
        & > #sheet { max-width: 160; }
        &.-page > #sheet { width: 100%; max-width: 100%; height: 100%; max-height: 100%; }
        & #why { color: $text-error; height: auto; display: none; }
        & #why.-said { display: block; }
        & #help, & #about { color: $text-muted; height: auto; margin-top: 1; }
        & RowTable { max-height: 60vh; margin-top: 1; background: $surface; }
    }
    """

    @dataclass
    class Read(Message):
        """Some of the databases were read."""

        states: tuple[ClusterState, ...]

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Picker.Read)

    def __init__(self, options: ConsoleOptions, choice: DatabaseChoice, glyphs: Glyphs, *, forced: bool) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._config = config = options.config
        self._choice = choice
        self.forced = forced
        self._is_page = bool(options.clusters)
        self._why: tuple[str, ...] = ()
        contexts: list[Context] = [config.contexts[name] for name in options.clusters] or [*config.contexts.values()]
        self._reads = ClusterReads(contexts, self._publish, targets=options.settings.targets)
        self.set_class(self._is_page, "-page")

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet") as sheet:
            title = "No connection" if self.forced and not self._is_page else "Databases"
            entitle(sheet, self._glyphs, title, _WAYS[self.forced])
            if not self._is_page:
                yield Lines(self._glyphs, self._choice.reason, id="current")
            yield Lines(self._glyphs, id="why")
            if self._reads.states:
                yield NumberTable[ClusterState](CLUSTER_COLUMNS, glyphs=self._glyphs)
                yield Lines(self._glyphs, id="about")
            else:
                yield Lines(self._glyphs, *(line.format(path=self._config.path) for line in _NO_CONTEXTS), id="help")

    def on_mount(self) -> None:
        states, here = self._reads.states, self._choice.context
        for table in self.query(NumberTable):
            table.styles.height = len(states) + 1
            self._draw(states)
            if here is not None and not self.forced:
                table.move_to(next((at for at, state in enumerate(states) if state.id == here.name), 0))
        self._reads.start()

    def on_unmount(self) -> None:
        self._reads.stop()

    def show(self, status: LinkStatus, now: datetime) -> None:
        """Show the status of the current database, if it is not connected."""
        up = status.is_up or self._is_page
        why = () if up else tuple(filter(None, (status.words(now), *status.detail.splitlines())))
        for line in self.query("#why").results(Lines):  # none before the sheet is composed; the next call shows it
            if why != self._why:
                self._why = why
                line.set_class(bool(why), "-said").show(*why)

    def read_again(self) -> None:
        self._reads.start()

    def _publish(self, states: tuple[ClusterState, ...]) -> None:
        self.post_message(self.Read(states))

    @on(Read)
    def _show_states(self, message: Read) -> None:
        message.stop()
        self._draw(message.states)

    def _draw(self, states: tuple[ClusterState, ...]) -> None:
        for table in self.query(NumberTable):
            # The rows show no ages, so they are not redrawn every second.
            table.show(states, now=datetime.now(UTC), empty="")
            self._say_about(table)

    @on(RowTable.CursorMoved)
    def _cursor_moved(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        self._say_about(message.table)

    def _say_about(self, table: RowTable[ClusterState]) -> None:
        state = table.cursor_row
        for line in self.query("#about").results(Lines):
            line.show(*(() if state is None else about(state)))

    @on(NumberTable.NumberOpened)
    def take(self, message: NumberTable.NumberOpened) -> None:
        message.stop()
        self.dismiss(self._config.contexts[message.row_id])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self.forced and action == "close")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_quit(self) -> None:
        """Go back one level, or exit on the first one, as `q` does on every screen."""
        if self.forced:
            self.app.exit(0)
        else:
            self.dismiss(None)
