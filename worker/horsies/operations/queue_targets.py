"""Queues as targets of verbs: their pause, their waiting tasks, and the workers that serve them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.domain.quantities import by_whom, clock, counted
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.operations.audit_rows import apply_order, preview_time
from horsies.operations.target import Preview, Refusal, Target, did_you_mean
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.target import RowOutcome
    from horsies.operations.verb import Options, QueueVerb

_MAX_COUNTED = 10_000
# An empty queue exists while a worker has served it within a day: its workers may be stopped for a deployment.
_SERVED_WITHIN_S = 86_400.0
WRITES: tuple[str, ...] = ("horsies_queue_state",)


@dataclass(frozen=True, slots=True)
class QueueFacts:
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
        """The number of its waiting tasks, as far as they were counted."""
        more = "at least " if self.due + self.later >= _MAX_COUNTED else ""
        return f"{more}{counted(self.due + self.later, 'task waits', 'tasks wait')}"


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
    rows = await conn.fetch(statement(__name__, "queue_state_read"), names, ALIVE_WITHIN_S, _MAX_COUNTED)
    return [QueueFacts(*row) for row in rows]


async def states(conn: asyncpg.Connection, names: Sequence[str]) -> dict[str, str]:
    return {queue.name: f"it is {queue.words}" for queue in await _read_queues(conn, names)}


def _target(queue: QueueFacts) -> Target:
    return Target("queue", queue.name, queue.name, queue.words, queue)


def _unknown(name: str, known: Iterable[str]) -> Refusal:
    why = f"no task waits in such a queue and no worker serves it{did_you_mean(name, known)}"
    return Refusal(Target("queue", name, name, "unknown"), why)
