"""A task as data for machines, printed by `--json` and copied by the console."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from horsies.display.formatting import lasting
from horsies.display.json_output import plain
from horsies.display.payload import POSITIONAL, stored_json
from horsies.domain.quantities import counted

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.display.payload import Masks
    from horsies.findings.why import Why
    from horsies.views import TaskDetail, TaskRow, Usual


def detail_report(detail: TaskDetail, why: Why | None, masks: Masks) -> dict[str, Any]:
    """Return all data of a task, as `tasks show --json` prints them."""
    return {
        "now": detail.now,
        "task": task_report(detail.row, detail.now),
        "args": stored_json(detail.args, masks, hide=masks.hides(POSITIONAL)),
        "kwargs": stored_json(detail.kwargs, masks),
        "options": stored_json(detail.options, masks),
        "result": stored_json(detail.result, masks),
        "failed_reason": None if detail.failed_reason is None else detail.failed_reason.text,
        "attempts": detail.attempts,
        "earlier_attempts": detail.earlier_attempts,
        "executions": detail.executions,
        "usual": detail.usual,
        "why": None if why is None else why.reasons,
        "audit": masks.on(plain(detail.audit)),
        "reruns": detail.reruns,
        "workflow": detail.node,
    }


def task_report(row: TaskRow, now: datetime) -> dict[str, Any]:
    """A task for `--json`: the stored fields, and those derived from them at `now`."""
    wait, run = row.wait(now), row.run(now)
    stored: dict[str, Any] = plain(row)
    return stored | {
        "attempt": row.attempt,
        "attempts_allowed": row.attempts_allowed,
        "due_at": row.due_at,
        "age_s": row.age(now).total_seconds(),
        "wait_s": None if wait is None else wait.total_seconds(),
        "run_s": None if run is None else run.total_seconds(),
        "progress": None if row.progress is None else plain(row.progress) | row.progress.shown(now),
        "duplicates": 0 if row.duplicates is None else row.duplicates.sends,
        "duplicate_at": None if row.duplicates is None else row.duplicates.last_at,
    }


def usual_words(usual: Usual) -> str:
    """Return, for example, `1m10s, 95 % of 214 runs within 3m05s`."""
    p50, p95 = (lasting(timedelta(seconds=seconds)) for seconds in (usual.p50_s, usual.p95_s))
    return f"{p50}, 95 % of {counted(usual.runs, 'run')} within {p95}"
