"""Pages of the audit of operator actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.damage import json_map
from horsies.store.statements import statement
from horsies.views.reader_session import tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    import asyncpg


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One target of one operator action. Rows of one command share their operation."""

    id: int
    acted_at: datetime
    operation_id: UUID
    verb: str
    target_kind: str
    target_id: str
    outcome: str
    detail: str | None
    before_state: Mapping[str, Any] | None
    after_state: Mapping[str, Any] | None
    os_user: str | None
    os_host: str | None
    db_role: str
    reason: str | None
    filter: str | None
    undoes: int | None
    undone_by: int | None


@dataclass(frozen=True, slots=True)
class AuditCursor:
    """The position of a row in the audit."""

    acted_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Audit rows, newest first. `recorded` is false if the database has no audit table."""

    rows: tuple[AuditRow, ...]
    now: datetime
    next: AuditCursor | None
    recorded: bool


async def audit_page(
    conn: asyncpg.Connection,
    *,
    limit: int = 100,
    after: AuditCursor | None = None,
    operation_id: UUID | None = None,
    target: tuple[str, str] | None = None,
) -> AuditPage:
    """Read the newest rows of the audit after a cursor, of one operation or of one target (its kind and id)."""
    here = await tables(conn)
    if not here.actions:
        return AuditPage((), here.now, None, recorded=False)
    time, number = (after.acted_at, after.id) if after else (None, None)
    found = await conn.fetch(
        statement(__name__, "view_audit"), limit + 1, time, number, operation_id, *(target or (None, None))
    )
    rows = tuple(_row(dict(row)) for row in found[:limit])
    further = AuditCursor(rows[-1].acted_at, rows[-1].id) if len(found) > limit else None
    return AuditPage(rows, here.now, further, recorded=True)


def _row(columns: dict[str, Any]) -> AuditRow:
    for name in ("before_state", "after_state"):
        if columns[name] is not None:
            columns[name] = json_map(columns[name])
    return AuditRow(**columns)
