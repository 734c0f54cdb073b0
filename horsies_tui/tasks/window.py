"""The rows around the viewport, in an order that changes only when the operator has let go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.views import Sort, cursor_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.views import Cursor, TaskPage, TaskRow
    from horsies_tui.tasks.snapshot import Edge

MOST_ROWS: Final = 600
"""Three pages: what is shown, and one to scroll into on either side."""
ASCENDING: Final = frozenset({Sort.OLDEST, Sort.WAITING, Sort.RUNNING})
_SHOWN_STATUS: Final = {Sort.WAITING: "PENDING", Sort.RUNNING: "RUNNING"}


@dataclass(slots=True)
class _Line:
    """A row and the place that it was given; it keeps that, whatever becomes of the row, until the window settles."""

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
    """At most `most` rows. `before` and `after` are where the pages beyond begin; None: there is nothing more."""

    def __init__(self, sort: Sort, most: int = MOST_ROWS) -> None:
        self.sort = sort
        self.before: Cursor | None = None
        self.after: Cursor | None = None
        self.held: frozenset[str] = frozenset()
        """Rows that came before the first one, and are not let in."""
        self.held_more = False
        self.unsettled = False
        """Some rows would not stand where they are, or would not be here, or are missing."""
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
        """The place of the first row."""
        return self._lines[0].place if self._lines else None

    @property
    def horizon(self) -> Cursor | None:
        """How far was searched, where that is farther than the last row, and not everything."""
        at_last = self._lines and self.after == self._lines[-1].place
        return None if at_last else self.after

    def beyond(self, edge: Edge) -> Cursor | None:
        """Where the page beyond an edge begins."""
        return self.before if edge == "start" else self.after

    def reset(self, page: TaskPage) -> None:
        """These rows and no others."""
        self._put([self._line(row) for row in page.rows])
        self.before, self.after = page.previous, page.next
        self.unsettled = False
        self.hold((), more=False)

    def extend(self, edge: Edge, page: TaskPage) -> None:
        """The page beyond an edge; what gets too far from it on the other side is let go."""
        new = [self._line(row) for row in page.rows if row.id not in self._index]
        if edge == "end":
            self.after = page.next
            self._put_last([*self._lines, *new])
        else:
            self.before = page.previous
            self._put_first([*new, *self._lines])

    def slice(self, around: str | None, limit: int, *, from_start: bool) -> Slice:
        """The `limit` lines around a row, or the first; `from_start`: with whatever came before them."""
        middle = 0 if around is None else self._index.get(around, 0)
        first = max(min(middle - limit // 2, len(self._lines) - limit), 0)
        if not self._lines or (from_start and self.before is None):
            return Slice(self.before, limit, 0, min(limit, len(self._lines)))
        after = self._lines[first - 1].place if first else self._just_before(self._lines[0].place)
        return Slice(after, limit, first, min(first + limit, len(self._lines)))

    def slice_after(self, place: Cursor, limit: int) -> Slice:
        """The lines behind a place between two rows."""
        first = next((at for at, line in enumerate(self._lines) if self._is_after(line.place, place)), len(self._lines))
        return Slice(place, limit, first, min(first + limit, len(self._lines)))

    def has_searched(self, place: Cursor) -> bool:
        """Whether the search has come so far before: nothing behind this place is new to it."""
        return self.after is not None and not self._is_after(self.after, place)

    def untold(self, part: Slice, page: TaskPage) -> list[str]:
        """Lines of the slice that the page does not have: changed, gone, or beyond what it reached."""
        told = {row.id for row in page.rows}
        lines = self._lines[part.first : part.last]
        return [line.row.id for line in lines if line.row.id not in told]

    def refresh(self, part: Slice, page: TaskPage) -> None:
        """New contents, from the page of a slice; every row keeps its place."""
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
            self.hold(above, more=page.next is not None and len(above) == len(page.rows))

    def renew(self, ids: Iterable[str], matching: Iterable[TaskRow], others: Iterable[TaskRow]) -> None:
        """Rows that were read by their ids: those that match the filter, and the others, as far as they exist."""
        match = {row.id: row for row in matching if self._is_shown(row)}
        exist = {row.id: row for row in (*matching, *others)}
        for task_id in ids:
            line = self._lines[self._index[task_id]]
            self._renew(line, exist.get(task_id, line.row), matches=task_id in match)

    def hold(self, ids: Iterable[str], *, more: bool) -> None:
        """These came before the first row; `more`: and others that have not been read."""
        self.held, self.held_more = frozenset(ids), more

    def settle(self, part: Slice, page: TaskPage) -> None:
        """The page takes the place of all that it covers, and of nothing else; struck and misplaced rows go.

        A page that stopped short of the first row says nothing of it: rows that were found far back stay.
        """
        told = {row.id for row in page.rows}
        behind = self._behind(part, page.next)
        if page.reached is None and len(behind) in (0, len(self._lines) - part.first):
            # Either nothing is behind a full page, or it covers no line, and rows in between have not been seen.
            behind, self.after = [], page.next
        elif page.next is None or (self.after is not None and self._is_after(page.next, self.after)):
            self.after = page.next
        stay = self._staying
        lines = [
            *(line for line in self._lines[: part.first] if line.row.id not in told and stay(line)),
            *(self._line(row) for row in page.rows),
            *(line for line in behind if line.row.id not in told and stay(line)),
        ]
        self.unsettled = False
        if part.from_start:
            self.hold((), more=False)
            self._put_first(lines)
        else:
            self._put_last(lines)

    def _behind(self, part: Slice, end: Cursor | None) -> list[_Line]:
        """Lines that a page of the slice does not reach, where it ends there."""
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
            self.hold((), more=False)
        self._put(lines)

    def _put(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._index = {line.row.id: index for index, line in enumerate(lines)}

    def _line(self, row: TaskRow) -> _Line:
        """A row that has not changed stays the object that it is: whoever draws it need not look twice."""
        index = self._index.get(row.id)
        known = row if index is None else self._lines[index].row
        return _Line(known if known == row else row, cursor_of(row, self.sort))

    def _renew(self, line: _Line, row: TaskRow, *, matches: bool) -> None:
        if row != line.row:
            line.row = row
        line.struck = not matches
        self.unsettled = self.unsettled or not self._staying(line)

    def _staying(self, line: _Line) -> bool:
        return not line.struck and line.place == cursor_of(line.row, self.sort)

    def _is_shown(self, row: TaskRow) -> bool:
        if self.sort is Sort.FINISHED:
            return row.finished_at is not None
        return row.status == _SHOWN_STATUS.get(self.sort, row.status)

    def _is_after(self, place: Cursor, other: Cursor) -> bool:
        mine, others = self._key(place), self._key(other)
        return bool(mine > others if self.sort in ASCENDING else mine < others)

    def _just_before(self, place: Cursor) -> Cursor:
        """A page after it begins with the row at that place. No two ids differ in their last character alone."""
        return replace(place, id=place.id[:-1] if self.sort in ASCENDING else f"{place.id}z")

    def _key(self, place: Cursor) -> tuple[Any, ...]:
        if self.sort is Sort.WAITING:
            return place.priority, place.time, place.id
        return place.time, place.id
