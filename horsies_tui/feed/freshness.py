"""Tracks the age of the data on the screen, and finds the session whose lock delays the reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from horsies.store.connect import with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.views.reader_session import replay
from horsies_tui.feed.pace import GRACE_S
from horsies_tui.feed.status import FeedFailure, LinkError, sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from horsies.findings.blockers import Blocker
    from horsies.store.connect import Connection
    from horsies.views.reader_session import Replay

_LOOK_EVERY_S: Final = 0.5
_ASK_EVERY_S: Final = 2.0
_FOLLOWED_EVERY_S: Final = 1.0
"""The same on a standby, of which only the server knows how old its data are."""
_ANSWER_WITHIN_S: Final = 3.0
"""A server that is frozen does not answer this question either."""


class DatedFeed(Protocol):
    """A feed that knows the time of its data."""

    NAME: ClassVar[str]

    @property
    def late_since(self) -> datetime | None:
        """Return the time of the oldest outdated data on the screen; None if all data are current."""

    def refresh(self) -> None:
        """Read everything again at once."""

    def distrust(self) -> None:
        """Treat all data as outdated until they are read again, because they came from a standby that lagged."""


class StandbyLag:
    """The lag of a standby: the time of its data, and the reason."""

    def __init__(self) -> None:
        self._received = 0
        self.since: datetime | None = None
        """Time of the standby's data; None if it follows its primary."""
        self.why = ""

    def learn(self, here: Replay | None) -> bool:
        """Update the lag and return whether the standby has just caught up.

        It lags if it has not replayed what it had received at the previous call.
        """
        lagged, lacks = self.since is not None, self._received
        self.since, self._received = None, (here and here.received) or 0
        if here is None or (here.receives and (here.replayed or 0) >= lacks):
            return lagged
        newest = here.newest or here.now
        if (here.now - newest).total_seconds() > GRACE_S:
            self.since = newest
            self.why = (
                "the standby lags: its replay is paused until SELECT pg_wal_replay_resume()"
                if here.paused
                else "the standby lags: it replays later than it receives"
                if here.receives
                else "the standby lags: it receives nothing from its primary"
            )
        return lagged and self.since is None


class Freshness:
    """The running feeds of one link, and those of them that fail or are late.

    A read that waits for a lock occupies its connection, so the cause is queried on a second one, which is opened when
    it is needed and kept as long as a feed is late.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], changed: Callable[[], None]) -> None:
        self._connect = connect
        self._changed = changed
        self._feeds: dict[DatedFeed, None] = {}
        self._failing: dict[object, FeedFailure] = {}
        self._connection: Connection | None = None
        self._asking: asyncio.Task[None] | None = None
        self._ask_at = 0.0
        self._no_answer = ""
        """Why the server could not be asked; empty if it could."""
        self._ended = False
        """The lock has ended that held up the reads, and they are made again."""
        self.follows = False
        """The server is a standby."""
        self._lag = StandbyLag()
        self.failing: tuple[FeedFailure, ...] = ()
        self.blockers: tuple[Blocker, ...] = ()

    def attend(self, feed: DatedFeed) -> None:
        self._feeds[feed] = None

    def leave(self, feed: DatedFeed) -> None:
        self._feeds.pop(feed, None)
        self.report(feed, None)

    def report(self, source: object, failure: FeedFailure | None) -> None:
        """The failure of a feed or of the view that draws it; None: it is over."""
        if failure is None:
            self._failing.pop(source, None)
        else:
            self._failing[source] = failure
        self._look()

    async def run(self) -> None:
        """Look every half second: data become late without an event."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._look()

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        self._hang_up()
        self.blockers, self._no_answer, self._ended = (), "", False
        self._lag.learn(None)

    def ask_why(self) -> None:
        """Ask the server whose lock is in the way, unless the last answer is recent or awaited."""
        loop = asyncio.get_running_loop()
        if self._asking is None and loop.time() >= self._ask_at:
            self._ask_at = loop.time() + (_FOLLOWED_EVERY_S if self.follows else _ASK_EVERY_S)
            self._asking = loop.create_task(self._ask(), name="blockers")

    def _look(self) -> None:
        lag = self._lag.since
        late = {feed: since for feed in self._feeds if (since := feed.late_since or lag) is not None}
        if not late:
            self._lag.why = ""  # until then, what is shown was read while the standby lagged
        if late or self.follows:
            self.ask_why()
        elif self._asking is None and self._connection is not None:
            self.close()
        why = self._why()
        self.failing = (
            *self._failing.values(),
            *(
                FeedFailure(feed.NAME, why, since, late=True)
                for feed, since in late.items()
                if feed not in self._failing
            ),
        )
        self._changed()

    def _why(self) -> str:
        if self.blockers:
            return self.blockers[0].cause
        if self._ended:
            return "the lock has ended; the figures are being read again"
        slow = "no answer in time; no lock is in the way, so the server or the network is slow"
        return self._lag.why or self._no_answer or slow

    async def _ask(self) -> None:
        from horsies.findings.blockers import blockers

        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connect()
                async with with_settings(self._connection):
                    found = await blockers(self._connection)
                    here = await replay(self._connection) if self.follows else None
                self._ended, begins = bool(self.blockers) and not found, bool(found) and not self.blockers
                self.blockers, self._no_answer = found, ""
                if self._ended or begins:
                    self._read_again(all_feeds=begins)
                if self._lag.learn(here):
                    for feed in self._feeds:
                        feed.distrust()
        except TimeoutError:
            self._failed_to_ask("the server does not answer: it is frozen or overloaded, or the network is down")
        except (LinkError, *CONNECTION_ERRORS) as error:
            self._failed_to_ask(f"no answer in time, cause unknown: {sentence(error)}")
        finally:
            self._asking = None
        self._look()

    def _read_again(self, *, all_feeds: bool) -> None:
        """Read at once what a lock has held up, and when a lock begins, what it may hold up from now on.

        A locked table sends no notifications, so a feed that waits for one would look current until its next poll.
        """
        for feed in self._feeds:
            if all_feeds or feed.late_since is not None:
                feed.refresh()

    def _failed_to_ask(self, why: str) -> None:
        self.blockers, self._no_answer = (), why
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
