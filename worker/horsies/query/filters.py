"""The filters of each kind of thing, and the conditions that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from horsies.domain.states import TASK_TERMINAL_STATES, TaskStatus
from horsies.query.activity_keys import ACTIVITY
from horsies.query.conditions import Conditions, conditions_of, statuses_of
from horsies.query.keys import TASKS
from horsies.query.language import Filter
from horsies.query.schedule_keys import SCHEDULES
from horsies.query.values import Choice, Glob
from horsies.query.worker_keys import WORKERS
from horsies.query.workflow_keys import WORKFLOWS

if TYPE_CHECKING:
    from horsies.query.language import Language


@dataclass(frozen=True, slots=True)
class TaskFilter(Filter):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowFilter(Filter):
    language: ClassVar[Language] = WORKFLOWS


@dataclass(frozen=True, slots=True)
class WorkerFilter(Filter):
    language: ClassVar[Language] = WORKERS


@dataclass(frozen=True, slots=True)
class ScheduleFilter(Filter):
    language: ClassVar[Language] = SCHEDULES


@dataclass(frozen=True, slots=True)
class ActivityFilter(Filter):
    language: ClassVar[Language] = ACTIVITY


@dataclass(frozen=True, slots=True)
class TaskConditions(Conditions):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowConditions(Conditions):
    language: ClassVar[Language] = WORKFLOWS


_HAVE_ERRORS: Final = tuple(
    status.value for status in TaskStatus if status in TASK_TERMINAL_STATES and status is not TaskStatus.COMPLETED
)


def task_conditions(understood: TaskFilter) -> TaskConditions:
    statuses = statuses_of(understood)
    wants_error = understood.pick("error", Glob) or Choice("error") in understood.pick("has", Choice)
    if statuses is None and wants_error:  # only these have a code, and an index of their own
        statuses = _HAVE_ERRORS
    return TaskConditions(statuses, conditions_of(understood))


def workflow_conditions(understood: WorkflowFilter) -> WorkflowConditions:
    return WorkflowConditions(statuses_of(understood), conditions_of(understood))
