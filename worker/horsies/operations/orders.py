"""Orders to workers, queues and schedules: one statement for all targets, and why it did not change some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.operations.audit_rows import write_audit
from horsies.operations.target import OperationError, RowOutcome
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.target import Target


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
