"""Schedules as rows of the tables: definitions, slots that were used, and schedulers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from horsies.views.schedules import ScheduleRow, ScheduleRun, definition_of

EVERY_5_MIN = {"type": "interval", "minutes": 5}
AT_HALF_PAST_TWO = {"type": "daily", "time": "02:30:00"}
_OF_DEFINITIONS = ("timezone", "kind", "target", "queue", "args", "kwargs", "catch_up_missed", "check_interval_seconds")


def definition(pattern: dict[str, Any] = EVERY_5_MIN, **changes: Any) -> str:
    """As a scheduler stores it."""
    stored = {
        "pattern": pattern,
        "timezone": "UTC",
        "kind": "task",
        "target": "shop.report",
        "queue": "default",
        "priority": 100,
        "args": "[]",
        "kwargs": "{}",
        "task_options": None,
        "max_retries": 0,
        "catch_up_missed": False,
        "max_catch_up_runs": 100,
    }
    return json.dumps(stored | changes)


async def add_schedule(
    conn: asyncpg.Connection, name: str, stored: str | None = None, *, next_s: float | None = 60.0, runs: int = 0
) -> None:
    """A schedule that is due in `next_s` seconds; `stored` None: only the state, as upstream's schedulers have it."""
    await conn.execute(
        "INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count, config_hash)"
        " VALUES ($1, now() + $2 * interval '1 s', $3, 'hash')",
        name,
        next_s,
        runs,
    )
    if stored is not None:
        await conn.execute(
            "INSERT INTO horsies_schedules (schedule_name, config_hash, definition) VALUES ($1, 'hash', $2)",
            name,
            stored,
        )


async def add_run(
    conn: asyncpg.Connection,
    name: str,
    ago_s: float,
    status: str | None = "COMPLETED",
    *,
    took_s: float = 1.0,
    workflow: bool = False,
    ordered_by: str | None = None,
    **columns: str,
) -> str:
    """A slot so long ago, and the id of its task or workflow; `status` None: nothing was sent."""
    run_id = f"{name}-{ago_s:g}"
    ended = status in ("COMPLETED", "FAILED", "CANCELLED")
    if status is not None and status != "PRUNED":
        table = "horsies_workflows" if workflow else "horsies_tasks"
        given = {
            "id": f"'{run_id}'",
            "name" if workflow else "task_name": "'shop.report'",
            "status": f"'{status}'",
            "started_at": f"now() - {ago_s} * interval '1 s'",
            **({} if workflow else {"queue_name": "'default'"}),
            **({"completed_at": f"now() - {ago_s - took_s} * interval '1 s'"} if ended else {}),
            **columns,
        }
        await conn.execute(f"INSERT INTO {table} ({', '.join(given)}) VALUES ({', '.join(given.values())})")
    await conn.execute(
        "INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id, workflow_id, ordered_by)"
        " VALUES ($1, now() - $2 * interval '1 s', now() - $2 * interval '1 s', $3, $4, $5)",
        name,
        ago_s,
        None if status is None or workflow else run_id,
        run_id if status is not None and workflow else None,
        ordered_by,
    )
    return run_id


async def add_scheduler(conn: asyncpg.Connection, *names: str, pid: int = 7, silent_s: float = 2.0) -> str:
    scheduler_id = f"web-1-{pid}-aa"
    await conn.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)"
        " VALUES ($1, 'web-1', $2, $3, '0.9', now() - $4 * interval '1 s')",
        scheduler_id,
        pid,
        list(names),
        silent_s,
    )
    return scheduler_id


def a_schedule(name: str = "nightly", pattern: dict[str, Any] = AT_HALF_PAST_TWO, **changes: Any) -> ScheduleRow:
    """A schedule as the views return it, without a database."""
    stored = {key: changes.pop(key) for key in [*changes] if key in _OF_DEFINITIONS}
    row = ScheduleRow(
        name,
        definition_of(definition(pattern, **stored)),
        registered_at=None,
        next_run_at=None,
        last_run_at=None,
        run_count=0,
        paused_at=None,
        paused_by=None,
        paused_reason=None,
        skip_slot=None,
        skipped_by=None,
        runs=(),
        schedulers=("web-1-7-aa",),
    )
    return replace(row, **changes)


def a_run(slot: datetime, state: str = "COMPLETED", took_s: float | None = 1.0, **changes: Any) -> ScheduleRun:
    started = None if took_s is None else slot
    ended = None if took_s is None or state == "RUNNING" else slot + timedelta(seconds=took_s)
    run = ScheduleRun(slot, slot, f"task-{slot:%H%M%S}", None, None, state, None, started, ended)
    return run._replace(**changes)
