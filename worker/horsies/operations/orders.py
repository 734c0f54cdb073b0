"""Shared by the actions on workers and queues: the actor, the change in one statement, the audit rows of refusals."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.operations.audit import grants, require_writable
from horsies.operations.preview import OperationError, Outcome, RowOutcome
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.actor import Actor
    from horsies.operations.preview import Preview, Target


@dataclass(frozen=True, slots=True)
class Act:
    """One operation. `undoes`: for each target, the audit row that is undone."""

    operation_id: UUID
    verb: str
    actor: Actor
    reason: str | None
    undoes: Mapping[str, int]
    filter: str | None = None


async def looked_at(conn: asyncpg.Connection) -> datetime:
    """The time of a preview, by the database's clock; OperationError if the database has no table for orders."""
    here = await conn.fetchrow(statement("horsies.operations.cluster", "diagnose_tables"))
    if not (here["worker_orders"] and here["queue_state"]):
        raise OperationError(
            "this database has no place for orders to workers and queues", help_text="run `horsies db upgrade`"
        )
    now: datetime = here["now"]
    return now


async def begin(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    undoes: Mapping[str, int] | None,
    *,
    table: str,
) -> Act:
    """OperationError if this session may not write, or not to this table."""
    await require_writable(conn)
    if lacking := [right for (right,) in await conn.fetch(statement(__name__, "order_rights"), table)]:
        rights = ", ".join(lacking)
        raise OperationError(f"this role lacks {rights}", help_text=grants(lacking, "<this role>"))
    return Act(UUID(new_task_id()), preview.verb, actor, reason, undoes or {})


async def give(
    conn: asyncpg.Connection,
    act: Act,
    query: str,
    targets: Sequence[Target],
    *seen: Sequence[Any],
    states: Callable[[list[str]], Awaitable[Mapping[str, str]]],
) -> Outcome:
    """Run the statement for all targets at once; for those that it did not change, return their present state."""
    if not targets:
        return Outcome(act.operation_id, act.verb, ())
    ids = [target.id for target in targets]
    async with conn.transaction():
        rows = await conn.fetch(
            query,
            ids,
            [act.undoes.get(target_id) for target_id in ids],
            act.operation_id,
            act.actor.os_user,
            act.actor.os_host,
            act.reason,
            *seen,
        )
        changed = {row[0] for row in rows}
        left = [target for target in targets if target.id not in changed]
        now = await states([target.id for target in left]) if left else {}
        await trace_refused(conn, act, [(target, now[target.id]) for target in left])
    outcomes = [RowOutcome(target, target.id in changed, now.get(target.id, act.verb)) for target in targets]
    return Outcome(act.operation_id, act.verb, tuple(outcomes))


async def trace_refused(conn: asyncpg.Connection, act: Act, refused: Sequence[tuple[Target, str]]) -> None:
    if refused:
        await conn.execute(
            statement(__name__, "order_refused"),
            act.operation_id,
            act.verb,
            refused[0][0].kind,
            [target.id for target, _ in refused],
            [detail for _, detail in refused],
            act.actor.os_user,
            act.actor.os_host,
            act.reason,
        )


def command(kind: str, verb: str, ids: Iterable[str]) -> str:
    """The equivalent shell command."""
    return shlex.join(["horsies", f"{kind}s", verb, *ids])


def by_whom(actor: str | None) -> str:
    return f" by {actor}" if actor else ""
