"""Documented path of the task table's model: the states that its rows take."""

from horsies.domain.states import (
    TASK_TERMINAL_STATES as TASK_TERMINAL_STATES,
    TaskAttemptOutcome as TaskAttemptOutcome,
    TaskStatus as TaskStatus,
)
