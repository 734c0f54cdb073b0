"""The loaded rows around the view, in an order that changes only while the operator is idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.views import Sort, cursor_of
from horsies_tui.look.bars import LIST_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.views import Cursor, TaskPage, TaskRow
    from horsies_tui.widgets.row_table import Edge

MOST_ROWS: Final = 600
"""Most rows of a window: the page that is shown, and one page before and after it."""
ASCENDING: Final = frozenset({Sort.OLDEST, Sort.WAITING, Sort.RUNNING})
_SHOWN_STATUS: Final = {Sort.WAITING: "PENDING", Sort.RUNNING: "RUNNING"}


@dataclass(slots=True)
class _Line:
    """A row and its place in the list, which stays the same until the window settles, even if the row changes."""

    row: TaskRow
    place: Cursor
    struck: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the window to be read again: `limit` rows after the cursor, which are the lines from `first` on."""

    after: Cursor | None
    limit: int
    first: int
    last: int

    @property
    def from_start(self) -> bool:
        return self.after is None


class RowWindow:
    """A window of at most `most` rows. The next pages begin at `before` and `after`; None if there is none."""

    def __init__(self, sort: Sort, most: int = MOST_ROWS) -> None:
        self.sort = sort
        self.before: Cursor | None = None
        self.after: Cursor | None = None
        self.unseen: frozenset[str] = frozenset()
        """Ids of new rows that precede the first one and are not shown yet."""
        self.more_unseen = False
        self.unsettled = False
        """True if some rows are misplaced, missing, or no longer match."""
        self._most = most
        self._lines: list[_Line] = []
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def rows(self) -> tuple[TaskRow, ...]:
        return tuple(line.row for line in self._lines)

    @property
    def struck(self) -> frozenset[str]:
        return frozenset(line.row.id for line in self._lines if line.struck)

    @property
    def top(self) -> Cursor | None:
        """Return the place of the first row."""
        return self._lines[0].place if self._lines else None

    @property
    def horizon(self) -> Cursor | None:
        """Return the place where the search ended, if it went beyond the last row but not through all rows."""
        at_last = self._lines and self.after == self._lines[-1].place
        return None if at_last else self.after

    def beyond(self, edge: Edge) -> Cursor | None:
        """Return the place at which the page beyond an edge begins."""
        return self.before if edge == "start" else self.after

    def reset(self, page: TaskPage) -> None:
        """Replace all rows by these."""
        self._put([self._line(row) for row in page.rows])
        self.before, self.after = page.previous, page.next
        self.unsettled = False
        self.note_unseen((), more=False)

    def extend(self, edge: Edge, page: TaskPage) -> None:
        """Add the page beyond an edge, and drop surplus rows at the other end."""
        new = [self._line(row) for row in page.rows if row.id not in self._index]
        if edge == "end":
            self.after = page.next
            self._put_last([*self._lines, *new])
        else:
            self.before = page.previous
            self._put_first([*new, *self._lines])

    def slice(self, around: str | None, limit: int, *, from_start: bool) -> Slice:
        """Return `limit` lines around a row, or the first ones; with `from_start` including new rows before them."""
        middle = 0 if around is None else self._index.get(around, 0)
        first = max(min(middle - limit // 2, len(self._lines) - limit), 0)
        if not self._lines or (from_start and self.before is None):
            return Slice(self.before, limit, 0, min(limit, len(self._lines)))
        after = self._lines[first - 1].place if first else self._just_before(self._lines[0].place)
        return Slice(after, limit, first, min(first + limit, len(self._lines)))

    def slice_after(self, place: Cursor, limit: int) -> Slice:
        """Return the slice of lines after a place between two rows."""
        first = next((at for at, line in enumerate(self._lines) if self._is_after(line.place, place)), len(self._lines))
        return Slice(place, limit, first, min(first + limit, len(self._lines)))

    def has_searched(self, place: Cursor) -> bool:
        """Return whether the search has already reached this place."""
        return self.after is not None and not self._is_after(self.after, place)

    def missing_from(self, part: Slice, page: TaskPage) -> list[str]:
        """Return ids of the slice that the page lacks: changed, deleted, or beyond the end of the page."""
        read = {row.id for row in page.rows}
        lines = self._lines[part.first : part.last]
        return [line.row.id for line in lines if line.row.id not in read]

    def refresh(self, part: Slice, page: TaskPage) -> None:
        """Update the rows from the page of a slice. Every row stays in its place."""
        above: list[str] = []
        for row in page.rows:
            index = self._index.get(row.id)
            if index is not None:
                self._renew(self._lines[index], row, matches=True)
            elif part.from_start and self._lines and self._is_after(self._lines[0].place, cursor_of(row, self.sort)):
                above.append(row.id)
            else:
                self.unsettled = True
        if part.from_start:
            self.note_unseen(above, more=page.next is not None and len(above) == len(page.rows))

    def renew(self, ids: Iterable[str], matching: Iterable[TaskRow], others: Iterable[TaskRow]) -> None:
        """Update rows that were read by id: those `matching` the filter, and `others` that still exist."""
        match = {row.id: row for row in matching if self._is_shown(row)}
        exist = {row.id: row for row in (*matching, *others)}
        for task_id in ids:
            line = self._lines[self._index[task_id]]
            self._renew(line, exist.get(task_id, line.row), matches=task_id in match)

    def note_unseen(self, ids: Iterable[str], *, more: bool) -> None:
        """Note new rows that precede the first one; `more` if there are others that have not been read."""
        self.unseen, self.more_unseen = frozenset(ids), more

    def replace(self, part: Slice, page: TaskPage) -> None:
        """Replace only the lines that the page covers, and remove struck and misplaced rows.

        A page that ends before the first row does not cover it, so that rows that were found far back stay.
        """
        read = {row.id for row in page.rows}
        behind = self._behind(part, page.next)
        if page.reached is None and len(behind) in (0, len(self._lines) - part.first):
            # Either nothing follows a full page, or it covers no line and there may be unknown rows in between.
            behind, self.after = [], page.next
        elif page.next is None or (self.after is not None and self._is_after(page.next, self.after)):
            self.after = page.next
        stay = self._keeps_place
        lines = [
            *(line for line in self._lines[: part.first] if line.row.id not in read and stay(line)),
            *(self._line(row) for row in page.rows),
            *(line for line in behind if line.row.id not in read and stay(line)),
        ]
        self.unsettled = False
        if part.from_start:
            self.note_unseen((), more=False)
            self._put_first(lines)
        else:
            self._put_last(lines)

    def _behind(self, part: Slice, end: Cursor | None) -> list[_Line]:
        """Return the lines of the slice after the end of a page."""
        if end is None:
            return []
        return [line for line in self._lines[part.first :] if self._is_after(line.place, end)]

    def _put_first(self, lines: list[_Line]) -> None:
        if len(lines) > self._most:
            lines = lines[: self._most]
            self.after = lines[-1].place
        self._put(lines)

    def _put_last(self, lines: list[_Line]) -> None:
        if len(lines) > self._most:
            lines = lines[-self._most :]
            self.before = lines[0].place
            self.note_unseen((), more=False)
        self._put(lines)

    def _put(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._index = {line.row.id: index for index, line in enumerate(lines)}

    def _line(self, row: TaskRow) -> _Line:
        """Return the line of a row. An unchanged row stays the same object, so that a table can skip drawing it."""
        index = self._index.get(row.id)
        known = row if index is None else self._lines[index].row
        row = _with_steady_progress(known, row)
        return _Line(known if known == row else row, cursor_of(row, self.sort))

    def _renew(self, line: _Line, row: TaskRow, *, matches: bool) -> None:
        row = _with_steady_progress(line.row, row)
        if row != line.row:
            line.row = row
        line.struck = not matches
        self.unsettled = self.unsettled or not self._keeps_place(line)

    def _keeps_place(self, line: _Line) -> bool:
        return not line.struck and line.place == cursor_of(line.row, self.sort)

    def _is_shown(self, row: TaskRow) -> bool:
        if self.sort is Sort.FINISHED:
            return row.finished_at is not None
        return row.status == _SHOWN_STATUS.get(self.sort, row.status)

    def _is_after(self, place: Cursor, other: Cursor) -> bool:
        mine, others = self._key(place), self._key(other)
        return bool(mine > others if self.sort in ASCENDING else mine < others)

    def _just_before(self, place: Cursor) -> Cursor:
        """Return a cursor whose page begins with the row at a place. Ids never differ only in their last character."""
        return replace(place, id=place.id[:-1] if self.sort in ASCENDING else f"{place.id}z")

    def _key(self, place: Cursor) -> tuple[Any, ...]:
        if self.sort is Sort.WAITING:
            return place.priority, place.time, place.id
        return place.time, place.id


def _with_steady_progress(known: TaskRow, row: TaskRow) -> TaskRow:
    """Return the row with the progress that is already shown, if the new progress is only slightly newer."""
    shown, new = known.progress, row.progress
    if shown is None or new is None or known.started_at != row.started_at or new.share == 1:
        return row
    too_soon = (new.reported_at - shown.reported_at).total_seconds() < LIST_EVERY_S
    return replace(row, progress=shown) if too_soon else row
