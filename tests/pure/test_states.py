"""The transition table is closed, complete and consistent with the documentation."""

from __future__ import annotations

import pytest

from horsies.domain.codes import (
    why_not_a_code,
)
from horsies.domain.states import (
    TASK_TERMINAL_STATES,
    TASK_TRANSITIONS,
    WORKFLOW_TASK_TERMINAL_STATES,
    WORKFLOW_TERMINAL_STATES,
    Mover,
    TaskStatus,
    TransitionVerb,
    WorkflowStatus,
    WorkflowTaskStatus,
)


def test_every_state_can_be_reached_and_every_live_one_left() -> None:
    assert {arrow.target for arrow in TASK_TRANSITIONS} == set(TaskStatus)
    assert set(TaskStatus) - TASK_TERMINAL_STATES <= {arrow.source for arrow in TASK_TRANSITIONS}


def test_only_an_operator_leaves_a_terminal_state() -> None:
    leaving = [
        arrow
        for arrow in TASK_TRANSITIONS
        if arrow.source in TASK_TERMINAL_STATES and arrow.target not in TASK_TERMINAL_STATES
    ]
    assert {arrow.who for arrow in leaving} == {(Mover.OPERATOR,)}
    assert {arrow.verb for arrow in leaving} == {TransitionVerb.REQUEUE, TransitionVerb.UNDO}


def test_no_arrow_is_written_twice_and_each_says_who_and_when() -> None:
    arrows = [(arrow.source, arrow.verb, arrow.target) for arrow in TASK_TRANSITIONS]
    assert len(set(arrows)) == len(arrows)
    assert all(arrow.who and arrow.guard for arrow in TASK_TRANSITIONS)
    assert {arrow.verb for arrow in TASK_TRANSITIONS} == set(TransitionVerb)


def test_terminal_states_know_that_they_are() -> None:
    assert {status for status in TaskStatus if status.is_terminal} == TASK_TERMINAL_STATES
    assert {status for status in WorkflowStatus if status.is_terminal} == WORKFLOW_TERMINAL_STATES
    assert {status for status in WorkflowTaskStatus if status.is_terminal} == WORKFLOW_TASK_TERMINAL_STATES


@pytest.mark.parametrize("code", ["A", "RATE_LIMITED", "HTTP_429", "WORKER_CRASHED"])
def test_upper_snake_case_is_a_code(code: str) -> None:
    assert why_not_a_code(code) is None


@pytest.mark.parametrize("code", ["", "rate_limited", "Rate", "_A", "9A", "A-B", "A B", "Ä", "A\n"])
def test_anything_else_is_not_a_code(code: str) -> None:
    assert "UPPER_SNAKE_CASE" in (why_not_a_code(code) or "")


@pytest.mark.parametrize("code", ["TimeoutError", "requests.RequestException", "MyException"])
def test_an_exception_class_name_gets_its_own_hint(code: str) -> None:
    assert "exception_mapper" in (why_not_a_code(code) or "")
