"""Undoes orders to workers and queues, unless a newer order was given since."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from horsies.operations import queues, workers
from horsies.operations.orders import Act, give, trace_refused
from horsies.operations.preview import RowOutcome, Target
from horsies.store.statements import statement

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from horsies.operations.actor import Actor

# For each verb: the statement that undoes it, and whether that is guarded by the time of the order.
_WAYS_BACK = {
    ("worker", "drain"): (workers, "order_resume", True),
    ("worker", "resume"): (workers, "order_drain", False),
    ("queue", "pause"): (queues, "queue_state_resume", True),
    ("queue", "resume"): (queues, "queue_state_pause", False),
}
_STATES = {"worker": workers.states, "queue": queues.states}


async def undo_orders(
    conn: asyncpg.Connection, done: UUID, undoing: UUID, actor: Actor, reason: str | None
) -> tuple[RowOutcome, ...]:
    """The inverse of each order of the operation `done`, with audit rows under `undoing`."""
    rows: list[RowOutcome] = []
    act = Act(undoing, "undo", actor, reason, {})
    for row in await conn.fetch(statement(__name__, "order_done"), done, list(_STATES)):
        kind, verb, name = row["target_kind"], row["verb"], row["target_id"]
        target = Target(kind, name, name, verb)
        way_back = _WAYS_BACK.get((kind, verb))
        no_way = f"there is no way back from {verb}" if way_back is None else row["since_then"]
        if way_back is None or no_way is not None:
            await trace_refused(conn, act, [(target, no_way)])
            rows.append(RowOutcome(target, applied=False, detail=no_way))
            continue
        module, way, takes_back = way_back
        seen = [[row["since"]]] if takes_back else []
        one = replace(act, undoes={name: row["id"]})
        outcome = await give(
            conn, one, statement(module.__name__, way), [target], *seen, states=partial(_STATES[kind], conn)
        )
        rows += outcome.rows
    return tuple(rows)
