"""Queues as targets of verbs: their pause, their waiting tasks, and the workers that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.operations.audit_rows import apply_order, preview_time
from horsies.operations.facts import MAX_COUNTED, QueueFacts
from horsies.operations.target import Target, did_you_mean
from horsies.operations.verb import Preview, Refusal
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.target import RowOutcome
    from horsies.operations.verb import Options, QueueVerb

# An empty queue exists while a worker has served it within a day: its workers may be stopped for a deployment.
_SERVED_WITHIN_S = 86_400.0
WRITES: tuple[str, ...] = ("horsies_queue_state",)


async def preview_of(conn: asyncpg.Connection, verb: QueueVerb, selection: Selection, options: Options) -> Preview:
    taken_at = await preview_time(conn)
    names = selection.ids
    known = {name for (name,) in await conn.fetch(statement(__name__, "queue_state_known"), _SERVED_WITHIN_S)}
    queues = await _read_queues(conn, [name for name in names if name in known])
    eligible = [one for one in queues if (one.paused_at is not None) is verb.for_paused]
    refused = [Refusal(_target(one), f"it is {one.words}") for one in queues if one not in eligible]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=(*refused, *(_unknown(name, known) for name in names if name not in known)),
        consequences=tuple(map(verb.effect, eligible)),
        command=verb.command(names, options),
        taken_at=taken_at,
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: QueueVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    return await apply_order(conn, action, statement(*verb.order), part, states, guarded=verb.for_paused)


async def _read_queues(conn: asyncpg.Connection, names: Sequence[str]) -> list[QueueFacts]:
    rows = await conn.fetch(statement(__name__, "queue_state_read"), names, ALIVE_WITHIN_S, MAX_COUNTED)
    return [QueueFacts(*row) for row in rows]


async def states(conn: asyncpg.Connection, names: Sequence[str]) -> dict[str, str]:
    return {queue.name: f"it is {queue.words}" for queue in await _read_queues(conn, names)}


def _target(queue: QueueFacts) -> Target:
    return Target("queue", queue.name, queue.name, queue.words, queue)


def _unknown(name: str, known: Iterable[str]) -> Refusal:
    why = f"no task waits in such a queue and no worker serves it{did_you_mean(name, known)}"
    return Refusal(Target("queue", name, name, "unknown"), why)
