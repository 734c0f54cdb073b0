"""The transition tables are closed, complete and consistent with the documentation."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from horsies.domain.codes import (
    BUILTIN_CODE_REGISTRY,
    ContractCode,
    OperationalErrorCode,
    OutcomeCode,
    RetrievalCode,
    to_builtin,
    why_not_a_code,
)
from horsies.domain.states import (
    NODE_TRANSITIONS,
    TASK_TERMINAL_STATES,
    TASK_TRANSITIONS,
    WORKFLOW_TASK_TERMINAL_STATES,
    WORKFLOW_TERMINAL_STATES,
    WORKFLOW_TRANSITIONS,
    OnError,
    TaskAttemptOutcome,
    TaskStatus,
    Transition,
    Verb,
    WorkflowStatus,
    WorkflowTaskStatus,
    targets,
)

TABLES: list[tuple[tuple[Transition[Any], ...], type[Enum], frozenset[Any]]] = [
    (TASK_TRANSITIONS, TaskStatus, TASK_TERMINAL_STATES),
    (NODE_TRANSITIONS, WorkflowTaskStatus, WORKFLOW_TASK_TERMINAL_STATES),
    (WORKFLOW_TRANSITIONS, WorkflowStatus, WORKFLOW_TERMINAL_STATES),
]


@pytest.mark.parametrize(("table", "states", "terminal"), TABLES)
def test_every_state_but_the_unused_can_be_reached_and_every_live_one_left(
    table: tuple[Transition[Any], ...], states: type[Enum], terminal: frozenset[Any]
) -> None:
    reached = {arrow.target for arrow in table}
    left = {arrow.source for arrow in table}
    never_written = {WorkflowStatus.PENDING}  # upstream's rows may have it; this engine never writes it
    assert set(states) - reached <= never_written
    assert set(states) - terminal <= left


@pytest.mark.parametrize(("table", "states", "terminal"), TABLES)
def test_only_an_operator_leaves_a_terminal_state(
    table: tuple[Transition[Any], ...], states: type[Enum], terminal: frozenset[Any]
) -> None:
    leaving = [arrow for arrow in table if arrow.source in terminal and arrow.target not in terminal]
    assert {arrow.who for arrow in leaving} == {"operator"}
    assert Verb.REQUEUE in {arrow.verb for arrow in leaving} <= {Verb.REQUEUE, Verb.UNDO, Verb.COMPLETE}
    assert terminal < set(states)


@pytest.mark.parametrize(("table", "states", "terminal"), TABLES)
def test_no_arrow_is_written_twice_and_each_says_who_and_when(
    table: tuple[Transition[Any], ...], states: type[Enum], terminal: frozenset[Any]
) -> None:
    arrows = [(arrow.source, arrow.verb, arrow.target) for arrow in table]
    assert len(set(arrows)) == len(arrows)
    assert all(arrow.who and arrow.guard for arrow in table)


def test_a_verb_leads_only_where_the_table_says() -> None:
    assert targets(TASK_TRANSITIONS, TaskStatus.RUNNING, Verb.FINISH) == {TaskStatus.COMPLETED, TaskStatus.FAILED}
    assert targets(TASK_TRANSITIONS, TaskStatus.PENDING, Verb.START) == frozenset()
    assert targets(TASK_TRANSITIONS, None, Verb.ENQUEUE) == {TaskStatus.PENDING}


def test_status_names_fit_the_column_and_match_the_documents() -> None:
    assert [status.value for status in TaskStatus] == [
        *("PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
    ]
    assert max(len(status.value) for status in TaskStatus) <= 9
    assert [outcome.value for outcome in TaskAttemptOutcome] == ["COMPLETED", "FAILED", "WORKER_FAILURE"]
    assert [status.value for status in WorkflowTaskStatus] == [
        *("PENDING", "READY", "ENQUEUED", "RUNNING", "COMPLETED", "FAILED", "SKIPPED")
    ]
    assert [mode.value for mode in OnError] == ["fail", "pause"]


def test_terminal_states_know_that_they_are() -> None:
    assert {status for status in TaskStatus if status.is_terminal} == TASK_TERMINAL_STATES
    assert {status for status in WorkflowStatus if status.is_terminal} == WORKFLOW_TERMINAL_STATES
    assert {status for status in WorkflowTaskStatus if status.is_terminal} == WORKFLOW_TASK_TERMINAL_STATES


def test_the_code_families_hold_the_documented_names() -> None:
    families = [OperationalErrorCode, ContractCode, RetrievalCode, OutcomeCode]
    assert [len(family) for family in families] == [9, 3, 5, 8]
    assert len(BUILTIN_CODE_REGISTRY) == 25  # so no value is in two families
    assert all(member.value == member.name for family in families for member in family)
    assert to_builtin("WORKER_CRASHED") is OperationalErrorCode.WORKER_CRASHED
    assert to_builtin("CARD_DECLINED") == "CARD_DECLINED"


@pytest.mark.parametrize("code", ["A", "RATE_LIMITED", "HTTP_429", "WORKER_CRASHED"])
def test_upper_snake_case_is_a_code(code: str) -> None:
    assert why_not_a_code(code) is None


@pytest.mark.parametrize("code", ["", "rate_limited", "Rate", "_A", "9A", "A-B", "A B", "Ä", "A\n"])
def test_anything_else_is_not_a_code(code: str) -> None:
    assert "UPPER_SNAKE_CASE" in (why_not_a_code(code) or "")


@pytest.mark.parametrize("code", ["TimeoutError", "requests.RequestException", "MyException"])
def test_an_exception_class_name_gets_its_own_hint(code: str) -> None:
    assert "exception_mapper" in (why_not_a_code(code) or "")
