"""The filter language of the console and of `--filter`: text in, SQL parameters out, never SQL."""

from __future__ import annotations

from horsies.query.completing import Completion, completions
from horsies.query.keys import KEYS, TASKS
from horsies.query.language import Key, Language
from horsies.query.parameters import TaskParameters, parameters
from horsies.query.parser import parse, parse_workers, parse_workflows
from horsies.query.patterns import Texts, Words
from horsies.query.problems import FilterError, Problem
from horsies.query.tree import TaskFilter, Term, WorkerFilter, WorkflowFilter
from horsies.query.worker_keys import WORKERS
from horsies.query.workflow_keys import WORKFLOWS
from horsies.query.workflow_parameters import WorkflowParameters, workflow_parameters

__all__ = [
    "KEYS",
    "TASKS",
    "WORKERS",
    "WORKFLOWS",
    "Completion",
    "FilterError",
    "Key",
    "Language",
    "Problem",
    "TaskFilter",
    "TaskParameters",
    "Term",
    "Texts",
    "Words",
    "WorkerFilter",
    "WorkflowFilter",
    "WorkflowParameters",
    "completions",
    "parameters",
    "parse",
    "parse_workers",
    "parse_workflows",
    "workflow_parameters",
]
