"""The filter language of the console and of `--filter`: text in; conditions out, which pass that text as parameters."""

from __future__ import annotations

from horsies.query.activity_keys import ACTIVITY
from horsies.query.completing import Completion, completions
from horsies.query.filters import (
    ActivityFilter,
    TaskConditions,
    TaskFilter,
    WorkerFilter,
    WorkflowConditions,
    WorkflowFilter,
    parameters,
    workflow_parameters,
)
from horsies.query.keys import KEYS, TASKS
from horsies.query.language import Condition, Key, Language, Term
from horsies.query.parser import parse, parse_activity, parse_workers, parse_workflows
from horsies.query.problems import FilterError, Problem
from horsies.query.worker_keys import WORKERS
from horsies.query.workflow_keys import WORKFLOWS

__all__ = [
    "ACTIVITY",
    "KEYS",
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
    "TaskConditions",
    "TaskFilter",
    "Term",
    "WorkerFilter",
    "WorkflowConditions",
    "WorkflowFilter",
    "completions",
    "parameters",
    "parse",
    "parse_activity",
    "parse_workers",
    "parse_workflows",
    "workflow_parameters",
]
