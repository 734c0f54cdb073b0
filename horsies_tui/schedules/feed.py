"""The feed of the schedules screen: all schedules, and for the one under the cursor more of its runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.views import schedule_rows, schedule_story
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.store.connect import Connection
    from horsies.views import ScheduleRow, Schedules, ScheduleStory
    from horsies_tui.feed.link import DatabaseLink

OFTEN: Final = Rhythm(tick_s=1.0, poll_s=2.0, reconcile_s=2.0, slow_factor=10.0)
"""No notification says that a schedule has come due or was paused; 1,000 schedules are read in 60 ms."""
_PAUSE_S: Final = 0.12
"""Schedules that the cursor passes quickly are not read."""
_TASKS: Final = "horsies_task_status"


@dataclass(frozen=True, slots=True)
class SchedulesSnapshot:
    """All schedules; the story may still be that of the previously requested one."""

    found: Schedules | None = None
    story: ScheduleStory | None = None
    loading: bool = True
    slow_s: float | None = None
    error: str | None = None

    @property
    def rows(self) -> tuple[ScheduleRow, ...]:
        return () if self.found is None else self.found.rows


class SchedulesFeed(Feed[SchedulesSnapshot]):
    NAME = "schedules"

    def __init__(
        self, link: DatabaseLink, publish: Callable[[SchedulesSnapshot], None], *, rhythm: Rhythm = OFTEN
    ) -> None:
        super().__init__(link, publish, SchedulesSnapshot())
        self._selected: str | None = None
        self._all = FeedRead(
            "schedules",
            self._query(lambda: None, lambda conn, _: schedule_rows(conn), self._put_all),
            ReadPace(rhythm),
            on=lambda channel, _payload: channel == _TASKS,
            wanted=lambda: not self._frozen or self.snapshot.loading,
        )
        self._one = FeedRead(
            "one schedule",
            self._query(lambda: self._selected, _read_one, lambda story: {"story": story}),
            ReadPace(rhythm),
            on=lambda channel, _payload: channel == _TASKS,
            wanted=lambda: self._selected is not None,
        )
        self._reads = (self._all, self._one)

    def ask(self, selected: str | None) -> None:
        """Read the runs of this schedule from now on."""
        if selected == self._selected:
            return
        if self._selected is not None:
            self._one.not_before = self._now() + _PAUSE_S
        self._selected = selected
        self._one.pace.renew()
        self._wake.set()

    def parts(self) -> Iterator[SnapshotPart]:
        yield SnapshotPart("found", ("found",), ready=not self.snapshot.loading)
        if self._selected is not None:
            story = self.snapshot.story
            read = story is not None and story.row.name == self._selected
            yield SnapshotPart("story", ("story",), (self._selected,), read, "the history of this schedule")

    def _has_all(self) -> bool:
        """Return whether all is read; on a frozen screen the cursor may still go to a schedule with unread runs."""
        story = self.snapshot.story
        missing = self._selected is not None and (story is None or story.row.name != self._selected)
        return super()._has_all() and not missing

    def _put_all(self, found: Schedules) -> dict[str, Any]:
        """Unchanged rows stay the same objects: a list measures and draws only the others."""
        known = {row.name: row for row in self.snapshot.rows}
        rows = tuple(known[row.name] if known.get(row.name) == row else row for row in found.rows)
        return {"found": replace(found, rows=rows), "loading": False}


async def _read_one(conn: Connection, name: str | None) -> ScheduleStory | None:
    return await schedule_story(conn, name or "")
