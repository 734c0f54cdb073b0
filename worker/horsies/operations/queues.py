"""Queues as targets of verbs: their pause, what waits in them, and who serves them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from horsies.operations.audit import require_writable, with_audit
from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.formatting import clock, counted
from horsies.operations.orders import by_whom, give, looked_at
from horsies.operations.preview import Preview, Refusal, Target
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.audit import OperatorAction
    from horsies.operations.preview import RowOutcome
    from horsies.operations.selection import Selection
    from horsies.operations.verb import Options, QueueVerb

_COUNTED = 10_000
_MOST_AT_ONCE = 500
# An empty queue exists while a worker has served it within a day: its workers may be stopped for a deployment.
_SERVED_WITHIN_S = 86_400.0


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """A queue and its pause, in the column order of the statement."""

    name: str
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    due: int
    later: int
    claimed: int
    running: int
    workers: int

    @property
    def words(self) -> str:
        if self.paused_at is None:
            return "open"
        why = f' "{self.reason}"' if self.reason else ""
        return f"paused since {clock(self.paused_at)}{by_whom(self.paused_by)}{why}"

    @property
    def since(self) -> datetime | None:
        return self.paused_at

    @property
    def waiting(self) -> str:
        """How many tasks wait in it, as far as they were counted."""
        more = "at least " if self.due + self.later >= _COUNTED else ""
        return f"{more}{counted(self.due + self.later, 'task')}"


async def require(conn: asyncpg.Connection) -> None:
    await require_writable(conn, "horsies_queue_state")


def batch_of(verb: QueueVerb, targets: Sequence[Target]) -> int:
    return _MOST_AT_ONCE


async def look(conn: asyncpg.Connection, verb: QueueVerb, selection: Selection, options: Options) -> Preview:
    taken_at = await looked_at(conn)
    names = selection.ids
    known = {name for (name,) in await conn.fetch(statement(__name__, "queue_state_known"), _SERVED_WITHIN_S)}
    queues = await _standings(conn, [name for name in names if name in known])
    eligible = [one for one in queues if (one.paused_at is not None) is verb.for_paused]
    refused = [Refusal(_target(one), f"it is {one.words}") for one in queues if one not in eligible]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=(*refused, *(_unknown(name, known) for name in names if name not in known)),
        consequences=tuple(map(verb.effect, eligible)),
        filter=None,
        command=verb.command(names, options),
        taken_at=taken_at,
    )


async def change(
    conn: asyncpg.Connection,
    action: OperatorAction,
    verb: QueueVerb,
    part: Sequence[Target],
    options: Options,
    ended: list[str],
) -> list[RowOutcome]:
    return await give(conn, action, with_audit(*verb.order), part, states, guarded=verb.for_paused)


async def _standings(conn: asyncpg.Connection, names: Sequence[str]) -> list[QueueStanding]:
    rows = await conn.fetch(statement(__name__, "queue_state_read"), names, ALIVE_WITHIN_S, _COUNTED)
    return [QueueStanding(*row) for row in rows]


async def states(conn: asyncpg.Connection, names: Sequence[str]) -> dict[str, str]:
    return {standing.name: f"it is {standing.words}" for standing in await _standings(conn, names)}


def _target(standing: QueueStanding) -> Target:
    return Target("queue", standing.name, standing.name, standing.words, standing)


def _unknown(name: str, known: Iterable[str]) -> Refusal:
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return Refusal(
        Target("queue", name, name, "unknown"), f"nothing waits in such a queue and no worker serves it{hint}"
    )
