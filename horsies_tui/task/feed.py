"""The feed of one task's screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.findings.cluster import read_cluster
from horsies.findings.why import why_pending
from horsies.views import Ambiguous, TaskDetail, task_detail
from horsies_tui.feed.loop import FeedRead, StoryFeed
from horsies_tui.feed.pace import USUAL, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.findings.why import Why
    from horsies.store.connect import Connection
    from horsies_tui.feed.link import DatabaseLink

_BEATS_EVERY_S: Final = 5.0
"""Interval between two reads, because heartbeats send no notification."""
_PROGRESS_EVERY_S: Final = 1.0
_SETTINGS_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class DetailSnapshot:
    """One task. Without a task and an error, it does not exist, or has not been read yet if `loading`."""

    text: str = ""
    """The requested id, or its beginning or end."""
    detail: TaskDetail | None = None
    ambiguous: Ambiguous | None = None
    why: Why | None = None
    """The reason why the task waits; only if it is PENDING."""
    settings: RecoveryConfig | None = None
    """Recovery settings of the newest worker, with the thresholds of the heartbeats."""
    loading: bool = True
    error: str | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Story:
    found: TaskDetail | Ambiguous | None
    why: Why | None
    settings: RecoveryConfig


class DetailFeed(StoryFeed[DetailSnapshot]):
    """The feed. It publishes a snapshot on each change."""

    NAME = "detail"

    def __init__(
        self,
        link: DatabaseLink,
        publish: Callable[[DetailSnapshot], None],
        *,
        exact: bool = False,
        rhythm: Rhythm = USUAL,
    ) -> None:
        """Create a feed; `exact` if only complete ids are requested."""
        super().__init__(link, publish, DetailSnapshot())
        self._exact = exact
        self._settings: RecoveryConfig | None = None
        self._settings_at = 0.0
        self._pace = ReadPace(replace(rhythm, reconcile_s=min(rhythm.reconcile_s, _BEATS_EVERY_S)))
        self._reads = (
            FeedRead(
                "task",
                self._query(lambda: self._text, self._story, self._put),
                self._pace,
                on=self._is_about,
                wanted=lambda: bool(self._text),
            ),
        )

    def ask(self, text: str) -> None:
        """Read the task with this id, or with this beginning or end of its id."""
        self._text = text
        self._supersede()
        self.refresh()
        self._publish(text=text, detail=None, ambiguous=None, why=None, loading=True)

    def parts(self) -> tuple[SnapshotPart, ...]:
        now, detail = self.snapshot, self.snapshot.detail
        if not self._text:
            return ()
        # A task requested by a part of its id is recorded under its complete id, because lists open it by that.
        known = detail.row.id if detail is not None and now.text == self._text and self._link.playback is None else ""
        fields = ("detail", "ambiguous", "why", "settings")
        return (SnapshotPart("task", fields, (known or self._text,), not now.loading, "this task"),)

    def _is_about(self, _channel: str, payload: str) -> bool:
        return self.snapshot.detail is not None and payload == self.snapshot.detail.row.id

    async def _story(self, conn: Connection, text: str) -> _Story:
        found = await task_detail(conn, text, exact=self._exact)
        waits = isinstance(found, TaskDetail) and found.row.status in ("PENDING", "CLAIMED")
        why = await why_pending(conn, found.row.id) if isinstance(found, TaskDetail) and waits else None
        if self._settings is None or self._now() - self._settings_at > _SETTINGS_EVERY_S:
            async with conn.transaction(readonly=True):
                self._settings = (await read_cluster(conn)).settings
            self._settings_at = self._now()
        return _Story(found, why, self._settings)

    def _put(self, story: _Story) -> dict[str, Any]:
        found = story.found
        reports = isinstance(found, TaskDetail) and found.row.progress is not None
        self._pace.often_s = _PROGRESS_EVERY_S if reports else None
        return {
            "detail": self._same(found) if isinstance(found, TaskDetail) else None,
            "ambiguous": found if isinstance(found, Ambiguous) else None,
            "why": story.why,
            "settings": story.settings,
            "loading": False,
        }

    def _same(self, detail: TaskDetail) -> TaskDetail:
        """Return the known object if only the time of the read differs, so that nothing is redrawn."""
        known = self.snapshot.detail
        return known if known is not None and replace(detail, now=known.now) == known else detail
