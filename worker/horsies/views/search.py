"""The sources in which tasks are searched, each with its index, and the duplicate sends of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from horsies.query.keys import DUPLICATES
from horsies.store.statements import STATES, statement
from horsies.views.pages import Sort
from horsies.views.reader_session import aware
from horsies.views.searching import Source, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.query import TaskConditions


ROWS_WITH_ARGUMENTS: Final = 2_000
"""Rows read by a search in arguments, which may be large, stored out of line and compressed."""

LIVE_STATUSES: Final = frozenset({"PENDING", "CLAIMED", "RUNNING"})
UNSUCCESSFUL_STATUSES: Final = frozenset({"FAILED", "CANCELLED", "EXPIRED"})

TASKS: Final = Table("horsies_tasks", "task", statement(__name__, "view_candidates"))

_ENDED_AT: Final = "COALESCE(completed_at, failed_at)"
_UNSUCCESSFUL: Final = "task.status IN ('FAILED', 'CANCELLED', 'EXPIRED')"
_SENT: Final = frozenset({"since", "until"})

CREATED: Final = Source("created", "true", 20_000, time="created_at", serves=_SENT)
UNSUCCESSFUL: Final = Source(
    "unsuccessful", _UNSUCCESSFUL, 5_000, time="created_at", serves=_SENT, statuses=UNSUCCESSFUL_STATUSES
)
# A row cancelled by upstream has no such time. The index does not contain the id: rows of one moment are read together
# and sorted.
FINISHED: Final = Source(
    "finished",
    f"status IN {STATES['ended_tasks']} AND {_ENDED_AT} <= 'infinity'",
    10_000,
    time=_ENDED_AT,
    statuses=UNSUCCESSFUL_STATUSES | {"COMPLETED"},
)
FINISHED_UNSUCCESSFUL: Final = Source(
    "finished unsuccessful",
    f"task.status = one.name AND {_UNSUCCESSFUL} AND {_ENDED_AT} <= 'infinity'",
    5_000,
    time=_ENDED_AT,
    serves=frozenset({"status"}),
    each="SELECT pg_catalog.unnest('{FAILED,CANCELLED,EXPIRED}'::text[])",
)
WAITING: Final = Source(
    "waiting",
    "status = 'PENDING' AND queue_name = one.name",
    5_000,
    time="enqueued_at",
    by_priority=True,
    serves=frozenset({"queue"}),
    statuses=frozenset({"PENDING"}),
    each=statement(__name__, "view_queues_that_wait"),
)
"""Waiting tasks in the order in which they are claimed."""
RUNNING: Final = Source("running", statement(__name__, "view_running"), 5_000)
IN_FLIGHT: Final = Source("in flight", statement(__name__, "view_in_flight"), 10_000)
LIVE: Final = Source("live", statement(__name__, "view_live"), 10_000)
BY_ID: Final = Source("ids", statement(__name__, "view_by_id"), 5_000, serves=frozenset({"id"}))
OF_WORKFLOW: Final = Source("workflow", statement(__name__, "view_of_workflow"), 5_000, serves=frozenset({"workflow"}))


async def source_for(conn: asyncpg.Connection, wanted: TaskConditions, sort: Sort) -> Source:
    """Return the smallest source that contains all matches."""
    among = None if wanted.statuses is None else frozenset(wanted.statuses)
    unsuccessful = among is not None and among <= UNSUCCESSFUL_STATUSES
    match sort:
        case Sort.RUNNING:
            return RUNNING
        case Sort.WAITING:
            return WAITING
        case Sort.FINISHED:
            return FINISHED_UNSUCCESSFUL if unsuccessful else FINISHED
    if wanted.exact("id") is not None:
        return BY_ID
    if wanted.exact("workflow") is not None:
        return OF_WORKFLOW
    if unsuccessful:
        return UNSUCCESSFUL
    if among is not None and among <= LIVE_STATUSES:
        if "PENDING" not in among:
            return IN_FLIGHT
        if await few_wait(conn, LIVE.rows_at_once):
            return LIVE
    return CREATED


def rows_at_once(wanted: TaskConditions, source: Source) -> int:
    looks_into_arguments = any(condition.key == "args" for condition in wanted.others)
    return ROWS_WITH_ARGUMENTS if looks_into_arguments else source.rows_at_once


async def few_wait(conn: asyncpg.Connection, most: int) -> bool:
    return bool(await conn.fetchval(statement(__name__, "view_few_wait"), most))


_with_duplicates: WeakSet[asyncpg.Connection] = WeakSet()


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The duplicate sends of one task, in the column order of the statement."""

    sends: int
    last_at: datetime

    @property
    def words(self) -> str:
        return f"{self.sends:,} {'send' if self.sends == 1 else 'sends'} with its key stored nothing"


async def duplicates_of(conn: asyncpg.Connection, ids: Collection[str]) -> Mapping[str, Duplicates]:
    """Tasks without any are left out."""
    if not ids or not await _has_duplicates(conn):
        return {}
    rows = await conn.fetch(statement(__name__, "view_duplicates"), list(ids))
    return {task_id: Duplicates(*told) for task_id, *told in (map(aware, row) for row in rows)}


async def answerable(conn: asyncpg.Connection, wanted: TaskConditions) -> TaskConditions:
    """The same, without the table of duplicates if this database has none: there no task has any."""
    if all(one.key != "dup" for one in wanted.others) or await _has_duplicates(conn):
        return wanted
    return replace(wanted, others=tuple(replace(one, sql=one.sql.replace(DUPLICATES, "0")) for one in wanted.others))


async def _has_duplicates(conn: asyncpg.Connection) -> bool:
    """Upstream has no such table, nor have our earlier versions; asked until it is there, as they may be upgraded."""
    if conn in _with_duplicates:
        return True
    found: bool = await conn.fetchval(statement(__name__, "view_has_duplicates"))
    if found:
        _with_duplicates.add(conn)
    return found
