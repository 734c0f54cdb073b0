"""`--json`: one object on stdout, with the field names of the views and operations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from horsies.display.payload import POSITIONAL, stored_json
from horsies.display.terminal import say_json
from horsies.domain.damage import Damaged, DamagedTime
from horsies.domain.masking import mask_tree

if TYPE_CHECKING:
    from horsies.display.payload import Masks
    from horsies.findings.why import Why
    from horsies.views import TaskDetail, TaskRow


def print_json(report: Mapping[str, Any], *, on_one_line: bool = False, is_stored: bool = False) -> None:
    """Print a report. `is_stored`: it has arguments, results or output of tasks, in which URLs keep their passwords."""
    content = plain(report)
    say_json(json.dumps(content if is_stored else mask_tree(content), indent=None if on_one_line else 2))


def plain(value: Any) -> Any:
    """Return a value as JSON: times as ISO 8601 in UTC, durations in seconds, enums by their values.

    An object with values in place of damaged ones has an entry `damaged`, with what is stored.
    """
    match value:
        case float() if not math.isfinite(value):  # JSON has no such numbers
            return str(value)
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()} | _damage_of(value)
        case _ if is_dataclass(value):
            return plain({field.name: getattr(value, field.name) for field in fields(value)})
        case _:
            return [plain(item) for item in value]


def _damage_of(values: Mapping[Any, Any]) -> dict[str, Any]:
    stored = {str(key): value.stored for key, value in values.items() if isinstance(value, Damaged)}
    return {"damaged": stored} if stored else {}


def cursor_time(moment: datetime) -> str:
    """Write a time in a cursor."""
    if isinstance(moment, DamagedTime):
        return f"@{moment.ticks}"
    return moment.isoformat().replace("+00:00", "Z")


def read_cursor_time(text: str) -> datetime:
    """Read what `cursor_time` wrote; ValueError for any other text."""
    if text.startswith("@"):
        return DamagedTime.of(int(text[1:]))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return moment


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
    """Return a task for `--json`: the stored fields, and those derived from them at `now`."""
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
