"""Sends that found a live task with their unique key and stored nothing: how many each task has swallowed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from horsies.query.keys import DUPLICATES
from horsies.store.statements import statement
from horsies.views.reader_session import aware

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.query import TaskConditions

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
