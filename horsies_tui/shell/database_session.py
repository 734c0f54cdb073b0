"""The session with one database: its link and its recovery feed, running; changes are posted as messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from horsies_tui.feed.link import Link
from horsies_tui.feed.report import RecoveryFeed
from horsies_tui.health.watch import WatchFeed

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.config.contexts import DatabaseChoice
    from horsies.operations.actor import Actor
    from horsies_tui.feed.clock import Clock
    from horsies_tui.feed.report import RecoverySnapshot
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.options import ConsoleOptions


class DatabaseSession:
    """Stopped and replaced by another one when the operator switches to another database."""

    @dataclass
    class LinkChanged(Message, bubble=False):
        """The link's status has changed."""

        session: DatabaseSession
        status: LinkStatus

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, DatabaseSession.LinkChanged) and message.session is self.session

    @dataclass
    class RecoveryRead(Message, bubble=False):
        """A recovery report was read."""

        session: DatabaseSession
        snapshot: RecoverySnapshot

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, DatabaseSession.RecoveryRead) and message.session is self.session

    def __init__(
        self,
        choice: DatabaseChoice,
        options: ConsoleOptions,
        *,
        clock: Clock,
        actor: Actor,
        post: Callable[[Message], object],
    ) -> None:
        self.choice = choice
        self.link = Link(choice, read_only=options.read_only, actor=actor, clock=clock, poll_s=options.refresh_s)
        self.recovery = RecoveryFeed(self.link, self._post_recovery)
        self.watch = WatchFeed(self.link, lambda _: None)
        """For the terminal's title and bell, which look at its snapshot every second."""
        self._watches = options.config.title or options.config.bell
        self.left = False
        """Set when the database is left; later messages are ignored."""
        self._post = post
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.link.on_status(self._tell_status)
        self._running = asyncio.create_task(self.link.run(), name="link")
        self.recovery.start()
        if self._watches:
            self.watch.start()

    @property
    def is_open(self) -> bool:
        """Whether it was started; it may have no connection."""
        return self._running is not None

    def refresh(self) -> None:
        """Try to connect now, and read again what is shown on every screen."""
        self.link.retry_now()
        self.recovery.refresh()
        self.watch.refresh()

    async def stop(self) -> None:
        self.left = True
        self.recovery.stop()
        self.watch.stop()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    # By message: an error while drawing must end the application, not the link that called.

    def _tell_status(self, status: LinkStatus) -> None:
        if not self.left:
            self._post(self.LinkChanged(self, status))

    def _post_recovery(self, snapshot: RecoverySnapshot) -> None:
        if not self.left:
            self._post(self.RecoveryRead(self, snapshot))
