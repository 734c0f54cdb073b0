"""Reads for people: bounded, index-served, by keyset, as frozen dataclasses; the CLI and the console draw these."""

from horsies.views.audit import AuditCursor, AuditPage, AuditRow, audit_page
from horsies.views.cluster import ClusterStatus, cluster_status
from horsies.views.counts import (
    GROUPINGS,
    Count,
    GroupBy,
    TaskCounts,
    TaskGroup,
    TaskGroups,
    count_parts,
    task_counts,
    task_groups,
)
from horsies.views.detail import (
    Ambiguous,
    Attempt,
    Execution,
    NodeLink,
    Stored,
    TaskDetail,
    find_task,
    task_detail,
)
from horsies.views.pages import Cursor, Sort, TaskPage, TaskRow, cursor_of
from horsies.views.queues import QueueRow, queue_rows
from horsies.views.settings import READER_SETTINGS
from horsies.views.tasks import matching, task_page
from horsies.views.workers import GONE_AFTER_S, LATE_AFTER_S, Liveness, Snapshot, WorkerRow, worker_rows

__all__ = [
    "GONE_AFTER_S",
    "GROUPINGS",
    "LATE_AFTER_S",
    "READER_SETTINGS",
    "Ambiguous",
    "Attempt",
    "AuditCursor",
    "AuditPage",
    "AuditRow",
    "ClusterStatus",
    "Count",
    "Cursor",
    "Execution",
    "GroupBy",
    "Liveness",
    "NodeLink",
    "QueueRow",
    "Snapshot",
    "Sort",
    "Stored",
    "TaskCounts",
    "TaskDetail",
    "TaskGroup",
    "TaskGroups",
    "TaskPage",
    "TaskRow",
    "WorkerRow",
    "audit_page",
    "cluster_status",
    "count_parts",
    "cursor_of",
    "find_task",
    "matching",
    "queue_rows",
    "task_counts",
    "task_detail",
    "task_groups",
    "task_page",
    "worker_rows",
]
