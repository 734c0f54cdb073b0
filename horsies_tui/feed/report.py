"""The feed of the recovery report, for the recovery screen and for the header's count of findings that need action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies_tui.feed.loop import Feed, Read
from horsies_tui.feed.pace import Pace, Rhythm
from horsies_tui.feed.recorded import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.operations.diagnose import Report
    from horsies.store.connect import Connection
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
        from horsies.operations.findings import Severity

        return None if self.report is None else self.report.count(Severity.NEEDS_ACTION)


class RecoveryFeed(Feed[RecoverySnapshot]):
    """Started once, for the header; `watch(True)` while the recovery screen is shown."""

    NAME = "recovery"

    def __init__(
        self, link: Link, publish: Callable[[RecoverySnapshot], None], *, every_s: float = HEADER_EVERY_S
    ) -> None:
        super().__init__(link, publish, RecoverySnapshot())
        self._every_s = every_s
        run = self._query(
            lambda: None, lambda conn, _: _diagnose(conn), lambda found: {"report": found, "loading": False}
        )
        self._report = Read("report", run, self._pace(watched=False))
        self._reads = (self._report,)

    def parts(self) -> tuple[Part, ...]:
        return (Part("report", ("report",), ready=not self.snapshot.loading, what="the recovery report"),)

    def watch(self, on: bool) -> None:
        """Whether the recovery screen is shown: if so, a report follows each change within a second."""
        self._report.pace = self._pace(watched=on)
        self._wake.set()

    def _pace(self, *, watched: bool) -> Pace:
        tick_s = min(_WATCHED_EVERY_S, self._every_s) if watched else self._every_s
        factor = _WATCHED_FACTOR if watched else _HEADER_FACTOR
        return Pace(Rhythm(tick_s, poll_s=self._every_s, reconcile_s=self._every_s, slow_factor=factor))


async def _diagnose(conn: Connection) -> Report:
    """The first report imports all kinds of findings, and pydantic."""
    from horsies.operations.diagnose import diagnose

    return await diagnose(conn)
