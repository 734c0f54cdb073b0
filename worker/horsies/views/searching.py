"""Searches a table for a filter, along an index and a bounded number of rows at a time.

A search has two statements. The first finds the edge, up to which the rows of a source may be read at once. The
second reads the rows up to the edge and keeps the matches. Both consist only of our own texts; every value, of the
filter or of the position of the search, is a numbered parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from horsies.query.conditions import STATUS
from horsies.store.statements import filled, statement
from horsies.views.reader_session import aware

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.query.conditions import Conditions
    from horsies.query.language import Condition

RowT = TypeVar("RowT")

_FROZEN_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position between two rows of one order. `Cursor(time)` is a position at a time, for all orders but WAITING."""

    time: datetime
    id: str = ""
    priority: int = 0
    """The priority, only for the order WAITING."""


@dataclass(frozen=True)
class Page(Generic[RowT]):
    """Rows in their order. A cursor is None if there are no further rows in that direction."""

    rows: tuple[RowT, ...]
    now: datetime
    next: Cursor | None
    previous: Cursor | None
    reached: Cursor | None
    """Set if the search stopped at the limit of one refresh before the page was full; `next` continues there."""


@dataclass(frozen=True)
class Source:
    """Rows that are searched together: in the order of an index, which may be large, or few and all at once.

    Its texts are our own SQL. `rows` is the condition of the index. For a source without an order it is a whole query
    with the column `at`, `/* wanted */` at the place of the texts that `serves` must equal, and `/* most */` at that of
    the number of rows.
    """

    name: str
    rows: str
    rows_at_once: int
    """Maximum number of rows per refresh, higher for adjacent rows than for rows on different pages."""
    time: str = ""
    by_priority: bool = False
    serves: frozenset[str] = frozenset()
    """Keys whose conditions the index serves, if they are of a form that an index can serve."""
    statuses: frozenset[str] | None = None
    """The statuses of its rows; None for all."""
    each: str = ""
    """A query of names. The index is read for each of them from its beginning, as `one.name`."""

    @property
    def is_walked(self) -> bool:
        return bool(self.time)

    @cached_property
    def place(self) -> str:
        """The stored columns of its order."""
        return ", ".join([*(["priority"] if self.by_priority else []), self.time or "at", "id"])

    def order(self, *, ascending: bool) -> str:
        """Return its order, for rows that have the column `at`."""
        columns = [*(["priority"] if self.by_priority else []), "at", "id"]
        return ", ".join(columns if ascending else (f"{column} DESC" for column in columns))

    def served(self, wanted: Conditions) -> list[Condition]:
        return [one for one in wanted.all if one.indexed and one.key in self.serves]

    def further(self, wanted: Conditions) -> list[Condition]:
        """Return the conditions that its rows do not satisfy by themselves and that must be checked."""
        among = set(wanted.statuses or ())
        has_only = self.statuses is not None and self.statuses <= among
        served = self.served(wanted)
        return [one for one in wanted.all if one not in served and not (has_only and one.key == STATUS and one.indexed)]

    def matches_all(self, wanted: Conditions) -> bool:
        """Return whether each of its rows matches, so that a page reads no more rows than it shows."""
        return self.is_walked and not self.further(wanted)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is searched. `candidates` selects the columns that are shown, from its `/* rows */` that match."""

    name: str
    alias: str
    candidates: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a source to read: from `after` up to and including the edge; no edge: to the end, or `most` rows."""

    source: Source
    ascending: bool
    after: Cursor | None
    edge: Cursor | None
    most: int

    @property
    def order(self) -> str:
        return self.source.order(ascending=self.ascending)


@dataclass(frozen=True, slots=True)
class Rest:
    """The uncounted part of a source, from this position on."""

    source: Source
    after: Cursor


class StatementParameters:
    """The values of one statement, numbered in the order in which its text is composed."""

    def __init__(self, *first: object) -> None:
        self.values: list[object] = [*first]

    def add(self, value: object) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def put(self, condition: Condition) -> str:
        return condition.sql.format(*map(self.add, condition.values))


async def stretch_of(
    conn: asyncpg.Connection,
    table: Table,
    wanted: Conditions,
    source: Source,
    *,
    ascending: bool = False,
    after: Cursor | None = None,
    most: int,
) -> Stretch:
    """Read the edge of the next part: `most` rows of the source."""
    # Rows that arrive during the search must not displace the last ones.
    whole = Stretch(source, ascending, after, None, 2 * most)
    if not source.is_walked:
        return whole
    query, values = edge_of(table, wanted, replace(whole, most=most))
    edge = await conn.fetchrow(query, *values)
    return whole if edge is None else replace(whole, edge=Cursor(*map(aware, edge)))


def edge_of(table: Table, wanted: Conditions, stretch: Stretch) -> tuple[str, list[object]]:
    """Return the statement that finds the last of `most` rows of the source, or no row if there are fewer."""
    given = StatementParameters()
    slots = _walk(table, wanted, stretch, given) | {"priority": "priority" if stretch.source.by_priority else "0"}
    text = statement(__name__, "view_edge_of_each" if stretch.source.each else "view_edge")
    return filled(text, slots), given.values


def over(
    table: Table, wanted: Conditions, stretch: Stretch, selecting: str, *first: object
) -> tuple[str, list[object]]:
    """Return a statement that selects from the matching rows of a stretch, as the table's alias; `first` are $1, …"""
    source, given = stretch.source, StatementParameters(*first)
    if source.is_walked:
        text = statement(__name__, "view_walk_of_each" if source.each else "view_walk")
        rows, holds = filled(text, _walk(table, wanted, stretch, given)), []
    else:
        rows = _whole(source, wanted, stretch, given)
        holds = _bounds(f"at, {table.alias}.id", stretch, given)
    holds += map(given.put, source.further(wanted))
    candidates = filled(table.candidates, {"rows": rows, "holds": " AND ".join(holds) or "true"})
    slots = {"candidates": candidates, "selecting": selecting, "order": stretch.order}
    return filled(f"WITH {table.alias} AS (\n/* candidates */)\n/* selecting */", slots), given.values


async def read_page(
    conn: asyncpg.Connection,
    table: Table,
    wanted: Conditions,
    source: Source,
    selecting: str,
    *,
    ascending: bool,
    limit: int,
    after: Cursor | None,
    backwards: bool,
    most: int,
    row_of: Callable[..., RowT],
    cursor_of: Callable[[RowT], Cursor],
) -> Page[RowT]:
    """Read up to `limit` rows, of at most `most` rows of the source.

    `selecting` selects `now`, then the fields of a row; $1 is the limit.
    """
    up = ascending is not backwards
    if source.matches_all(wanted):
        stretch = Stretch(source, up, after, None, limit + 1)
    else:
        stretch = await stretch_of(conn, table, wanted, source, ascending=up, after=after, most=most)
    query, values = over(table, wanted, stretch, selecting, limit + 1)
    found = await conn.fetch(query, *values)
    now, rows = found[0]["now"], [row_of(*map(aware, tuple(row)[1:])) for row in found if row["id"] is not None]
    further = cursor_of(rows[limit - 1]) if len(rows) > limit else stretch.edge
    back = cursor_of(rows[0]) if rows and stretch.after else stretch.after
    shown = rows[:limit]
    return Page(
        rows=tuple(reversed(shown) if backwards else shown),
        now=now,
        next=back if backwards else further,
        previous=further if backwards else back,
        reached=stretch.edge if len(rows) <= limit else None,
    )


async def read_newest(
    conn: asyncpg.Connection, table: Table, wanted: Conditions, source: Source, selecting: str, limit: int
) -> list[Sequence[Any]]:
    """Read the newest `limit` matches of any age, with many short, bounded statements ($1 rows at most)."""
    found: list[Sequence[Any]] = []
    after: Cursor | None = None
    while True:
        stretch = await stretch_of(conn, table, wanted, source, after=after, most=_FROZEN_AT_ONCE)
        query, values = over(table, wanted, stretch, selecting, limit - len(found))
        found += [tuple(map(aware, row)) for row in await conn.fetch(query, *values)]
        after = stretch.edge
        if after is None or len(found) >= limit:
            return found


async def table_size(conn: asyncpg.Connection, table: str) -> int | None:
    """Estimate the number of its rows; None if it was never vacuumed or analyzed."""
    size: int = await conn.fetchval(statement(__name__, "view_table_size"), table)
    return size if size >= 0 else None


def _walk(table: Table, wanted: Conditions, stretch: Stretch, given: StatementParameters) -> dict[str, str]:
    """Return the texts for the places of a statement that reads the source along its index."""
    source, served = stretch.source, stretch.source.served(wanted)
    bounds = _bounds(source.place, stretch, given)
    named = [f"name = ANY ({given.add(one.values[0])}::text[])" for one in served if source.each]
    conditions = [] if source.each else map(given.put, served)
    return {
        "time": source.time,
        "table": table.name,
        "alias": table.alias,
        "rows": " AND ".join([source.rows, *bounds, *conditions]),
        "order": stretch.order,
        "each": source.each,
        "named": " AND ".join(named) or "true",
        "most": given.add(stretch.most),
    }


def _bounds(place: str, stretch: Stretch, given: StatementParameters) -> list[str]:
    """Return the condition for rows beyond `after`, up to the edge."""
    signs = (">", "<=") if stretch.ascending else ("<", ">=")
    cursors = zip(signs, (stretch.after, stretch.edge), strict=True)
    by_priority = stretch.source.by_priority
    return [f"({place}) {sign} ({_at(cursor, given, by_priority)})" for sign, cursor in cursors if cursor is not None]


def _at(cursor: Cursor, given: StatementParameters, by_priority: bool) -> str:
    first = [f"{given.add(cursor.priority)}::integer"] if by_priority else []
    return ", ".join([*first, f"{given.add(cursor.time)}::timestamptz", f"{given.add(cursor.id)}::text"])


def _whole(source: Source, wanted: Conditions, stretch: Stretch, given: StatementParameters) -> str:
    slots: dict[str, str] = {}
    for one in source.served(wanted):
        slots["wanted"] = given.add(one.values[0])
    if "/* most */" in source.rows:
        slots["most"] = given.add(stretch.most)
    return filled(source.rows, slots)
