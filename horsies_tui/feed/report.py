"""The feed of the recovery report, for the recovery screen and for the header's count of findings that need action."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import HorsiesError
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import GRACE_S, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.findings import Finding
    from horsies.findings.diagnose import Report
    from horsies.store.connect import Connection, Database
    from horsies_tui.feed.link import DatabaseLink

HEADER_EVERY_S: Final = 5.0
_WATCHED_EVERY_S: Final = 1.0
_HEADER_FACTOR: Final = 50.0
"""Pause between reports as a multiple of their duration while only the header needs them; a report reads all
tasks in flight."""
_WATCHED_FACTOR: Final = 10.0
EXAMINED_AFTER_S: Final = 30.0
"""Delay of the first examination, so that a console that is opened briefly does not burden the server."""
_EXAMINED_EVERY_S: Final = 60.0
"""An examination takes 0.2 s of the server and 0.02 s of the console."""
_EXAMINED_AT_LEAST_EVERY_S: Final = 300.0
_EXAMINED_FACTOR: Final = 50.0
"""Pause between examinations as a multiple of their duration: a slow server is examined rarely."""
_LONGEST_EXAMINATION_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RecoverySnapshot:
    """The recovery report; None before it is read."""

    report: Report | None = None
    loading: bool = True
    error: str | None = None

    @property
    def need_action(self) -> int | None:
        """Return the number in the header: findings that stay until an operator acts."""
        from horsies.findings import Severity

        return None if self.report is None else self.report.count(Severity.NEEDS_ACTION)


class RecoveryFeed(Feed[RecoverySnapshot]):
    """The feed. It is started once, for the header; `watch(True)` while the recovery screen is shown."""

    NAME = "recovery"

    def __init__(
        self,
        link: DatabaseLink,
        publish: Callable[[RecoverySnapshot], None],
        *,
        every_s: float = HEADER_EVERY_S,
        examined_after_s: float = EXAMINED_AFTER_S,
    ) -> None:
        super().__init__(link, publish, RecoverySnapshot())
        self._every_s = every_s
        self._pure: Report | None = None
        """The last report, without the doctor's findings."""
        self._of_database: tuple[Finding, ...] = ()
        self._examined_after_s = examined_after_s
        self._examine_at = 0.0
        self._examining: asyncio.Task[None] | None = None
        run = self._query(lambda: None, lambda conn, _: _diagnose(conn), self._whole)
        self._report = FeedRead("report", run, self._pace(watched=False))
        examine = FeedRead(
            "doctor",
            self._begin_examination,
            self._pace(watched=False),
            wanted=lambda: self._pure is not None,
            due=lambda: self._examine_at,
        )
        self._reads = (self._report, examine)

    def start(self) -> None:
        self._examine_at = self._now() + self._examined_after_s
        super().start()

    def stop(self) -> None:
        if self._examining is not None:
            self._examining.cancel()
        super().stop()

    def parts(self) -> tuple[SnapshotPart, ...]:
        return (SnapshotPart("report", ("report",), ready=not self.snapshot.loading, what="the recovery report"),)

    def watch(self, on: bool, *, verdict: bool = False) -> None:
        """Set whether the recovery screen is shown; if so, a report follows each change within a second.

        Set `verdict` while a verdict is shown, which must not be based on an outdated report.
        """
        self._report.pace = self._pace(watched=on, verdict=verdict)
        self._wake.set()

    def _whole(self, report: Report) -> dict[str, Any]:
        self._pure = report
        return {"report": report.with_more(self._of_database), "loading": False}

    async def _begin_examination(self) -> bool:
        """Begin an examination on separate connections, so that reports continue."""
        database = self._link.database
        self._examine_at = self._now() + _EXAMINED_EVERY_S
        if database is not None and (self._examining is None or self._examining.done()):
            self._examining = asyncio.create_task(self._examine(database), name="doctor")
        return True

    async def _examine(self, database: Database) -> None:
        """Examine the database. If it does not answer, the earlier findings are kept until the next examination."""
        began = self._now()
        with suppress(HorsiesError, *CONNECTION_ERRORS):
            async with asyncio.timeout(_LONGEST_EXAMINATION_S):
                self._of_database = await _examine(database)
            if self._pure is not None:
                self._publish(**self._whole(self._pure))
        pause_s = min(_EXAMINED_FACTOR * (self._now() - began), _EXAMINED_AT_LEAST_EVERY_S)
        self._examine_at = max(self._examine_at, self._now() + pause_s)

    def _pace(self, *, watched: bool, verdict: bool = False) -> ReadPace:
        tick_s = min(_WATCHED_EVERY_S, self._every_s) if watched else self._every_s
        factor, grace_s = (_WATCHED_FACTOR, GRACE_S) if watched or verdict else (_HEADER_FACTOR, None)
        every_s = self._every_s
        return ReadPace(Rhythm(tick_s, poll_s=every_s, reconcile_s=every_s, slow_factor=factor, grace_s=grace_s))


async def _diagnose(conn: Connection) -> Report:
    """Read a report. Imported here, because all kinds of findings and pydantic take time to import."""
    from horsies.findings.diagnose import diagnose

    return await diagnose(conn)


async def _examine(database: Database) -> tuple[Finding, ...]:
    """Run the checks. Imported here, because all checks take time to import."""
    from horsies.doctor.examine import database_findings, examine

    return tuple(database_findings(await examine(database)))
