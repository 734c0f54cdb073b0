"""The feed of the recovery report, for the recovery screen and for the header's count of findings that need action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.operations.diagnose import diagnose
from horsies.operations.findings import Severity
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.pace import Pace, Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.operations.diagnose import Report
    from horsies_tui.feed.link import Link

HEADER_EVERY_S: Final = 5.0
_WATCHED_EVERY_S: Final = 1.0
_HEADER_FACTOR: Final = 50.0
"""A report reads everything in flight: for the header it may use a fiftieth of a connection's time."""
_WATCHED_FACTOR: Final = 10.0


@dataclass(frozen=True, slots=True)
class RecoverySnapshot:
    """The recovery report; None before the first one."""

    report: Report | None = None
    loading: bool = True
    error: str | None = None

    @property
    def need_action(self) -> int | None:
        """The number in the header: findings that stay until an operator acts."""
        return None if self.report is None else self.report.count(Severity.NEEDS_ACTION)


class RecoveryFeed(Feed):
    """Started once, for the header; `watch(True)` while the recovery screen is shown."""

    NAME = "recovery"

    def __init__(
        self, link: Link, publish: Callable[[RecoverySnapshot], None], *, every_s: float = HEADER_EVERY_S
    ) -> None:
        super().__init__(link)
        self.snapshot = RecoverySnapshot()
        self._publish_to = publish
        self._every_s = every_s
        self._pace = self._new_pace(watched=False)

    def watch(self, on: bool) -> None:
        """Whether the recovery screen is shown: if so, a report follows each change within a second."""
        self._pace = self._new_pace(watched=on)
        self._wake.set()

    def refresh(self) -> None:
        """Read the report now, after an operation."""
        self._pace.renew()
        self._wake.set()

    def _new_pace(self, *, watched: bool) -> Pace:
        tick_s = min(_WATCHED_EVERY_S, self._every_s) if watched else self._every_s
        factor = _WATCHED_FACTOR if watched else _HEADER_FACTOR
        return Pace(Rhythm(tick_s, poll_s=self._every_s, reconcile_s=self._every_s, slow_factor=factor))

    def _on_dirty(self, channel: str, _payload: str) -> None:
        if not channel:
            self.refresh()
        elif not self._pace.dirty:
            self._pace.mark()
            self._wake.set()

    def _due_at(self) -> float | None:
        if self._frozen and not self.snapshot.loading:
            return None
        return self._pace.due_at(told=self._link.listens)

    async def _step(self) -> None:
        pace = self._pace
        pace.begin(self._now())
        report = await self._read(diagnose)
        pace.end(self._now(), done=report is not None)
        changes: dict[str, Any] = {} if report is None else {"report": report, "loading": False}
        snapshot = replace(self.snapshot, error=self._error, **changes)
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self._publish_to(snapshot)
