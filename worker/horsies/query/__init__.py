"""The filter language of the console and of `--filter`: text in; conditions out, which pass that text as parameters."""

from __future__ import annotations

from horsies.query.activity_keys import ACTIVITY
from horsies.query.completions import Completion, completions
from horsies.query.filters import (
    ActivityFilter,
    ScheduleFilter,
    TaskConditions,
    TaskFilter,
    WorkerFilter,
    WorkflowConditions,
    WorkflowFilter,
    task_conditions,
    workflow_conditions,
)
from horsies.query.keys import KEYS, TASKS
from horsies.query.language import Condition, Key, Language, Term
from horsies.query.parser import parse, parse_activity, parse_schedules, parse_workers, parse_workflows
from horsies.query.problems import FilterError, Problem
from horsies.query.schedule_keys import SCHEDULES
from horsies.query.worker_keys import WORKERS
from horsies.query.workflow_keys import WORKFLOWS

__all__ = [
    "ACTIVITY",
    "KEYS",
    "SCHEDULES",
    "TASKS",
    "WORKERS",
    "WORKFLOWS",
    "ActivityFilter",
    "Completion",
    "Condition",
    "FilterError",
    "Key",
    "Language",
    "Problem",
    "ScheduleFilter",
    "TaskConditions",
    "TaskFilter",
    "Term",
    "WorkerFilter",
    "WorkflowConditions",
    "WorkflowFilter",
    "completions",
    "parse",
    "parse_activity",
    "parse_schedules",
    "parse_workers",
    "parse_workflows",
    "task_conditions",
    "workflow_conditions",
]
