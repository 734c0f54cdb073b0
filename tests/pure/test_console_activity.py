"""The words of the activity screen: targets, outcomes, states before and after, and the command of an operation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from horsies.query import parse
from horsies.views import AuditRow, Change, OperationRow
from horsies_tui.activity.entries import entries, outcome_of, state_words, target_of
from horsies_tui.activity.feed import OneOperation
from horsies_tui.activity.sentences import can_be_undone, command_of, rows_of_change, tasks_of

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
ID = UUID(int=7)


def operation(**fields: Any) -> OperationRow:
    usual: dict[str, Any] = {
        "operation_id": ID,
        "began_at": NOON,
        "acted_at": NOON,
        "verbs": ("requeue",),
        "kinds": ("task",),
        "applied": 2,
        "refused": 0,
        "undone": 0,
        "at_least": False,
        "target_id": "019a7c2e-0000-7000-8000-00001cd6ba9a",
        "os_user": "ops",
        "os_host": "bastion",
        "db_role": "app",
        "reason": None,
        "filter": None,
        "is_undo": False,
    }
    return OperationRow(**{**usual, **fields})


def targets(*ids: str, kind: str = "task", more: bool = False) -> OneOperation:
    rows = tuple(
        AuditRow(at, NOON, ID, "requeue", kind, each, "applied", None, None, None, "ops", "bastion", "app", None, None,
                 None, None)
        for at, each in reversed(list(enumerate(ids)))
    )  # fmt: skip
    return OneOperation(ID, rows, more)


@pytest.mark.parametrize(
    ("fields", "target", "outcome"),
    [
        ({"applied": 45, "refused": 4}, "49 tasks", "45 applied, 4 refused"),
        ({"applied": 1}, "task …1cd6ba9a", "applied"),
        ({"applied": 0, "refused": 1}, "task …1cd6ba9a", "refused"),
        ({"applied": 1, "undone": 1}, "task …1cd6ba9a", "undone"),
        ({"applied": 1, "kinds": ("queue",), "target_id": "mail"}, "queue mail", "applied"),
        ({"applied": 2, "undone": 2}, "2 tasks", "2 applied, undone"),
        ({"applied": 3, "undone": 2}, "3 tasks", "3 applied, 2 undone"),
        ({"applied": 0, "refused": 3}, "3 tasks", "3 refused"),
        ({"applied": 990, "refused": 10, "at_least": True}, "1,000 or more tasks", "counting…"),
        ({"applied": 3, "kinds": ("task", "queue")}, "3 targets", "3 applied"),
    ],
)
def test_target_and_outcome_of_an_operation(fields: dict[str, Any], target: str, outcome: str) -> None:
    assert (target_of(operation(**fields)), outcome_of(operation(**fields))) == (target, outcome)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, ""),
        ({}, ""),
        ({"status": "FAILED", "retry_count": 3, "claimed_at": None}, "FAILED, try 4"),
        ({"status": "PAUSED"}, "PAUSED"),
        ({"paused_at": None}, "not paused"),
        ({"paused_at": "2026-11-18T12:00:00Z"}, "paused"),
        ({"draining_since": None}, "not draining"),
        ({"new_task_id": "019a"}, "new task id 019a"),
    ],
)
def test_a_state_before_or_after(state: dict[str, Any] | None, words: str) -> None:
    assert state_words(state) == words


def test_the_command_of_an_operation_is_the_one_that_does_the_same() -> None:
    two = targets("t1", "t2")
    listing = f"horsies audit ls --operation {ID}"
    assert command_of(operation(), two) == "horsies tasks requeue t1 t2"
    assert command_of(operation(reason="it's back"), two).endswith("--reason 'it'\"'\"'s back'")
    assert command_of(operation(filter="status:failed name:pay"), None) == (
        "horsies tasks requeue --filter 'status:failed name:pay'"
    )
    node = operation(verbs=("skip",), kinds=("node",), applied=1)
    assert command_of(node, targets("w1:3", kind="node")) == "horsies workflows skip w1 3"
    for unknown, rows in (
        (operation(), None),
        (operation(), targets("t1", "t2", more=True)),
        (operation(), targets(*(f"t{number}" for number in range(30)))),
        (operation(is_undo=True), two),
        (operation(verbs=("of a later version",)), two),
        (operation(verbs=("rerun",)), two),  # its arguments are not in the audit
        (operation(verbs=("complete",), kinds=("node",)), targets("w1:3", kind="node")),
    ):
        assert command_of(unknown, rows) == listing


def test_undo_is_offered_where_something_is_left_that_may_be_taken_back() -> None:
    assert can_be_undone(operation())
    assert can_be_undone(operation(undone=1))
    assert can_be_undone(operation(verbs=("pause",), kinds=("queue",)))
    assert not can_be_undone(operation(undone=2))
    assert not can_be_undone(operation(applied=0, refused=2))
    assert not can_be_undone(operation(verbs=("rerun",)))
    assert not can_be_undone(operation(verbs=("recover",), kinds=("task", "worker")))
    for kinds in (("worker",), ("task", "worker"), ("task",)):
        assert can_be_undone(operation(verbs=("acknowledge",), kinds=kinds))


def test_the_rows_of_a_change_and_of_an_operation_are_filters_of_the_task_list() -> None:
    change = Change("task", "failed", "shop.pay*", "t1", NOON, NOON + timedelta(seconds=90), "CARD DECLINED", 3)
    understood = parse(rows_of_change(change))
    assert understood.text == (
        r'status:failed name:shop.pay\* error:"CARD DECLINED" ended:2026-11-18T12:00:00Z..2026-11-18T12:01:30Z'
    )
    assert tasks_of(targets("t1", "t2").rows) == "id:t2,t1"
    assert tasks_of(targets("mail", kind="queue").rows) is None


def test_entries_are_in_the_order_of_their_times_and_another_day_has_its_date() -> None:
    change = Change("task", "failed", "pay", "t1", NOON - timedelta(days=1), NOON - timedelta(days=1))
    newer = Change("worker", "died", "web-1:7", "web-1-7-ab", NOON, NOON + timedelta(seconds=5))
    found = entries([operation()], [change, newer], NOON, UTC)
    assert [entry.when for entry in found] == ["12:00:05Z", "12:00:00Z", "Nov 17 12:00"]
    assert [entry.operation is not None for entry in found] == [False, True, False]
