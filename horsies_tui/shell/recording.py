"""The consoles that record and replay: how they differ from the usual console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.binding import Binding

from horsies.display.payload import Masks
from horsies_tui.actions import Scope, bindings
from horsies_tui.look.units import time_of_day, zone_of
from horsies_tui.recording.file import RecordingReader, RecordingWriter
from horsies_tui.recording.hiding import Hiding
from horsies_tui.recording.link import ReplayLink
from horsies_tui.recording.player import Player
from horsies_tui.recording.recorder import Recorder
from horsies_tui.shell.app import ConsoleApp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from textual.binding import BindingType

    from horsies.config.contexts import DatabaseChoice
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.settings import ConsoleOptions

_SIGN: Final = "REC"


def console_of(options: ConsoleOptions, keys: Mapping[str, str]) -> ConsoleApp:
    """Return a console that records or replays. Raises RecordingError if the file cannot be written or replayed."""
    if options.record is not None:
        return RecordingConsole(options, RecordingWriter(options.record), keys=keys)
    assert options.replay is not None
    return ReplayConsole(options, Player(RecordingReader(options.replay), options.speed), keys=keys)


class RecordingConsole(ConsoleApp):
    """The console that records. After a switch to another database it continues in the same file."""

    def __init__(
        self, options: ConsoleOptions, writer: RecordingWriter, *, keys: Mapping[str, str] | None = None
    ) -> None:
        masks = Masks(frozenset(options.config.mask_arguments))
        self._recorder = Recorder(writer, Hiding(masks), self._recording_ended)
        super().__init__(options, keys=keys)
        self.header.sign = _SIGN

    async def on_mount(self) -> None:
        self.say(f"recording into {self.options.record}")

    async def on_unmount(self) -> None:
        await self._session.stop()
        self._recorder.close()

    def _use(self, choice: DatabaseChoice) -> None:
        super()._use(choice)
        self._session.recorder = self._recorder

    def _recording_ended(self, why: str) -> None:
        self.header.sign = ""
        self.say_error(why)


def _of_a_replay() -> list[BindingType]:
    """Return the bindings of a replay, with pause instead of freezing one view."""
    usual = (each for each in bindings(Scope.APP) if not isinstance(each, Binding) or each.id != "app.freeze")
    return [*usual, *bindings(Scope.REPLAY)]


class ReplayConsole(ConsoleApp, inherit_bindings=False):
    """The console that replays. All times are those of the recording; verbs are refused, as the link is read-only."""

    BINDINGS = _of_a_replay()

    def __init__(self, options: ConsoleOptions, player: Player, *, keys: Mapping[str, str] | None = None) -> None:
        self._player = player
        self._told_end = False
        super().__init__(options, keys=keys, clock=player)

    async def on_mount(self) -> None:
        self._player.on_moved(lambda: self.call_later(self._moved))
        self._tell(self._player.damage or "a recording")

    def _link_to(self, choice: DatabaseChoice) -> DatabaseLink:
        return ReplayLink(self._player, self._actor)

    def _note_outage(self, status: LinkStatus) -> None:
        """Do not list gaps in the recording as errors; the line above the view reports them."""

    def _old_since(self, status: LinkStatus) -> datetime | None:
        """Return None: a replay shows the data of the moment in the header, so they are never old."""
        return None

    def _moved(self) -> None:
        """Draw the view again after the replay has moved, because its ages follow the recording's clock."""
        self._draw_frame()
        if self._player.at_end is not self._told_end:
            self._told_end = self._player.at_end
            if self._told_end:
                self._tell(self._player.damage or "the recording ends here")

    def _tell(self, what: str) -> None:
        zone, player = zone_of(utc=self.utc), self._player
        begins, ends = (time_of_day(moment, zone) for moment in (player.begins, player.ends))
        text = f"{what}: {begins} to {ends} of {player.begins:%Y-%m-%d}"
        if player.damage:
            self.say_error(text)
        else:
            self.say(text)

    def action_pause(self) -> None:
        self._player.pause(not self._player.paused and not self._player.at_end)

    def action_seek(self, seconds: int) -> None:
        self._player.seek(seconds)

    def action_speed(self, steps: int) -> None:
        self._player.faster(steps)

    def action_contexts(self) -> None:
        self.say_error("not available in a recording; start horsies tui without --replay")
