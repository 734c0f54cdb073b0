"""The filter language of the console and of `--filter`: it parses text to conditions that pass values as parameters."""

from __future__ import annotations

from horsies.query.completions import Completion, completions
from horsies.query.keys import KEYS, TASKS
from horsies.query.language import Condition, Key, Language, Term
from horsies.query.other_keys import ACTIVITY, SCHEDULES, WORKERS, WORKFLOWS
from horsies.query.parser import (
    ActivityFilter,
    ScheduleFilter,
    TaskConditions,
    TaskFilter,
    WorkerFilter,
    WorkflowConditions,
    WorkflowFilter,
    parse,
    parse_activity,
    parse_schedules,
    parse_workers,
    parse_workflows,
    task_conditions,
    workflow_conditions,
)
from horsies.query.problems import FilterError, Problem

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
