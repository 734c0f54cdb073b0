"""The state of the console's connection, its text in the status cell, and the features that the database lacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import HorsiesError
from horsies.domain.masking import mask
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema.state import SchemaKind, SchemaState

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from horsies.findings.blockers import Blocker
    from horsies.views.reader_session import Tables

_USUAL_CONNECT_S: Final = 3.0
_FINE: Final = (SchemaKind.CURRENT, SchemaKind.READ_ONLY, SchemaKind.NEWER)
_TO_UPGRADE: Final = (SchemaKind.UPSTREAM, SchemaKind.OLDER)


class LinkState(StrEnum):
    CONNECTING = "CONNECTING"
    """There has been no answer and no failure yet."""
    LIVE = "LIVE"
    """The server sends notifications of changes."""
    POLL = "POLL"
    """The server sends no notifications, as behind some poolers; the console polls every few seconds."""
    SLOW = "SLOW"
    """The last answer was slow or did not arrive in time, but the data are not outdated yet."""
    OLD = "OLD"
    """Some of the shown data are outdated."""
    BLOCKED = "BLOCKED"
    """Some of the shown data are outdated because of another session's lock."""
    FAILED = "FAILED"
    """Connected, but a screen's data could not be read."""
    STALE = "STALE"
    """The connection is lost; the status shows the age of the data."""
    DOWN = "DOWN"
    """There has been no connection yet."""
    REPLAY = "REPLAY"
    """A recording is replayed instead of a database."""


@dataclass(frozen=True, slots=True)
class FeedFailure:
    """A feed whose data are outdated although the database is connected, because its reads fail or are late."""

    name: str
    """The name of the view that the feed serves."""
    reason: str
    """The cause and the place in the code that reported it, on one line."""
    since: datetime
    """The time of the data that the view still shows; if it has shown none, the time of the failure."""
    late: bool = False
    """True if there was no answer in time; otherwise the database refused the read, or the console has a bug."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The link's status at one moment. Times are the database's, as in `Clock.now()`."""

    state: LinkState
    detail: str
    """Message for the operator with the problem and the remedy; empty without a problem."""
    since: datetime
    """Time at which this state began."""
    last_data_at: datetime | None
    next_try_at: datetime | None
    """Time of the next retry; None if none is scheduled, or while one is running."""
    poll_s: float
    latency_s: float | None
    """Duration of the last read, including one that was not answered."""
    clock_offset_s: float
    """Seconds by which the database's clock is ahead of this machine's."""
    database_label: str
    context_name: str | None
    context_colour: str | None
    production: bool
    read_only: bool
    actor: str
    server_version: str | None
    lacks: tuple[str, ...]
    """Sentences about features that this database lacks; the last one names the command that adds them."""
    no_writes: str = ""
    """Reason why the database refuses writes of this role; empty if it does not."""
    failing: tuple[FeedFailure, ...] = ()
    """Feeds that cannot read their data, and retry."""
    calm: LinkState = LinkState.LIVE
    """The state for a screen whose data are current."""
    blockers: tuple[Blocker, ...] = ()
    """Known sessions whose locks delay the reads."""

    @property
    def is_up(self) -> bool:
        """True if the database can be queried now, or a recording replaces it."""
        return self.state not in (LinkState.CONNECTING, LinkState.STALE, LinkState.DOWN)

    @property
    def outage(self) -> tuple[str, ...]:
        """Return the reasons why the shown data are outdated, one per line."""
        if not self.is_up:
            return (self.detail,) if self.detail else ()
        return tuple(
            # Feeds that are late all have the same reason.
            dict.fromkeys(
                failure.reason if failure.late else f"{failure.name}: {failure.reason}" for failure in self.failing
            )
        )

    def old_since(self, *feeds: str) -> datetime | None:
        """Return the time of the oldest outdated data of these feeds; None if all are current."""
        if not self.is_up:
            return self.last_data_at
        return min((failure.since for failure in self.failing if failure.name in feeds), default=None)

    def on_screen(self, feeds: Collection[str | None]) -> LinkStatus:
        """Return the status of a screen that shows these feeds, without failures of other feeds."""
        concerning = [failure for failure in self.failing if failure.name in feeds or not failure.late]
        failing = tuple(sorted(concerning, key=lambda failure: failure.name not in feeds))
        calm = self.state in (LinkState.OLD, LinkState.BLOCKED) and not failing
        return replace(self, failing=failing, state=self.calm if calm else self.state)

    def next_try_in_s(self, now: datetime) -> float | None:
        return None if self.next_try_at is None else max((self.next_try_at - now).total_seconds(), 0.0)

    def waiting_s(self, now: datetime) -> float:
        """Return how long this state has lasted."""
        return max((now - self.since).total_seconds(), 0.0)

    def words(self, now: datetime) -> str:
        """Return the text of the status cell, like `LIVE 0.4s` or `STALE 38s, retry in 4s`, followed by READ-ONLY."""
        words = self._state_words(now)
        return f"{words} READ-ONLY" if self.read_only else words

    def _state_words(self, now: datetime) -> str:
        match self.state:
            case LinkState.LIVE:
                return f"LIVE {_span(self._age(now))}"
            case LinkState.POLL:
                return f"POLL {_span(self.poll_s)}"
            case LinkState.SLOW:
                return f"SLOW {_span(self.latency_s or 0.0)}"
            case LinkState.OLD:
                return f"OLD {_span(self._oldest_s(now))}"
            case LinkState.BLOCKED:
                return f"BLOCKED {_span(self._oldest_s(now))} by {self.blockers[0].name}"
            case LinkState.STALE:
                return f"STALE {_span(self._age(now))}, {self._retry_words(now)}"
            case LinkState.DOWN:
                return f"DOWN, {self._retry_words(now)}"
            case LinkState.CONNECTING:
                return f"CONNECTING {self.waiting_s(now):.0f}s"
            case LinkState.REPLAY:
                return f"REPLAY {self.detail}"
            case LinkState.FAILED:
                failure = next(failure for failure in self.failing if not failure.late)
                return f"{failure.name} FAILED {_span(max((now - failure.since).total_seconds(), 0.0))}"

    def _oldest_s(self, now: datetime) -> float:
        """Return the age of the oldest outdated data."""
        return max(((now - failure.since).total_seconds() for failure in self.failing), default=0.0)

    def _age(self, now: datetime) -> float:
        return max((now - (self.last_data_at or self.since)).total_seconds(), 0.0)

    def _retry_words(self, now: datetime) -> str:
        left = self.next_try_in_s(now)
        return "connecting" if left is None else f"retry in {left:.0f}s"


class LinkError(HorsiesError):
    """A failed read or operation; str() is a sentence for the operator."""


class LinkDown(LinkError):  # noqa: N818 - a state of the connection, not a mistake in code
    """The error of a read without a connection."""

    def __init__(self, status: LinkStatus) -> None:
        super().__init__(status.detail or "not connected to the database")
        self.status = status


class SlowRead(LinkError):  # noqa: N818
    """The error of a read that was not answered in time."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(f"no answer within {_span(waited_s)}")
        self.waited_s = waited_s


class StatementRefused(LinkError):  # noqa: N818
    """The database refused the statement."""


def sentence(error: BaseException) -> str:
    """Return the cause, and the remedy if it is known, on one line."""
    if isinstance(error, HorsiesError):
        return f"{error.message}; {error.help_text}" if error.help_text else error.message
    return (str(error) or type(error).__name__).splitlines()[0]


def sentence_with_place(error: BaseException) -> str:
    """Return the cause and the remedy with the innermost line of this project in the traceback, for bug reports."""
    cause = error.__cause__ if isinstance(error, StatementRefused) and error.__cause__ is not None else error
    what = sentence(error) if isinstance(error, CONNECTION_ERRORS) else f"{type(error).__name__}: {sentence(error)}"
    place = place_of(cause)
    return mask(f"{what} ({place})" if place else what)


def place_of(error: BaseException) -> str:
    """Return the innermost line of this project in the traceback; empty if there is none."""
    for frame in reversed(extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        start = max((at for at, part in enumerate(parts) if part in ("horsies", "horsies_tui")), default=None)
        if start is not None:
            return f"{'/'.join(parts[start:])}:{frame.lineno}"
    return ""


def _span(seconds: float) -> str:
    """Format seconds with one decimal below ten (`0.4s`, but `3s`), then as whole seconds and minutes."""
    if seconds < 10:
        text = f"{seconds:.1f}"
        return f"{text.removesuffix('.0')}s" if seconds >= 1 else f"{text}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def not_connected(status: LinkStatus, now: datetime) -> str:
    """Return the message that a database is not connected, with the reason. The status cell counts the seconds."""
    if status.detail:
        return f"Not connected to {status.database_label}.\n{status.detail}"
    if status.waiting_s(now) < _USUAL_CONNECT_S:
        return f"Connecting to {status.database_label}…"
    return (
        f"No answer yet from {status.database_label}: a firewall, a wrong host, or a server under load.\n"
        "The console keeps trying; @ opens another database."
    )


def lacks(state: SchemaState, here: Tables) -> tuple[str, ...]:
    """Return sentences about missing features, the last one with the command that adds them; or nothing."""
    if state.kind in _FINE:
        return ()
    if state.kind not in _TO_UPGRADE:
        return (state.detail,)
    missing = []
    if not here.actions:
        missing.append("no audit log of operator actions, and no undo")
    if not here.queue_state:
        missing.append("queues cannot be paused")
    if not here.worker_orders:
        missing.append("workers cannot be drained")
    if state.kind is SchemaKind.UPSTREAM:
        missing.append("no indexes to page by: large tables are slow")
    return (*missing, state.detail)
