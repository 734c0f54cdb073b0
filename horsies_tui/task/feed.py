"""The feed of one task's screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.operations.cluster import read_cluster
from horsies.operations.why import why_pending
from horsies.views import Ambiguous, TaskDetail, task_detail
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.pace import USUAL, Pace, Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.operations.why import Why
    from horsies.store.connect import Connection
    from horsies_tui.feed.link import Link

_BEATS_EVERY_S: Final = 5.0
"""Heartbeats send no notification, so the task is read this often."""
_SETTINGS_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class DetailSnapshot:
    """One task. All None and no error: the task does not exist, or (`loading`) has not been read yet."""

    text: str = ""
    """The requested id, or its beginning or end."""
    detail: TaskDetail | None = None
    ambiguous: Ambiguous | None = None
    why: Why | None = None
    """Only if the task is PENDING."""
    settings: RecoveryConfig | None = None
    """The thresholds of the newest worker, for the heartbeats."""
    loading: bool = True
    error: str | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Story:
    found: TaskDetail | Ambiguous | None
    why: Why | None
    settings: RecoveryConfig


class DetailFeed(Feed):
    """Publishes a snapshot on each change. Reads nothing until a task is requested."""

    NAME = "detail"

    def __init__(self, link: Link, publish: Callable[[DetailSnapshot], None], *, rhythm: Rhythm = USUAL) -> None:
        super().__init__(link)
        self.snapshot = DetailSnapshot()
        self._publish_to = publish
        self._pace = Pace(replace(rhythm, reconcile_s=min(rhythm.reconcile_s, _BEATS_EVERY_S)))
        self._text: str | None = None
        self._settings: RecoveryConfig | None = None
        self._settings_at = 0.0

    def ask(self, text: str) -> None:
        """Read this task from now on: an id, or its beginning or end."""
        self._text = text
        self._supersede()
        self._pace.renew()
        self._wake.set()
        self._publish(text=text, detail=None, ambiguous=None, why=None, loading=True)

    def refresh(self) -> None:
        """Read it again at once."""
        self._pace.renew()
        self._wake.set()

    def _on_dirty(self, channel: str, payload: str) -> None:
        if not channel:
            self._pace.renew()
            self._wake.set()
        elif self.snapshot.detail is not None and payload == self.snapshot.detail.row.id:
            self._pace.mark()
            self._wake.set()

    def _due_at(self) -> float | None:
        if self._text is None or (self._frozen and not self.snapshot.loading):
            return None
        return self._pace.due_at(told=self._link.listens)

    async def _step(self) -> None:
        text = self._text
        assert text is not None
        self._pace.begin(self._now())
        story = await self._read(lambda conn: self._tell(conn, text))
        if text != self._text:
            return
        self._pace.end(self._now(), done=story is not None)
        if story is None:
            self._publish()
            return
        found = story.found
        self._publish(
            detail=self._same(found) if isinstance(found, TaskDetail) else None,
            ambiguous=found if isinstance(found, Ambiguous) else None,
            why=story.why,
            settings=story.settings,
            loading=False,
        )

    async def _tell(self, conn: Connection, text: str) -> _Story:
        found = await task_detail(conn, text)
        waits = isinstance(found, TaskDetail) and found.row.status == "PENDING"
        why = await why_pending(conn, found.row.id) if isinstance(found, TaskDetail) and waits else None
        if self._settings is None or self._now() - self._settings_at > _SETTINGS_EVERY_S:
            async with conn.transaction(readonly=True):
                self._settings = (await read_cluster(conn)).settings
            self._settings_at = self._now()
        return _Story(found, why, self._settings)

    def _same(self, detail: TaskDetail) -> TaskDetail:
        """The known object if only the time of the read differs, so that nothing is drawn again."""
        known = self.snapshot.detail
        return known if known is not None and replace(detail, now=known.now) == known else detail

    def _publish(self, **changes: Any) -> None:
        snapshot = replace(self.snapshot, error=self._error, **changes)
        if snapshot != self.snapshot:
            self.snapshot = replace(snapshot, now=self._link.clock.now())
            self._publish_to(self.snapshot)
