"""Looks at running tasks: a question to the worker that runs one, bound to its claim, and the worker's answer."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from horsies.domain.damage import json_map
from horsies.domain.quantities import span
from horsies.operations.audit_rows import OperatorAction, require_writable
from horsies.operations.target import OperationError
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    import asyncpg

    from horsies.operations.target import Actor

VERB = "look"
PATIENCE_S = 2.0
"""A worker answers within 0.3 s; a worker behind a pooler, which cannot be notified, within 5 s."""
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class StackRequest:
    """An open question: this task, as this worker has claimed it.

    `starved` is the task that was asked about, if that has not begun because this one has its place.
    """

    look_id: uuid.UUID
    task_id: str
    task_name: str
    worker_id: str
    claimed_at: datetime
    started_at: datetime | None
    starved: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer to a look; empty until it answers.

    `holds`: the worker still has the claim under which it was asked. `silent_for`: since its last sign of life.
    """

    found: Mapping[str, Any] | None
    at: datetime | None
    now: datetime
    holds: bool
    status: str | None
    silent_for: timedelta | None

    @property
    def is_last(self) -> bool:
        """True if no more answers follow."""
        return not self.holds or self.found is None or "problem" in self.found


def why_no_more(look: StackRequest, answer: Answer) -> str:
    """Return why this answer shows nothing, or why no further answer follows."""
    if not answer.holds:
        now = f"it is {answer.status} now" if answer.status else "its row was deleted"
        return f"{look.worker_id} no longer holds task {look.task_id}: {now}"
    if answer.found is not None:
        return f"{look.worker_id} shows nothing of task {look.task_id}: {answer.found['problem']}"
    silent = "was never" if answer.silent_for is None else f"was {span(answer.silent_for.total_seconds())} ago"
    return f"{look.worker_id} has not answered; its last sign of life {silent}"


async def look_at(
    conn: asyncpg.Connection,
    actor: Actor,
    task_id: str,
    kind: Literal["stack", "output"],
    *,
    with_locals: bool = False,
    reason: str | None = None,
) -> StackRequest:
    """Open a look, with an audit row. OperationError for a task that is not running.

    The stack of a task that its worker has claimed is that of the task that has run longest there, if any runs.
    """
    await require_writable(conn, "horsies_looks")
    action = OperatorAction(uuid.uuid4(), VERB, actor, reason, None)
    row = await conn.fetchrow(statement(__name__, "look_begin"), *action.values, task_id, kind, with_locals)
    if row is None:
        raise OperationError(f"no task has the id {task_id}", help_text="`horsies tasks ls status:running` lists them")
    if row["status"] == "CLAIMED" and kind == "stack":
        occupant = await conn.fetchval(statement(__name__, "look_occupant"), row["worker_id"])
        if occupant is not None:
            look = await look_at(conn, actor, occupant, kind, with_locals=with_locals, reason=reason)
            return replace(look, starved=task_id)
    if row["status"] != "RUNNING":
        raise OperationError(
            f"task {task_id} is {row['status']}: only a running task has a stack or output to show",
            help_text=f"`horsies tasks show {task_id}` shows its history",
        )
    return StackRequest(
        action.operation_id, task_id, row["task_name"], row["worker_id"], row["claimed_at"], row["started_at"]
    )


async def look_behind(
    conn: asyncpg.Connection,
    actor: Actor,
    look: StackRequest,
    answer: Answer,
    *,
    with_locals: bool = False,
    reason: str | None = None,
) -> StackRequest | None:
    """Close the look at a task that waits in its child, and open a look at the task that occupies the child."""
    behind = None if answer.found is None else answer.found.get("behind")
    if not isinstance(behind, str):
        return None
    await close(conn, look)
    found = await look_at(conn, actor, behind, "stack", with_locals=with_locals, reason=reason)
    return replace(found, starved=look.starved or look.task_id)


async def ask_again(conn: asyncpg.Connection, look: StackRequest, *, after: int = 0) -> None:
    """Ask what the task does now, or what it has written `after` that line; ignored while a question is open."""
    await conn.execute(statement(__name__, "look_again"), look.look_id, after)


async def close(conn: asyncpg.Connection, look: StackRequest) -> None:
    await conn.execute(statement(__name__, "look_close"), look.look_id)


async def answer_to(conn: asyncpg.Connection, look: StackRequest, within_s: float = PATIENCE_S) -> Answer:
    """Wait for the answer. If there is none in time, the result says how long the worker has been silent."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while True:
        stored = await conn.fetchval(statement(__name__, "look_answered"), look.look_id)
        if stored or loop.time() > end:
            break
        await asyncio.sleep(_PAUSE_S)
    row = await conn.fetchrow(
        statement(__name__, "look_read"), look.look_id, look.task_id, look.worker_id, look.claimed_at
    )
    found = None if row["answer"] is None else json_map(row["answer"])
    return Answer(found, row["answered_at"], row["now"], bool(row["holds"]), row["status"], row["silent_for"])
