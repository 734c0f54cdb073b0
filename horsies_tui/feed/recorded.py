"""The recorded parts of a feed's snapshot, and their way back in a replay. `horsies_tui/recording/` does both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Fields of a snapshot that answer one request. The first part of a feed is the one its screen cannot do without.

    `subject` is what was requested (a filter, an id): a replay that requests the same gets what was recorded for it.
    """

    name: str
    fields: tuple[str, ...]
    subject: tuple[str, ...] = ()
    ready: bool = True
    """Whether the fields are the answer to this request, and not still those of an earlier one."""
    what: str = "this screen"
    """Its name in a sentence: `this filter was not on screen while it was recorded`."""


class Recordable(Protocol):
    """A feed, as a recorder sees it."""

    NAME: ClassVar[str]

    @property
    def snapshot(self) -> Any: ...

    def parts(self) -> Iterable[SnapshotPart]: ...


class Tape(Protocol):
    """Records what the feeds that run have read."""

    def watch(self, feed: Recordable) -> None:
        """The feed has started."""

    def unwatch(self, feed: Recordable) -> None:
        """The feed has stopped: its screen is no longer shown."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A part of a recording at one moment: the values of its fields, or None; and what to say about it."""

    values: tuple[Any, ...] | None
    at: datetime | None = None
    note: str = ""


class Playback(Protocol):
    """A recording that is replayed."""

    def look(self, feed: str, part: SnapshotPart) -> Seen:
        """Return what the recording has of this part at the present moment of the replay."""

    def on_moved(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever the moment changes; returns a function that unsubscribes."""
