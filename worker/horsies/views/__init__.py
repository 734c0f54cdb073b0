"""Reads for the CLI and the console: bounded, served by an index, paged by keyset, returned as frozen dataclasses.

They are loaded on first use: all 25 modules, with the filter language and the models of schedules, take 0.15 s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; __getattr__ is what runs
    from horsies.views.activity import (
        Change as Change,
        Changes as Changes,
        OperationPage as OperationPage,
        OperationRow as OperationRow,
        changes as changes,
        newest_action as newest_action,
        operation_page as operation_page,
        operation_totals as operation_totals,
    )
    from horsies.views.audit import (
        AuditCursor as AuditCursor,
        AuditPage as AuditPage,
        AuditRow as AuditRow,
        audit_page as audit_page,
    )
    from horsies.views.cluster import ClusterStatus as ClusterStatus, cluster_status as cluster_status
    from horsies.views.counts import (
        GROUPINGS as GROUPINGS,
        Count as Count,
        GroupBy as GroupBy,
        TaskCounts as TaskCounts,
        TaskGroup as TaskGroup,
        TaskGroups as TaskGroups,
        count_parts as count_parts,
        task_counts as task_counts,
        task_groups as task_groups,
    )
    from horsies.views.detail import (
        Ambiguous as Ambiguous,
        Attempt as Attempt,
        BriefArguments as BriefArguments,
        Execution as Execution,
        NodeLink as NodeLink,
        Stored as Stored,
        TaskDetail as TaskDetail,
        brief_arguments as brief_arguments,
        find_task as find_task,
        task_detail as task_detail,
    )
    from horsies.views.flow import (
        BEFORE as BEFORE,
        LATELY as LATELY,
        MINUTE as MINUTE,
        RATES_OVER as RATES_OVER,
        Failures as Failures,
        Flow as Flow,
        QueueRate as QueueRate,
        TaskPoint as TaskPoint,
        failures as failures,
        growing_since as growing_since,
        queue_rates as queue_rates,
        task_series as task_series,
    )
    from horsies.views.marks import ChartMarks as ChartMarks, chart_marks as chart_marks
    from horsies.views.pages import Sort as Sort, TaskPage as TaskPage, TaskRow as TaskRow, cursor_of as cursor_of
    from horsies.views.progress import Progress as Progress
    from horsies.views.queues import QueueRow as QueueRow, queue_rows as queue_rows
    from horsies.views.reader_session import READER_SETTINGS as READER_SETTINGS
    from horsies.views.schedules import (
        Definition as Definition,
        NextRun as NextRun,
        ScheduleRow as ScheduleRow,
        SchedulerRow as SchedulerRow,
        ScheduleRun as ScheduleRun,
        Schedules as Schedules,
        ScheduleStory as ScheduleStory,
        Standing as Standing,
        next_runs as next_runs,
        schedule_rows as schedule_rows,
        schedule_story as schedule_story,
    )
    from horsies.views.searching import Cursor as Cursor, Page as Page
    from horsies.views.series import (
        Buckets as Buckets,
        ClusterPoint as ClusterPoint,
        WorkerPoint as WorkerPoint,
        cluster_series as cluster_series,
        worker_series as worker_series,
    )
    from horsies.views.statistics import (
        NameStatistics as NameStatistics,
        StatisticsSort as StatisticsSort,
        TaskStatistics as TaskStatistics,
        Usual as Usual,
        task_statistics as task_statistics,
        usual_durations as usual_durations,
    )
    from horsies.views.tasks import matching as matching, task_page as task_page
    from horsies.views.workers import (
        GONE_AFTER_S as GONE_AFTER_S,
        LATE_AFTER_S as LATE_AFTER_S,
        Clock as Clock,
        Liveness as Liveness,
        Snapshot as Snapshot,
        WorkerRow as WorkerRow,
        worker_clocks as worker_clocks,
        worker_rows as worker_rows,
    )
    from horsies.views.workflow_search import WorkflowSort as WorkflowSort
    from horsies.views.workflow_stories import (
        NodeRun as NodeRun,
        NodeStory as NodeStory,
        NodeView as NodeView,
        ParentLink as ParentLink,
        WorkflowStory as WorkflowStory,
        find_workflow as find_workflow,
        node_story as node_story,
        workflow_runs as workflow_runs,
        workflow_story as workflow_story,
    )
    from horsies.views.workflows import (
        WorkflowCounts as WorkflowCounts,
        WorkflowPage as WorkflowPage,
        WorkflowRow as WorkflowRow,
        WorkflowValue as WorkflowValue,
        workflow_count_parts as workflow_count_parts,
        workflow_counts as workflow_counts,
        workflow_cursor_of as workflow_cursor_of,
        workflow_matching as workflow_matching,
        workflow_page as workflow_page,
        workflow_values as workflow_values,
    )

_MODULES = {
    "activity": "Change Changes OperationPage OperationRow changes newest_action operation_page operation_totals",
    "audit": "AuditCursor AuditPage AuditRow audit_page",
    "cluster": "ClusterStatus cluster_status",
    "counts": "GROUPINGS Count GroupBy TaskCounts TaskGroup TaskGroups count_parts task_counts task_groups",
    "detail": (
        "Ambiguous Attempt BriefArguments Execution NodeLink Stored TaskDetail brief_arguments find_task task_detail"
    ),
    "flow": (
        "BEFORE LATELY MINUTE RATES_OVER Failures Flow QueueRate TaskPoint failures growing_since queue_rates"
        " task_series"
    ),
    "marks": "ChartMarks chart_marks",
    "pages": "Sort TaskPage TaskRow cursor_of",
    "progress": "Progress",
    "queues": "QueueRow queue_rows",
    "reader_session": "READER_SETTINGS",
    "schedules": (
        "Definition NextRun ScheduleRow SchedulerRow ScheduleRun Schedules ScheduleStory Standing next_runs "
        "schedule_rows schedule_story"
    ),
    "searching": "Cursor Page",
    "series": "Buckets ClusterPoint WorkerPoint cluster_series worker_series",
    "statistics": "NameStatistics StatisticsSort TaskStatistics Usual task_statistics usual_durations",
    "tasks": "matching task_page",
    "workers": "GONE_AFTER_S LATE_AFTER_S Clock Liveness Snapshot WorkerRow worker_clocks worker_rows",
    "workflow_search": "WorkflowSort",
    "workflow_stories": (
        "NodeRun NodeStory NodeView ParentLink WorkflowStory find_workflow node_story workflow_runs workflow_story"
    ),
    "workflows": (
        "WorkflowCounts WorkflowPage WorkflowRow WorkflowValue workflow_count_parts workflow_counts "
        "workflow_cursor_of workflow_matching workflow_page workflow_values"
    ),
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
