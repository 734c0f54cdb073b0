"""A task's details, constructed for tests: a crash, a retry, a failure by an operator."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from horsies.config.recovery import RecoveryConfig
from horsies.views import Attempt, AuditRow, Execution, Stored, TaskDetail, TaskRow
from horsies_tui.look.glyphs import UNICODE, Glyphs
from horsies_tui.story.payload import StoryContext

T0 = datetime(2026, 11, 18, 11, 20, 3, tzinfo=UTC)
ID = "019a7a11-5b1c-7000-8000-0000c0ffee00"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def stored(value: Any) -> Stored:
    text = value if isinstance(value, str) else json.dumps(value)
    return Stored(text, len(text.encode()), cut=False)


def row(**fields: Any) -> TaskRow:
    """A task that FAILED after two tries."""
    usual: dict[str, Any] = {
        "id": ID,
        "name": "nightly_import",
        "queue": "bulk",
        "priority": 100,
        "status": "FAILED",
        "state": "FAILED",
        "created_at": T0,
        "sent_at": T0,
        "enqueued_at": at(963),
        "next_retry_at": at(963),
        "good_until": at(9_597),
        "claimed_at": at(970),
        "claim_expires_at": None,
        "started_at": at(971),
        "finalizing_at": None,
        "finished_at": at(1552),
        "retry_count": 1,
        "max_retries": 1,
        "worker_id": "web-1",
        "worker_hostname": "web-1",
        "worker_pid": 4120,
        "worker_process_name": "horsies-child",
        "error_code": "OPERATOR_FAILED",
        "is_workflow_task": False,
        "unique_key": None,
        "rerun_of": None,
        "beat_at": None,
    }
    return TaskRow(**{**usual, **fields})


def attempt(number: int, started: float, finished: float, **fields: Any) -> Attempt:
    usual: dict[str, Any] = {
        "outcome": "FAILED",
        "will_retry": False,
        "error_code": "BROKE",
        "error_message": "it broke",
        "failed_reason": None,
        "worker_id": "web-3",
        "worker_hostname": "web-3",
        "worker_pid": 88,
        "worker_process_name": "horsies-child",
    }
    return Attempt(number, started_at=at(started), finished_at=at(finished), **{**usual, **fields})


FIRST = attempt(
    1,
    61,
    903,
    outcome="WORKER_FAILURE",
    will_retry=True,
    error_code="WORKER_CRASHED",
    error_message="no runner heartbeat for 5m00s",
)
SECOND = attempt(2, 971, 1552, error_code="OPERATOR_FAILED", worker_hostname="web-1", worker_pid=4120)


def action(seconds: float, verb: str = "fail", **fields: Any) -> AuditRow:
    usual: dict[str, Any] = {
        "id": 1,
        "operation_id": UUID(int=1),
        "target_kind": "task",
        "target_id": ID,
        "outcome": "applied",
        "detail": None,
        "before_state": None,
        "after_state": None,
        "os_user": "ops",
        "os_host": "bastion",
        "db_role": "horsies",
        "reason": "stuck on lock",
        "filter": None,
        "undoes": None,
        "undone_by": None,
    }
    return AuditRow(acted_at=at(seconds), verb=verb, **{**usual, **fields})


TRACEBACK = "Traceback (most recent call last):\n" + "  File x, line 1\n" * 36 + "ValueError: no such file"
ERROR = {
    "__task_result__": True,
    "ok": None,
    "err": {
        "__task_error__": True,
        "error_code": {"__builtin_task_code__": "WORKER_CRASHED"},
        "message": "Task lost its worker",
        "data": {"worker_pid": 88, "stale_threshold_ms": 300_000},
        "exception": {"type": "ValueError", "message": "no such file", "traceback": TRACEBACK},
    },
}


def story(**fields: Any) -> TaskDetail:
    """Crashed, tried again, failed by an operator."""
    beats = tuple(at(971 + 30 * number) for number in range(19))
    usual: dict[str, Any] = {
        "now": at(2_000),
        "row": row(),
        "args": stored([]),
        "kwargs": stored({"path": "s3://shop-eu/2026-11-17.csv", "dry_run": False, "api_token": "hunter2"}),
        "options": stored(
            {"retry_policy": {"auto_retry_for": ["WORKER_CRASHED"], "intervals": [60], "max_retries": 1}}
        ),
        "result": stored(ERROR),
        "failed_reason": None,
        "attempts": (FIRST, SECOND),
        "earlier_attempts": 0,
        "executions": (
            Execution(1, (at(5), at(35)), tuple(at(61 + 30 * number) for number in range(18)), "web-3:88", False),
            Execution(2, (), beats, "web-1:4120", False),
        ),
        "audit": (action(1552),),
        "reruns": (),
        "node": None,
    }
    return TaskDetail(**{**usual, **fields})


def told(
    detail: TaskDetail | None = None, *, glyphs: Glyphs = UNICODE, now: float = 2_000, **fields: Any
) -> StoryContext:
    usual: dict[str, Any] = {"zone": UTC, "recovery": RecoveryConfig()}
    return StoryContext(detail or story(), at(now), glyphs, **{**usual, **fields})


def running(**fields: Any) -> TaskDetail:
    """Running its second try."""
    live = {"status": "RUNNING", "state": "RUNNING", "finished_at": None, "error_code": None}
    executions = (story().executions[0], Execution(2, (), (at(1_001), at(1_031)), "web-1:4120", False))
    usual: dict[str, Any] = {"row": row(**live), "attempts": (FIRST,), "audit": (), "result": None}
    return replace(story(), **{**usual, "executions": executions, **fields})


def waiting(**fields: Any) -> TaskDetail:
    """Waiting between the first and the second try."""
    idle = {"claimed_at": None, "started_at": None, "finished_at": None, "worker_hostname": None, "worker_id": None}
    pending = {"status": "PENDING", "state": "RETRY", "error_code": "WORKER_CRASHED", **idle}
    usual: dict[str, Any] = {"row": row(**pending), "attempts": (FIRST,), "audit": (), "result": None}
    return replace(story(), **{**usual, "executions": story().executions[:1], **fields})
