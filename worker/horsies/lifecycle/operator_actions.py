"""Every transition of a task by an operator: guarded by the state he saw, with the audit row in the same statement."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import dump_task_result
from horsies.domain.codec.text import clean_text
from horsies.domain.codes import OutcomeCode
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

OPERATOR_REQUEUED = "OPERATOR_REQUEUED"
OPERATOR_FAILED = "OPERATOR_FAILED"
OPERATOR_CANCELLED = "OPERATOR_CANCELLED"

_LONGEST_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """A task as the operator saw it. A row that differs in status, owner, claimed_at or retry_count is not changed.

    Statements that fill it select its fields in this order, so that `ExpectedState(*row)` builds one.
    """

    task_id: str
    task_name: str
    queue_name: str
    status: str
    worker_id: str | None
    """claimed_by_worker_id"""
    claimed_at: datetime | None
    retry_count: int
    error_code: str | None
    due: datetime
    """GREATEST(enqueued_at, next_retry_at)"""
    good_until: datetime | None
    finalizing_at: datetime | None
    unique_key: str | None
    is_workflow_task: bool
    last_action: int | None = None
    """The newest audit row of an action on it; read only where the verb does not change the row."""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """Who acts, how and why, as stored in the audit rows. All rows of one command share the operation."""

    operation_id: UUID
    verb: str
    os_user: str
    os_host: str
    reason: str | None
    filter: str | None

    def __post_init__(self) -> None:
        # A text that PostgreSQL rejects must not prevent an operator from acting.
        for name in ("os_user", "os_host", "reason", "filter"):
            text = getattr(self, name)
            object.__setattr__(self, name, None if text is None else clean_text(text, _LONGEST_TEXT))

    def words(self, done: str) -> str:
        """`failed by hand by ops@bastion: stuck on a lock`"""
        who = f"{done} by hand by {self.os_user}@{self.os_host}"
        return f"{who}: {self.reason}" if self.reason else who


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """The result for one row: `refusal` is None if it was changed. `retry_count` is the new one."""

    task_id: str
    refusal: str | None
    retry_count: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """The original of a rerun. `good_until` only if it lies ahead; `now` is the server's clock."""

    task_id: str
    task_name: str
    queue_name: str
    priority: int
    args: str | None
    kwargs: str | None
    task_options: str | None
    unique_key: str | None
    good_until: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Copy:
    """One rerun: the original as it was seen, and the values of the new row."""

    original: ExpectedState
    task_id: str
    enqueue_sha: str
    args: str | None
    kwargs: str | None
    task_options: str | None
    max_retries: int
    good_until: datetime | None
    sent_at: datetime | None


_COLUMNS = attrgetter(
    *("task_id", "enqueue_sha", "args", "kwargs", "task_options", "max_retries", "good_until", "sent_at")
)


async def fail(
    conn: asyncpg.Connection, deed: OperatorAction, seen: Collection[ExpectedState]
) -> list[TransitionResult]:
    """PENDING, CLAIMED and RUNNING to FAILED; a caller that waits for the result gets OPERATOR_FAILED.

    An interrupted task keeps its row except for the error, and no longer needs a decision.
    """
    words = deed.words("failed")
    return await _end(conn, deed, seen, "FAILED", OPERATOR_FAILED, OPERATOR_FAILED, words)


async def cancel(
    conn: asyncpg.Connection, deed: OperatorAction, seen: Collection[ExpectedState]
) -> list[TransitionResult]:
    """PENDING, CLAIMED and RUNNING to CANCELLED; a caller that waits for the result gets TASK_CANCELLED."""
    words = deed.words("cancelled")
    return await _end(conn, deed, seen, "CANCELLED", OutcomeCode.TASK_CANCELLED, OPERATOR_CANCELLED, words)


async def expire(
    conn: asyncpg.Connection, deed: OperatorAction, seen: Collection[ExpectedState]
) -> list[TransitionResult]:
    """PENDING past good_until to EXPIRED, as by the sweep."""
    code = OutcomeCode.TASK_EXPIRED
    return await _end(conn, deed, seen, "EXPIRED", code, code, "good_until passed before the task was started")


async def _end(
    conn: asyncpg.Connection,
    deed: OperatorAction,
    seen: Collection[ExpectedState],
    status: str,
    code: OutcomeCode | str,
    attempt_code: str,
    words: str,
) -> list[TransitionResult]:
    result = dump_task_result(TaskResult(err=TaskError(error_code=code, message=words)))
    values = (status, result, str(code), attempt_code, words)
    return await _ask(conn, "op_end", deed, _ordered(seen), values)


async def requeue(
    conn: asyncpg.Connection,
    deed: OperatorAction,
    seen: Collection[ExpectedState],
    fresh_budgets: Mapping[str, int] | None = None,
) -> list[TransitionResult]:
    """Any other status to PENDING, due now. One more run, or the number of retries in `fresh_budgets` for its id.

    A task that had not begun to run keeps its remaining retries. A deadline that has passed is dropped.
    """
    ordered = _ordered(seen)
    budgets = [None if fresh_budgets is None else fresh_budgets[one.task_id] for one in ordered]
    return await _ask(conn, "op_requeue", deed, ordered, (budgets, deed.words("requeued")))


async def retry_now(
    conn: asyncpg.Connection, deed: OperatorAction, seen: Collection[ExpectedState]
) -> list[TransitionResult]:
    """A PENDING task that is not due yet is due now."""
    return await _ask(conn, "op_hurry", deed, _ordered(seen), ())


async def lock_sources(conn: asyncpg.Connection, task_ids: Sequence[str]) -> list[Source]:
    """The values that reruns copy. The rows stay locked until the end of the transaction, which `rerun` must share."""
    return [Source(*row) for row in await conn.fetch(statement(__name__, "op_sources"), task_ids)]


async def rerun(conn: asyncpg.Connection, deed: OperatorAction, copies: Collection[Copy]) -> list[TransitionResult]:
    """Insert the copies whose originals were neither changed nor acted on by an operator since they were seen.

    Runs in the transaction of `lock_sources`, at READ COMMITTED: it then sees everything committed before those locks.
    """
    ordered = sorted(copies, key=attrgetter("original.task_id"))
    originals = [copy.original for copy in ordered]
    columns = zip(*map(_COLUMNS, ordered), strict=True)
    values = ([seen.last_action for seen in originals], *map(list, columns))
    return await _ask(conn, "op_rerun", deed, originals, values)


async def undo(
    conn: asyncpg.Connection, deed: OperatorAction, actions: Mapping[int, str]
) -> dict[int, TransitionResult]:
    """Restore the task of each of these audit rows to its earlier state, if it is still as the action left it."""
    rows = await conn.fetch(
        statement(__name__, "op_undo"),
        list(actions),
        list(actions.values()),
        deed.operation_id,
        deed.os_user,
        deed.os_host,
        deed.reason,
    )
    return {row["action"]: TransitionResult(row["target_id"], row["refusal"], row["retry_count"]) for row in rows}


def _ordered(seen: Collection[ExpectedState]) -> list[ExpectedState]:
    return sorted(seen, key=attrgetter("task_id"))


async def _ask(
    conn: asyncpg.Connection, name: str, deed: OperatorAction, seen: Sequence[ExpectedState], values: tuple[Any, ...]
) -> list[TransitionResult]:
    if not seen:
        return []
    rows = await conn.fetch(
        statement(__name__, name),
        [one.task_id for one in seen],
        [one.status for one in seen],
        [one.worker_id for one in seen],
        [one.claimed_at for one in seen],
        [one.retry_count for one in seen],
        deed.operation_id,
        deed.verb,
        deed.os_user,
        deed.os_host,
        deed.reason,
        deed.filter,
        *values,
    )
    return [TransitionResult(seen[row["number"] - 1].task_id, row["refusal"], row["retry_count"]) for row in rows]
