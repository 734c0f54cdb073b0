"""The search for a workflow filter: which index, how many rows at once, and the parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from horsies.query import Texts, Words, WorkflowParameters
from horsies.store.statements import statement
from horsies.views.times import aware

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import asyncpg

LIVE: Final = ("PENDING", "RUNNING", "PAUSED")
UNSUCCESSFUL: Final = ("FAILED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class WorkflowCursor:
    """A position between two rows. `WorkflowCursor(time)` is a position at a time."""

    time: datetime
    id: str = ""


class Source(StrEnum):
    """Where to search; the names are those in `view_workflow_candidates`."""

    CREATED = "created"
    LIVE = "live"
    UNSUCCESSFUL = "unsuccessful"
    IDS = "ids"
    PARENTS = "parents"

    @property
    def rows_at_once(self) -> int:
        """How many rows a refresh may read, in 15 ms: failed and cancelled ones are on a page each."""
        return 3_000 if self is Source.UNSUCCESSFUL else 10_000

    @property
    def is_walked(self) -> bool:
        """Read in order along an index, which may be large; the others contain few rows and are read whole."""
        return self not in (Source.IDS, Source.PARENTS)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a source to read: from `after` up to and including the edge; no edge: to the end, or `most` rows."""

    source: Source
    ascending: bool
    after: WorkflowCursor | None
    edge: WorkflowCursor | None
    most: int


def source_for(parameters: WorkflowParameters) -> Source:
    """The smallest source that contains all matches."""
    if parameters.id.exact is not None:
        return Source.IDS
    if parameters.parent.exact is not None:
        return Source.PARENTS
    among = frozenset(parameters.statuses or ())
    if among and among <= set(LIVE):
        return Source.LIVE
    return Source.UNSUCCESSFUL if among and among <= set(UNSUCCESSFUL) else Source.CREATED


async def stretch_of(
    conn: asyncpg.Connection,
    parameters: WorkflowParameters,
    source: Source,
    *,
    ascending: bool = False,
    after: WorkflowCursor | None = None,
    most: int,
) -> Stretch:
    """The part to read at once: `most` rows of the source."""
    # Rows that arrive during the search must not displace the last ones.
    whole = Stretch(source, ascending, after, None, 2 * most)
    if not source.is_walked:
        return whole
    edge = await conn.fetchrow(
        statement(__name__, "view_workflow_edge"),
        source,
        ascending,
        most,
        *_bounds(whole),
        parameters.since_ago,
        parameters.since_at,
        parameters.until_ago,
        parameters.until_at,
    )
    return whole if edge is None else replace(whole, edge=WorkflowCursor(*map(aware, edge)))


def matches_all(parameters: WorkflowParameters, source: Source) -> bool:
    """Whether each row of the source matches, so that a page needs no more rows than it has lines."""
    left = replace(parameters, statuses=None, since_ago=None, since_at=None, until_ago=None, until_at=None)
    if not source.is_walked or left != WorkflowParameters():
        return False
    whole = {Source.CREATED: None, Source.LIVE: LIVE, Source.UNSUCCESSFUL: UNSUCCESSFUL}[source]
    return whole == parameters.statuses or set(whole or ()) == set(parameters.statuses or ())


@cache
def over_workflows(selecting: str) -> str:
    """A statement that selects from `workflow`, the rows of a source that match a filter."""
    return f"WITH workflow AS (\n{statement(__name__, 'view_workflow_candidates')})\n{selecting}"


def bound(stretch: Stretch, parameters: WorkflowParameters) -> list[Any]:
    """The parameters of `view_workflow_candidates`."""
    not_id = stretch.after.id if stretch.after else None
    place = [stretch.source, stretch.ascending, stretch.most, not_id, *_bounds(stretch)]
    return [*place, *_flat(parameters)]


def _bounds(stretch: Stretch) -> tuple[datetime | None, str | None, datetime | None, str | None]:
    """The lower and the upper one."""
    first, last = (_place(stretch.after), _place(stretch.edge))
    return (*first, *last) if stretch.ascending else (*last, *first)


def _place(cursor: WorkflowCursor | None) -> tuple[datetime | None, str | None]:
    return (None, None) if cursor is None else (cursor.time, cursor.id)


def _flat(parameters: WorkflowParameters) -> Iterator[Any]:
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        if isinstance(value, Texts | Words):
            yield from (getattr(value, part.name) for part in fields(value))
        else:
            yield value
