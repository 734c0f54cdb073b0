"""The link of a replay. It has no database: it reads nothing and refuses every verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from horsies.config.contexts import DatabaseChoice
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.status import FeedFailure, LinkError, LinkState
from horsies_tui.recording.player import words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.operations.target import Actor
    from horsies.store.connect import Connection
    from horsies_tui.recording.player import Player

T = TypeVar("T")

NO_WRITES: Final = "this is a recording: nothing can be changed"
_NOTHING_READ: Final = "this is a recording: it has only what was on screen"


class ReplayLink(DatabaseLink):
    def __init__(self, player: Player, actor: Actor) -> None:
        super().__init__(DatabaseChoice(None, "a recording"), read_only=True, actor=actor, clock=player)
        self.playback = self._player = player
        self._own_failures = 0
        """Number of failures at the end of the status that are this console's, not recorded ones."""
        self._follow()

    async def run(self) -> None:
        end = self._player.on_moved(self._follow)
        try:
            await self._player.run()
        finally:
            end()

    async def read(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        raise LinkError(_NOTHING_READ)

    async def act(self, do: Callable[[Connection], Awaitable[T]]) -> T:
        raise LinkError(NO_WRITES)

    def _follow(self) -> None:
        """Take the database and its failures from the recording, and the state from the replay."""
        then = self._player.status()
        troubles = [FeedFailure("connection", then.detail, then.since)] if not then.is_up and then.detail else []
        if gap := self._player.gap:
            troubles.append(FeedFailure("recording", gap, then.since))
        self._change(
            detail=words(self._player),
            database_label=f"{self._player.now():%Y-%m-%d} {then.database_label}",
            context_name=then.context_name,
            context_colour=then.context_colour,
            production=then.production,
            server_version=then.server_version,
            last_data_at=self._player.begins,
            no_writes=NO_WRITES,
            failing=(*then.failing, *troubles, *self.freshness.failing),
            blockers=then.blockers,
        )
        self._own_failures = len(self.freshness.failing)

    def _freshness_changed(self) -> None:
        """Update this link's own failures and keep the recorded ones, which may take decoding to read again."""
        recorded = self._status.failing[: len(self._status.failing) - self._own_failures]
        self._own_failures = len(self.freshness.failing)
        self._change(failing=(*recorded, *self.freshness.failing))

    def _state(self) -> LinkState:
        return LinkState.REPLAY
