"""The audit rows of operator actions, and whether this session may write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.operations.preview import OperationError
from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from horsies.operations.preview import TargetKind


@dataclass(frozen=True, slots=True)
class AuditRights:
    """Whether this session can act. `problem` is None if it can; `now` is the server's clock."""

    now: datetime
    role: str
    problem: str | None
    way_out: str | None


@dataclass(frozen=True, slots=True)
class Action:
    """One audit row of something that was changed. `status` is the row's status before, for a task."""

    id: int
    verb: str
    target_kind: TargetKind
    target_id: str
    status: str | None


async def standing(conn: asyncpg.Connection) -> AuditRights:
    """Read before an action is tried: the refusal then gives the reason, instead of an error of the server in the
    middle."""
    row = await conn.fetchrow(statement(__name__, "audit_standing"))
    problem, way_out = _problem(row["role"], row["standby"], row["read_only"], row["upgraded"], row["lacking"])
    return AuditRights(row["now"], row["role"], problem, way_out)


async def why_not_writable(conn: asyncpg.Connection) -> str | None:
    """None if actions may be applied on this connection, otherwise the reason and the remedy."""
    found = await standing(conn)
    return None if found.problem is None else f"{found.problem}; {found.way_out}"


async def require_writable(conn: asyncpg.Connection) -> None:
    """OperationError if actions cannot be applied on this connection."""
    found = await standing(conn)
    if found.problem is not None:
        raise OperationError(found.problem, help_text=found.way_out)


async def actions_of(conn: asyncpg.Connection, operation_id: UUID) -> list[Action]:
    """What the operation has changed, in order; OperationError if it has no audit rows."""
    if rows := await conn.fetch(statement(__name__, "audit_actions"), operation_id):
        return [Action(*row) for row in rows]
    raise OperationError(
        f"no operation {operation_id} has changed anything, or its record was pruned",
        help_text="`horsies audit ls` lists what is on record, which is kept for operator_action_retention_hours",
    )


def _problem(
    role: str, standby: bool, read_only: bool, upgraded: bool, lacking: list[str]
) -> tuple[str, str] | tuple[None, None]:
    if standby:
        return "this server is a standby, which takes no writes", "connect to the primary"
    if read_only:
        return "this session is read-only", "connect without --read-only and default_transaction_read_only"
    if not upgraded:
        return "the tables have no place for the audit of manual operations", "run `horsies db upgrade`"
    if lacking:
        return f"the role {role} lacks {', '.join(lacking)}", grants(lacking, role)
    return None, None


def grants(rights: list[str], role: str) -> str:
    """The GRANT statements for a role without these rights; one statement covers one table only."""
    statements = "; ".join(f"GRANT {right} TO {role}" for right in rights)
    return f"as the owner of the tables: {statements}; or connect as another role"
