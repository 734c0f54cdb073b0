"""The filter language of the console and of `--filter`: it parses text to conditions that pass values as parameters."""

from __future__ import annotations

from horsies.query.completions import Completion as Completion, completions as completions
from horsies.query.keys import KEYS as KEYS, TASKS as TASKS
from horsies.query.language import Condition as Condition, Key as Key, Language as Language, Term as Term
from horsies.query.other_keys import (
    ACTIVITY as ACTIVITY,
    SCHEDULES as SCHEDULES,
    WORKERS as WORKERS,
    WORKFLOWS as WORKFLOWS,
)
from horsies.query.parser import (
    ActivityFilter as ActivityFilter,
    ScheduleFilter as ScheduleFilter,
    TaskConditions as TaskConditions,
    TaskFilter as TaskFilter,
    WorkerFilter as WorkerFilter,
    WorkflowConditions as WorkflowConditions,
    WorkflowFilter as WorkflowFilter,
    parse as parse,
    parse_activity as parse_activity,
    parse_schedules as parse_schedules,
    parse_workers as parse_workers,
    parse_workflows as parse_workflows,
    task_conditions as task_conditions,
    workflow_conditions as workflow_conditions,
)
from horsies.query.problems import FilterError as FilterError, Problem as Problem
