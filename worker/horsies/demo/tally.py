"""The result of a demo: how many tasks and workflows are in which state, why they failed, and what is stuck."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.findings.diagnose import diagnose
from horsies.query import parse, parse_workflows, task_conditions, workflow_conditions
from horsies.store.connect import open_database
from horsies.views import (
    READER_SETTINGS,
    queue_rows,
    schedule_rows,
    task_counts,
    task_groups,
    worker_rows,
    workflow_counts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.config.contexts import DatabaseChoice

_ALL = parse("")


@dataclass(frozen=True, slots=True)
class DemoTally:
    """RETRY and INTERRUPTED are separate from PENDING and FAILED in `states`. `findings` counts kinds, worst first."""

    states: Mapping[str, int]
    workflows: Mapping[str, int]
    queues: Mapping[str, int]
    errors: Mapping[str, int]
    paused: tuple[str, ...]
    workers: Mapping[str, str]
    findings: Mapping[str, int]
    schedules: Mapping[str, int]


async def tally(choice: DatabaseChoice) -> DemoTally:
    everything = task_conditions(_ALL)
    async with (
        open_database(choice) as database,
        database.connected("demo", settings=READER_SETTINGS) as connection,
        # One snapshot: otherwise a task claimed between two counts would be in both.
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        counts = await task_counts(connection, everything)
        flows = await workflow_counts(connection, workflow_conditions(parse_workflows("")))
        by_queue = await task_groups(connection, everything, by="queue_name")
        by_error = await task_groups(connection, everything, by="error_code")
        queues = await queue_rows(connection)
        workers = await worker_rows(connection)
        report = await diagnose(connection)
        planned = await schedule_rows(connection)
    findings: dict[str, int] = {}
    for finding in report.findings:
        findings[finding.kind.name] = findings.get(finding.kind.name, 0) + finding.count
    return DemoTally(
        states={state: count.number for state, count in counts.states.items()},
        workflows={status: count.number for status, count in flows.states.items()},
        queues={group.key or "": group.number for group in by_queue.groups},
        errors={group.key: group.number for group in by_error.groups if group.key is not None},
        paused=tuple(queue.name for queue in queues if queue.paused_at is not None),
        workers={worker.id: worker.liveness.value for worker in workers},
        findings=findings,
        schedules=Counter(row.standing(planned.now).value for row in planned.rows),
    )
