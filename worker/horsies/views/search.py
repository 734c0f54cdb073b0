"""The search for a filter: which index, how many rows at once, and the parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from horsies.query import TaskParameters, Texts, Words
from horsies.store.statements import statement
from horsies.views.pages import Cursor, Sort
from horsies.views.times import aware

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

ROWS_WITH_ARGUMENTS: Final = 2_000
"""Arguments may be large, stored out of line and compressed."""

LIVE: Final = frozenset({"PENDING", "CLAIMED", "RUNNING"})
UNSUCCESSFUL: Final = frozenset({"FAILED", "CANCELLED", "EXPIRED"})


class Source(StrEnum):
    """Where to search; the names are those in `view_candidates`, which defines what each reads."""

    CREATED = "created"
    UNSUCCESSFUL = "unsuccessful"
    FINISHED = "finished"
    FINISHED_UNSUCCESSFUL = "finished unsuccessful"
    WAITING = "waiting"
    RUNNING = "running"
    LIVE = "live"
    IDS = "ids"
    WORKFLOW = "workflow"

    @property
    def rows_at_once(self) -> int:
        """How many rows a refresh may read, in 10 ms: more if they are adjacent than if each is on its own page."""
        match self:
            case Source.CREATED:
                return 20_000
            case Source.FINISHED | Source.LIVE:
                return 10_000
            case _:
                return 5_000

    @property
    def is_walked(self) -> bool:
        """Read in order along an index, which may be large; the others contain few rows and are read whole."""
        return self not in (Source.RUNNING, Source.LIVE, Source.IDS, Source.WORKFLOW)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a source to read: from `after` up to and including the edge; no edge: to the end, or `most` rows."""

    source: Source
    ascending: bool
    after: Cursor | None
    edge: Cursor | None
    most: int


def narrowed(parameters: TaskParameters) -> TaskParameters:
    """Only failed, cancelled and expired tasks have an error code, and those have an index of their own."""
    error = parameters.error
    wants_error = error.exact is not None or error.like is not None or parameters.has_error is True
    if wants_error and parameters.statuses is None:
        return replace(parameters, statuses=tuple(sorted(UNSUCCESSFUL)))
    return parameters


async def source_for(conn: asyncpg.Connection, parameters: TaskParameters, sort: Sort) -> Source:
    """The smallest source that contains all matches."""
    among = None if parameters.statuses is None else frozenset(parameters.statuses)
    unsuccessful = among is not None and among <= UNSUCCESSFUL
    match sort:
        case Sort.RUNNING:
            return Source.RUNNING
        case Sort.WAITING:
            return Source.WAITING
        case Sort.FINISHED:
            return Source.FINISHED_UNSUCCESSFUL if unsuccessful else Source.FINISHED
    if parameters.id.exact is not None:
        return Source.IDS
    if parameters.workflow.exact is not None:
        return Source.WORKFLOW
    if unsuccessful:
        return Source.UNSUCCESSFUL
    if among is not None and among <= LIVE and ("PENDING" not in among or await _few_wait(conn)):
        return Source.LIVE
    return Source.CREATED


async def stretch_of(
    conn: asyncpg.Connection,
    parameters: TaskParameters,
    source: Source,
    *,
    ascending: bool,
    after: Cursor | None = None,
    most: int,
) -> Stretch:
    """The part to read at once: `most` rows of the source."""
    # Rows that arrive during the search must not displace the last ones.
    whole = Stretch(source, ascending, after, None, 2 * most)
    if not source.is_walked:
        return whole
    low, high = _bounds(whole)
    edge = await conn.fetchrow(
        statement(__name__, "view_task_edge"),
        source,
        ascending,
        most,
        *low,
        *high,
        parameters.statuses,
        parameters.queue.exact,
        parameters.since_ago,
        parameters.since_at,
        parameters.until_ago,
        parameters.until_at,
    )
    return whole if edge is None else replace(whole, edge=Cursor(*map(aware, edge)))


def matches_all(parameters: TaskParameters, source: Source) -> bool:
    """Whether each row of the source matches, so that a page needs no more rows than it has lines."""
    among = None if parameters.statuses is None else frozenset(parameters.statuses)
    left = replace(parameters, statuses=None)
    if source in (Source.CREATED, Source.UNSUCCESSFUL):
        left = replace(left, since_ago=None, since_at=None, until_ago=None, until_at=None)
    if source is Source.WAITING:
        left = replace(left, queue=replace(left.queue, exact=None))
    if left != TaskParameters():
        return False
    match source:
        case Source.UNSUCCESSFUL:
            return among == UNSUCCESSFUL
        case Source.FINISHED_UNSUCCESSFUL:
            return True
        case Source.WAITING:
            return among is None or "PENDING" in among
        case _:
            return among is None


def rows_at_once(parameters: TaskParameters, source: Source) -> int:
    looks_into_arguments = parameters.args_like or parameters.args_not_like
    return ROWS_WITH_ARGUMENTS if looks_into_arguments else source.rows_at_once


@cache
def over_tasks(selecting: str) -> str:
    """A statement that selects from `task`, the rows of a source that match a filter."""
    return f"WITH task AS (\n{statement(__name__, 'view_candidates')})\n{selecting}"


def bound(stretch: Stretch, parameters: TaskParameters) -> list[Any]:
    """The parameters of `view_candidates`."""
    low, high = _bounds(stretch)
    not_id = stretch.after.id if stretch.after else None
    return [stretch.source, stretch.ascending, stretch.most, not_id, *low, *high, *_flat(parameters)]


_Bound = tuple[Any, str | None, int | None]
_OPEN: _Bound = (None, None, None)


def _bounds(stretch: Stretch) -> tuple[_Bound, _Bound]:
    """The lower and the upper one."""
    first, last = (_place(stretch.after), _place(stretch.edge))
    return (first, last) if stretch.ascending else (last, first)


def _place(cursor: Cursor | None) -> _Bound:
    return _OPEN if cursor is None else (cursor.time, cursor.id, cursor.priority)


def _flat(parameters: TaskParameters) -> Iterator[Any]:
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        if isinstance(value, Texts | Words):
            yield from (getattr(value, part.name) for part in fields(value))
        else:
            yield value


async def _few_wait(conn: asyncpg.Connection) -> bool:
    return bool(await conn.fetchval(statement(__name__, "view_few_wait"), Source.LIVE.rows_at_once))
