"""The feed of the activity screen: operations and changes, and the targets of the operation under the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.query import ActivityFilter
from horsies.views import audit_page, changes, newest_action, operation_page, operation_totals
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from horsies.store.connect import Connection
    from horsies.views import AuditRow, Changes, OperationPage, OperationRow
    from horsies_tui.feed.link import DatabaseLink

ACTIONS_EVERY: Final = Rhythm(tick_s=1.0, poll_s=2.0, reconcile_s=2.0, slow_factor=10.0)
"""Audit rows send no notification. As long as there is no new one, a read is one probe of an index."""
CHANGES_EVERY: Final = Rhythm(tick_s=5.0, poll_s=5.0, reconcile_s=5.0, slow_factor=20.0)
"""With thousands of failures a day one read has 3,000 tasks, as a plan test counts: some 20 ms."""
COUNTS_EVERY: Final = Rhythm(tick_s=0.1, poll_s=2.0, reconcile_s=2.0, slow_factor=10.0)
_PAUSE_S: Final = 0.12
"""Operations that the cursor passes quickly are not read."""
MOST_OPERATIONS: Final = 100
COUNT_UP_TO: Final = 1_000
"""Audit rows of each operation that are counted with the list; all rows of a larger one are counted one by one."""
MOST_TARGETS: Final = 200


@dataclass(frozen=True, slots=True)
class OneOperation:
    """The targets of one operation, with their states before and after."""

    id: UUID
    rows: tuple[AuditRow, ...]
    more: bool
    """There are more than these."""


@dataclass(frozen=True, slots=True)
class ActivitySnapshot:
    """The entries read last; `loading` until both parts are those of the filter."""

    operations: OperationPage | None = None
    changes: Changes | None = None
    read_at: datetime | None = None
    one: OneOperation | None = None
    loading: bool = True
    slow_s: float | None = None
    error: str | None = None


class ActivityFeed(Feed[ActivitySnapshot]):
    NAME = "activity"

    def __init__(self, link: DatabaseLink, publish: Callable[[ActivitySnapshot], None]) -> None:
        super().__init__(link, publish, ActivitySnapshot())
        self._filter = ActivityFilter()
        self._selected: UUID | None = None
        self._known: tuple[int | None, ActivityFilter] | None = None
        """The newest audit row, and the filter, of the operations that were read."""
        self._newest: int | None = None
        self._one_at: tuple[UUID | None, int | None] = None, None
        """The operation whose targets were read, and the newest audit row at that time: it may have undone some."""
        self._totals: dict[UUID, tuple[int | None, OperationRow]] = {}
        """Operations whose audit rows were all counted, each with the newest audit row at that time."""
        self._partly: tuple[UUID, ...] = ()
        """The operations of the list of which only the first rows were counted with it."""
        self._done: set[str] = set()
        """The parts that were read since the filter changed."""
        self._operations = FeedRead(
            "operations",
            self._query(lambda: self._filter, self._read_operations, lambda page: self._read_of(operations=page)),
            ReadPace(ACTIONS_EVERY),
            on=lambda _channel, _payload: False,
        )
        self._changes = FeedRead(
            "changes",
            self._query(lambda: self._filter, changes, lambda found: self._read_of(changes=found)),
            ReadPace(CHANGES_EVERY),
            on=lambda _channel, _payload: False,
        )
        self._one = FeedRead(
            "one operation",
            self._query(lambda: self._selected, _read_one, self._read_it),
            ReadPace(ACTIONS_EVERY),
            on=lambda _channel, _payload: False,
            wanted=self._misses_one,
        )
        self._count = FeedRead(
            "totals",
            self._query(lambda: self._uncounted, _count_all, self._counted),
            ReadPace(COUNTS_EVERY),
            on=lambda _channel, _payload: False,
            wanted=lambda: self._uncounted is not None,
        )
        self._reads = (self._operations, self._changes, self._one, self._count)

    def ask(self, wanted: ActivityFilter) -> None:
        """Show what matches this filter from now on."""
        self._filter, self._known = wanted, None
        self._done.clear()
        self._supersede()
        self.refresh()
        self._publish(loading=True)

    def select(self, operation_id: UUID | None) -> None:
        """Read the targets of this operation."""
        if operation_id != self._selected:
            self._selected = operation_id
            self._one.not_before = self._now() + _PAUSE_S
            self._one.pace.renew()
            self._wake.set()

    def refresh(self) -> None:
        self._known = None
        super().refresh()

    def parts(self) -> Iterator[SnapshotPart]:
        wanted, done = (self._filter.text,), self._done
        yield SnapshotPart("operations", ("operations", "read_at"), wanted, "operations" in done, "this filter")
        yield SnapshotPart("changes", ("changes",), wanted, "changes" in done, "this filter")
        if self._selected is not None:
            one = self.snapshot.one
            read = one is not None and one.id == self._selected
            yield SnapshotPart("one", ("one",), (str(self._selected),), read, "the targets of this operation")

    @property
    def _uncounted(self) -> UUID | None:
        """The next operation whose rows are not all counted since the newest audit row."""
        known = {one for one, (newest, _row) in self._totals.items() if newest == self._newest}
        return next((one for one in self._partly if one not in known), None)

    def _counted(self, row: OperationRow) -> dict[str, Any]:
        self._totals[row.operation_id] = self._newest, row
        if self._uncounted is not None:
            self._count.pace.mark(self._now())
        page = self.snapshot.operations
        return {} if page is None else {"operations": self._with_totals(page)}

    def _with_totals(self, page: OperationPage) -> OperationPage:
        counted = {one: row for one, (_newest, row) in self._totals.items()}
        return replace(page, rows=tuple(counted.get(row.operation_id, row) for row in page.rows))

    def _misses_one(self) -> bool:
        return self._selected is not None and self._one_at != (self._selected, self._newest)

    def _read_it(self, one: OneOperation) -> dict[str, Any]:
        self._one_at = one.id, self._newest
        return {"one": one}

    def _has_all(self) -> bool:
        one = self.snapshot.one
        return super()._has_all() and (self._selected is None or (one is not None and one.id == self._selected))

    def _read_of(self, **part: Any) -> dict[str, Any]:
        self._done |= part.keys()
        return {**part, "loading": len(self._done) < 2, "read_at": self._link.clock.now()}

    async def _read_operations(self, conn: Connection, wanted: ActivityFilter) -> OperationPage:
        newest = await newest_action(conn)
        page = self.snapshot.operations
        if page is None or self._known != (newest, wanted):
            page = await operation_page(conn, wanted, limit=MOST_OPERATIONS, count_up_to=COUNT_UP_TO)
            self._known, self._newest = (newest, wanted), newest
            self._partly = tuple(row.operation_id for row in page.rows if row.at_least)
            self._totals = {one: known for one, known in self._totals.items() if one in self._partly}
            page = self._with_totals(page)
        return page


async def _count_all(conn: Connection, operation_id: UUID | None) -> OperationRow | None:
    rows = [] if operation_id is None else await operation_totals(conn, [operation_id])
    return rows[0] if rows else None


async def _read_one(conn: Connection, operation_id: UUID | None) -> OneOperation | None:
    if operation_id is None:
        return None
    page = await audit_page(conn, operation_id=operation_id, limit=MOST_TARGETS)
    return OneOperation(operation_id, page.rows, page.next is not None)
