"""The session with one database: runs its link and its recovery feed, and posts their changes as messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.message import Message

from horsies_tui.feed.report import RecoveryFeed
from horsies_tui.health.watch import WatchFeed
from horsies_tui.shell.views import import_report, import_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.config.contexts import DatabaseChoice
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.report import RecoverySnapshot
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.recording.recorder import Recorder

_FIRST_ROWS_TIMEOUT_S: Final = 0.3
"""How long the first recovery report waits until the view shows its first rows."""


class DatabaseSession:
    """A session that is stopped and replaced when the operator switches to another database."""

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
        self, choice: DatabaseChoice, link: DatabaseLink, *, watches: bool, post: Callable[[Message], object]
    ) -> None:
        """Create a session. With `watches`, alerts are read on every screen, for the terminal's title or bell."""
        self.choice = choice
        self.link = link
        self.recovery = RecoveryFeed(self.link, self._post_recovery)
        self.watch = WatchFeed(self.link, lambda _: None)
        """Reads the alerts for the terminal's title and bell, which are updated from its snapshot every second."""
        self._watches = watches
        self.left = False
        """Set when the database is left; later messages are ignored."""
        self.recorder: Recorder | None = None
        self._post = post
        self._running: list[asyncio.Task[None]] = []
        self._shown = asyncio.Event()

    def start(self) -> None:
        self.link.on_status(self._tell_status)
        self._running = [asyncio.create_task(self.link.run(), name="link")]
        if self.recorder is not None:
            self.link.tape = self.recorder
            self._running.append(asyncio.create_task(self.recorder.run(self.link), name="recorder"))
        self._running.append(asyncio.create_task(self._look_on(), name="report"))

    def first_rows(self) -> None:
        """Read the recovery report, now that the view shows rows. Its imports take as long as the start until here."""
        self._shown.set()

    async def _look_on(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_ROWS_TIMEOUT_S):
                await self._shown.wait()
        await import_report()
        self.recovery.start()
        if self._watches:
            self.watch.start()
        await import_rest()

    @property
    def is_open(self) -> bool:
        """True once the session has started, even without a connection."""
        return bool(self._running)

    def refresh(self) -> None:
        """Try to connect now, and read the data of every screen again."""
        self.link.retry_now()
        self.recovery.refresh()
        self.watch.refresh()

    async def stop(self) -> None:
        self.left = True
        self.recovery.stop()
        self.watch.stop()
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    # Posted as a message, so that an error while drawing ends the application instead of the link.

    def _tell_status(self, status: LinkStatus) -> None:
        if not self.left:
            self._post(self.LinkChanged(self, status))

    def _post_recovery(self, snapshot: RecoverySnapshot) -> None:
        if not self.left:
            self._post(self.RecoveryRead(self, snapshot))
