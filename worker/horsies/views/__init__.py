"""Reads for the CLI and the console: bounded, served by an index, paged by keyset, returned as frozen dataclasses.

Each module is loaded when the first of its names is used: all of them take 0.15 s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; __getattr__ is what runs
    from horsies.views.activity import *
    from horsies.views.audit import *
    from horsies.views.cluster import *
    from horsies.views.counts import *
    from horsies.views.detail import *
    from horsies.views.flow import *
    from horsies.views.progress import *
    from horsies.views.reader_session import *
    from horsies.views.schedules import *
    from horsies.views.searching import *
    from horsies.views.series import *
    from horsies.views.statistics import *
    from horsies.views.tasks import *
    from horsies.views.workers import *
    from horsies.views.workflow_stories import *
    from horsies.views.workflows import *

_MODULES = {
    "activity": "Change Changes ChartMarks OperationPage OperationRow changes chart_marks newest_action operation_page"
    " operation_totals",
    "audit": "AuditCursor AuditPage AuditRow audit_page",
    "cluster": "ClusterStatus QueueRow cluster_status queue_rows",
    "counts": "GROUPINGS Count GroupBy TaskCounts TaskGroup TaskGroups count_parts task_counts task_groups",
    "detail": "Ambiguous Attempt BriefArguments Execution NodeLink Stored TaskDetail"
    " brief_arguments find_task task_detail",
    "flow": "BEFORE LATELY MINUTE RATES_OVER Failures Flow QueueRate TaskPoint failures growing_since queue_rates"
    " task_series",
    "progress": "Progress",
    "reader_session": "READER_SETTINGS",
    "schedules": "Definition NextRun ScheduleRow SchedulerRow ScheduleRun Schedules ScheduleStory Standing next_runs"
    " schedule_rows schedule_story",
    "searching": "Cursor Page",
    "series": "Buckets ClusterPoint WorkerPoint busy_share cluster_series worker_series",
    "statistics": "NameStatistics StatisticsSort TaskStatistics Usual task_statistics usual_durations",
    "tasks": "Sort TaskPage TaskRow cursor_of matching task_page",
    "workers": "GONE_AFTER_S LATE_AFTER_S Clock Liveness Snapshot WorkerRow worker_clocks worker_rows",
    "workflow_stories": "NodeRun NodeStory NodeView ParentLink WorkflowStory find_workflow node_story workflow_runs"
    " workflow_story",
    "workflows": "WorkflowCounts WorkflowPage WorkflowRow WorkflowSort WorkflowValue workflow_count_parts"
    " workflow_counts workflow_cursor_of workflow_matching workflow_page workflow_values",
}
_HOME_OF = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - a list, though computed


if not TYPE_CHECKING:  # for a type checker every misspelt name would be Any

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value
