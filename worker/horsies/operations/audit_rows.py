"""The audit rows of every verb, the rights to write them, and orders: statements that write them for all targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import to_json
from horsies.domain.codec.json_text import clean_text
from horsies.operations.target import AuditedAction, OperationError, RowOutcome, Undone
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from horsies.operations.target import Actor, Target

_MAX_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """The actor, channel and reason, as stored in audit rows. All rows of one command share the operation."""

    operation_id: UUID
    verb: str
    actor: Actor
    reason: str | None
    filter: str | None
    undoes: Mapping[str, int] = field(default_factory=dict)
    """The audit row that is undone, by target."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    """The tasks that it has ended: their workflows are advanced afterwards."""

    @property
    def values(self) -> tuple[Any, ...]:
        """Return the parameters of `operation`, without characters that PostgreSQL rejects."""
        texts = (self.verb, self.actor.os_user, self.actor.os_host, self.reason, self.filter)
        return self.operation_id, *(None if text is None else clean_text(text, _MAX_TEXT) for text in texts)

    def words(self, done: str) -> str:
        """Return who did it and why, such as `failed by hand by ops@bastion: stuck on a lock`."""
        _, _, user, host, reason, _ = self.values
        who = f"{done} by hand by {user}@{host}"
        return f"{who}: {reason}" if reason else who


@dataclass(frozen=True, slots=True)
class SessionRights:
    """The session's right to act. `problem` is None if it can; `now` is the server's clock."""

    now: datetime
    role: str
    problem: str | None
    remedy: str | None


async def write_audit(
    conn: asyncpg.Connection,
    action: OperatorAction,
    rows: Sequence[RowOutcome],
    states: Mapping[str, tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] | None = None,
) -> None:
    """Write the audit rows of a change in its transaction; `states`: of each target before and after."""
    both = [(states or {}).get(row.target.id, (None, None)) for row in rows]
    await conn.execute(
        statement(__name__, "audit_rows"),
        *action.values,
        [row.target.kind for row in rows],
        [row.target.id for row in rows],
        ["applied" if row.applied else "refused" for row in rows],
        [None if row.applied else row.detail for row in rows],
        [None if before is None else to_json(before) for before, _ in both],
        [None if after is None else to_json(after) for _, after in both],
        [action.undoes.get(row.target.id) for row in rows],
    )


async def write_refusal(
    conn: asyncpg.Connection, action: OperatorAction, target: Target, why: str, before: Mapping[str, Any] | None = None
) -> RowOutcome:
    """Write the audit row of a target that is not changed."""
    row = RowOutcome(target, applied=False, detail=why)
    await write_audit(conn, action, [row], {target.id: (before, None)})
    return row


async def session_rights(conn: asyncpg.Connection) -> SessionRights:
    """Read before an action is tried: a session without the rights is refused with the reason, before any write."""
    row = await conn.fetchrow(statement(__name__, "audit_session"))
    role, lacking, problem, remedy = row["role"], row["lacking"], None, None
    if row["standby"]:
        problem, remedy = "this server is a standby, which accepts no writes", "connect to the primary"
    elif row["read_only"]:
        problem = "this session is read-only"
        remedy = "connect without --read-only and default_transaction_read_only"
    elif not row["upgraded"]:
        problem, remedy = "this database has no tables for operator actions", "run `horsies db upgrade`"
    elif lacking:
        problem, remedy = f"the role {role} lacks {', '.join(lacking)}", _grants(lacking, role)
    return SessionRights(row["now"], role, problem, remedy)


async def require_writable(conn: asyncpg.Connection, *tables: str) -> None:
    """Raise OperationError if this session cannot act on tasks, or cannot also write these tables."""
    found = await session_rights(conn)
    if found.problem is not None:
        raise OperationError(found.problem, help_text=found.remedy)
    if tables and (lacking := [right for (right,) in await conn.fetch(statement(__name__, "audit_rights"), tables)]):
        rights = ", ".join(lacking)
        raise OperationError(f"the role {found.role} lacks {rights}", help_text=_grants(lacking, found.role))


async def actions_of(conn: asyncpg.Connection, operation_id: UUID) -> list[AuditedAction]:
    """Return the operation's changes in order; OperationError if it has no audit rows."""
    if rows := await conn.fetch(statement(__name__, "audit_actions"), operation_id):
        return [AuditedAction(*row) for row in rows]
    raise OperationError(
        f"operation {operation_id} has changed nothing, or its record was pruned",
        help_text="`horsies audit ls` lists the recorded operations, kept for operator_action_retention_hours",
    )


async def undone_operation(conn: asyncpg.Connection, operation_id: UUID) -> Undone | None:
    """Return what the operation was and who did it; None if its record has just been pruned."""
    row = await conn.fetchrow(statement(__name__, "audit_undone"), operation_id)
    return None if row is None else Undone(*row)


def _grants(rights: list[str], role: str) -> str:
    """The GRANT statements for a role without these rights; one statement covers one table only."""
    statements = "; ".join(f"GRANT {right} TO {role}" for right in rights)
    return f"as the owner of the tables: {statements}; or connect as another role"


@dataclass(frozen=True, slots=True)
class Since:
    """The `seen` of a target of an undo: the time of the order that is revoked."""

    since: datetime | None


async def preview_time(conn: asyncpg.Connection) -> datetime:
    """The time of a preview, by the database's clock; OperationError if the database has no table for orders."""
    here = await conn.fetchrow(statement("horsies.findings.cluster", "diagnose_tables"))
    if not (here["worker_orders"] and here["queue_state"]):
        raise OperationError(
            "this database has no tables for orders to workers and queues", help_text="run `horsies db upgrade`"
        )
    now: datetime = here["now"]
    return now


async def apply_order(
    conn: asyncpg.Connection,
    action: OperatorAction,
    order: str,
    targets: Sequence[Target],
    states: Callable[[asyncpg.Connection, list[str]], Awaitable[Mapping[str, str]]],
    *values: Any,
    guarded: bool,
) -> list[RowOutcome]:
    """Run the statement for all targets at once; for those that it did not change, return their present state.

    `guarded`: it takes back the order that was seen, and no newer one. `values` are its further parameters.
    """
    ids = [target.id for target in targets]
    undoes = [action.undoes.get(target_id) for target_id in ids]
    seen = [[target.seen.since for target in targets]] if guarded else []
    rows = await conn.fetch(order, *action.values, ids, undoes, *seen, *values)
    changed = {row[0] for row in rows}
    left = [target_id for target_id in ids if target_id not in changed]
    now = await states(conn, left) if left else {}
    outcomes = [
        RowOutcome(target, target.id in changed, action.verb if target.id in changed else now[target.id])
        for target in targets
    ]
    if left:
        await write_audit(conn, action, [row for row in outcomes if not row.applied])
    return outcomes
