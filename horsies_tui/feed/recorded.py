"""Interfaces for recording and replaying the snapshots of feeds, which `horsies_tui/recording/` implements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Fields of a snapshot that answer one request. A screen cannot be shown without the first part of its feed.

    `subject` is the request (a filter, an id). A replay finds the recorded data of a request by it.
    """

    name: str
    fields: tuple[str, ...]
    subject: tuple[str, ...] = ()
    ready: bool = True
    """False while the fields are still those of an earlier request."""
    what: str = "this screen"
    """The name of the part in messages: `this filter was not on screen while it was recorded`."""


class Recordable(Protocol):
    """The interface of a feed that can be recorded."""

    NAME: ClassVar[str]

    @property
    def snapshot(self) -> Any: ...

    def parts(self) -> Iterable[SnapshotPart]: ...


class Tape(Protocol):
    """The interface of a recorder, which records the data of running feeds."""

    def watch(self, feed: Recordable) -> None:
        """Record this feed, which has started."""

    def unwatch(self, feed: Recordable) -> None:
        """Stop recording this feed, whose screen is no longer shown."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A recorded part at one moment: the values of its fields, or None, and a message about it."""

    values: tuple[Any, ...] | None
    at: datetime | None = None
    note: str = ""


class Playback(Protocol):
    """The interface of a recording that is replayed."""

    def look(self, feed: str, part: SnapshotPart) -> Seen:
        """Return the recorded data of this part at the replay's moment."""

    def on_moved(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to changes of the replay's moment. Return a function that unsubscribes."""
