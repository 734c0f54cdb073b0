"""Operator actions on queues: pause stops every claim from one, resume wakes its workers."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.formatting import clock, counted
from horsies.operations.orders import begin, by_whom, command, give, looked_at
from horsies.operations.preview import Outcome, Preview, Refusal, Target
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.actor import Actor

_COUNTED = 10_000
# An empty queue exists while a worker has served it within a day: its workers may be stopped for a deployment.
_SERVED_WITHIN_S = 86_400.0


class QueueVerb(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"


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

    def why_not(self, verb: QueueVerb) -> str | None:
        """None if the action may be tried."""
        paused = self.paused_at is not None
        return f"it is {self.words}" if paused is (verb is QueueVerb.PAUSE) else None


async def preview(conn: asyncpg.Connection, verb: QueueVerb, queues: Iterable[str]) -> Preview:
    """What the action would do to the queues of these names."""
    taken_at = await looked_at(conn)
    names = list(dict.fromkeys(queues))
    known = {name for (name,) in await conn.fetch(statement(__name__, "queue_state_known"), _SERVED_WITHIN_S)}
    standings = await _standings(conn, [name for name in names if name in known])
    eligible = [standing for standing in standings if standing.why_not(verb) is None]
    refused = [Refusal(_target(one), reason) for one in standings if (reason := one.why_not(verb)) is not None]
    return Preview(
        verb=verb,
        options={},
        eligible=tuple(_target(standing) for standing in eligible),
        refused=(*refused, *(_unknown(name, known) for name in names if name not in known)),
        consequences=tuple(_consequence(verb, standing) for standing in eligible),
        filter=None,
        command=command("queue", verb, names),
        taken_at=taken_at,
    )


async def apply(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    *,
    undoes: Mapping[str, int] | None = None,
) -> Outcome:
    """One statement for all queues. `undoes`: for each queue, the audit row that is undone."""
    act = await begin(conn, preview, actor, reason, undoes, table="horsies_queue_state")
    targets = preview.eligible
    if QueueVerb(preview.verb) is QueueVerb.PAUSE:
        return await give(conn, act, statement(__name__, "queue_state_pause"), targets, states=partial(states, conn))
    since = [target.seen.paused_at for target in targets]
    return await give(
        conn, act, statement(__name__, "queue_state_resume"), targets, since, states=partial(states, conn)
    )


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


def _consequence(verb: QueueVerb, queue: QueueStanding) -> str:
    waiting = counted(queue.due + queue.later, "task")
    more = "at least " if queue.due + queue.later >= _COUNTED else ""
    if verb is QueueVerb.RESUME:
        workers = counted(queue.workers, "living worker")
        return f"{queue.name}: {more}{waiting} wait, {queue.due} of them due; served by {workers}"
    in_flight = queue.claimed + queue.running
    return (
        f"{queue.name}: {more}{waiting} wait and stay PENDING, until good_until where they have one;"
        f" {in_flight} claimed or running go on"
    )
