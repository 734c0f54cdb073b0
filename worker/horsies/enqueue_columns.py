"""The arguments of `broker.enqueue`: a task by its name, with the columns of its row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Required, TypedDict

from horsies.domain.plain_text import why_not_a_queue_name, why_not_a_task_name
from horsies.domain.result import Err, Ok
from horsies.handle import BrokerErrorCode, BrokerOperationError, BrokerResult
from horsies.store.enqueue import EnqueueRequest

_CLOCK_TOLERANCE = timedelta(seconds=5)


class EnqueueColumns(TypedDict, total=False):
    """The parameters of `enqueue` besides the task's name and its queue."""

    task_id: Required[str]
    enqueue_sha: Required[str]
    args_json: str | None
    kwargs_json: str | None
    priority: int
    sent_at: datetime | None
    enqueued_at: datetime | None
    enqueue_delay_seconds: int | None
    good_until: datetime | None
    task_options: str | None


def request_of(task_name: str, queue_name: str, columns: EnqueueColumns) -> BrokerResult[EnqueueRequest]:
    """Return the row to insert, or an Err for names and times that cannot be stored."""
    now = datetime.now(UTC)
    sent_at = columns.get("sent_at") or now
    enqueued_at, delay, good_until = (
        columns.get("enqueued_at"),
        columns.get("enqueue_delay_seconds"),
        columns.get("good_until"),
    )
    for name, moment in (("sent_at", sent_at), ("enqueued_at", enqueued_at), ("good_until", good_until)):
        if moment is not None and moment.tzinfo is None:
            return refused(f"{name}={moment} has no time zone; pass an aware datetime, for example datetime.now(UTC)")
    for reason in filter(None, (why_not_a_task_name(task_name), why_not_a_queue_name(queue_name))):
        return refused(reason)
    if enqueued_at is not None and delay is not None:
        return refused("enqueued_at and enqueue_delay_seconds both say when the task is due; pass one of them")
    if enqueued_at is None and delay is None and sent_at > now + _CLOCK_TOLERANCE:
        return refused(f"sent_at={sent_at} is in the future; to run the task later, pass enqueued_at or a delay")
    return Ok(
        EnqueueRequest(
            task_id=columns["task_id"],
            task_name=task_name,
            enqueue_sha=columns["enqueue_sha"],
            sent_at=sent_at,
            queue_name=queue_name,
            priority=columns.get("priority", 100),
            args_json=columns.get("args_json"),
            kwargs_json=columns.get("kwargs_json"),
            task_options=columns.get("task_options"),
            good_until=good_until,
            enqueued_at=enqueued_at,
            delay_seconds=delay,
        )
    )


def refused(message: str) -> Err[BrokerOperationError]:
    """Return an Err of a send that was not tried."""
    return Err(BrokerOperationError(BrokerErrorCode.ENQUEUE_FAILED, message, retryable=False))
