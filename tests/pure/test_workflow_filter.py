"""The filter languages for workflows and schedules: the same as for tasks, with keys of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from schedule_scene import EVERY_5_MIN, a_run, a_schedule

from horsies.domain.states import WorkflowStatus
from horsies.query import (
    SCHEDULES,
    WORKFLOWS,
    FilterError,
    WorkflowConditions,
    completions,
    parse_schedules,
    parse_workflows,
    workflow_conditions,
)
from horsies.views import Standing
from horsies.views.row_filter import matching_schedules


def asked(text: str) -> WorkflowConditions:
    return workflow_conditions(parse_workflows(text))


def refused(text: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        parse_workflows(text)
    return caught.value


status_words = st.lists(st.sampled_from(list(WORKFLOWS.states)), max_size=3)


@given(status_words, status_words)
@settings(deadline=None)
def test_statuses_are_those_asked_for_less_those_excluded(wanted: list[str], excluded: list[str]) -> None:
    covered = frozenset[str]().union(*(WORKFLOWS.states[word] for word in wanted or ["live", "done"]))
    left = covered.difference(*(WORKFLOWS.states[word] for word in excluded))
    text = " ".join([*(f"status:{word}" for word in wanted), *(f"-status:{word}" for word in excluded)])
    if not left:
        assert "no state is left" in str(refused(text))
        return
    every = tuple(status.value for status in WorkflowStatus)
    assert asked(text).statuses == (None if len(left) == len(every) else tuple(one for one in every if one in left))


@pytest.mark.parametrize(
    ("text", "start", "end", "suggestion"),
    [
        ("stauts:failed", 0, 6, "status"),
        ("workflow:order", 0, 8, "name"),
        ("def:x", 0, 3, "definition"),
        ("child:yes", 0, 5, "parent"),
        ("status:finished", 7, 15, "completed"),
        ("status:active", 7, 13, "running"),
        ("status:halted", 7, 13, "paused"),
        ("status:canceled", 7, 15, "cancelled"),
        ("status:retry", 7, 12, None),
        ("queue:mail", 0, 10, '"queue:mail"'),
        ("since:1hour", 6, 11, "1h"),
        ("-since:1h", 0, 9, "until:1h"),
    ],
)
def test_a_mistake_is_pointed_at_with_what_was_probably_meant(
    text: str, start: int, end: int, suggestion: str | None
) -> None:
    (problem,) = refused(text).problems
    assert (problem.start, problem.end, problem.suggestion) == (start, end, suggestion)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("parent:yes,019a", "parent takes yes or no, or ids, not both"),
        ("-parent:yes parent:019a", "no workflow is left"),
        ("parent:yes -parent:yes", "no workflow is left"),
        ("since:1h until:2h", "swap them"),
        ("\0", "no workflow can contain this character"),
    ],
)
def test_what_no_workflow_can_match_is_refused(text: str, why: str) -> None:
    assert why in str(refused(text))


def test_every_key_is_explained_and_its_example_understood() -> None:
    for key in WORKFLOWS.keys.values():
        assert key.example in WORKFLOWS.describe()
        assert parse_workflows(key.example).terms
    assert "run:" not in WORKFLOWS.describe()


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("", [f"{key}:" for key in WORKFLOWS.keys]),
        ("st", ["status:"]),
        ("fail", ["status:failed"]),
        ("status:pa", ["status:paused"]),
        ("parent:", ["parent:yes", "parent:no"]),
        ("def", ["definition:"]),
        ("name:mon", ["name:month_end"]),
        ("queue:", []),
    ],
)
def test_completion_offers_the_words_of_this_language(text: str, completed: list[str]) -> None:
    found = completions(text, len(text), {"name": ["month_end"], "queue": ["mail"]}, WORKFLOWS)
    assert [text[: each.start] + each.text + text[each.end :] for each in found][: len(completed)] == completed
    assert bool(found) is bool(completed)


NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SOON, LATE = NOON + timedelta(minutes=5), NOON - timedelta(minutes=5)

ROWS = {
    row.name: row
    for row in (
        a_schedule("nightly_report", timezone="Europe/Berlin", queue="bulk", next_run_at=NOON + timedelta(hours=13)),
        a_schedule(
            "sync", pattern=EVERY_5_MIN, target="shop.sync", next_run_at=SOON, run_count=500, runs=(a_run(NOON),)
        ),
        a_schedule("broken", target="shop.broken", next_run_at=SOON, runs=(a_run(NOON), a_run(LATE, "FAILED"))),
        a_schedule("worse", next_run_at=SOON, runs=(a_run(NOON, "SKIPPED"), a_run(LATE, "FAILED")), skip_slot=SOON),
        a_schedule("late", next_run_at=LATE),
        a_schedule("alone", next_run_at=SOON, schedulers=()),
        a_schedule("paused", kind="workflow", target="month_end", next_run_at=LATE, paused_at=LATE),
        a_schedule("theirs", definition=None, next_run_at=SOON),
    )
}


def found(text: str) -> set[str]:
    return {row.name for row in matching_schedules(parse_schedules(text), ROWS.values(), NOON)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set(ROWS)),
        ("status:overdue", {"late"}),
        ("status:stuck", {"late", "alone"}),
        ("status:paused,unserved", {"paused", "alone"}),
        ("-status:scheduled", {"late", "alone", "paused"}),
        ("name:*ly*", {"nightly_report"}),
        ("sends:shop.*", set(ROWS) - {"paused", "theirs"}),
        ("month", {"paused"}),
        ("broken", {"broken"}),
        ("queue:bulk", {"nightly_report"}),
        ("zone:Europe/*", {"nightly_report"}),
        ("last:completed", {"sync", "broken"}),
        ("last:failed", {"worse"}),
        ("has:failures", {"broken", "worse"}),
        ("has:failures -has:skip", {"broken"}),
        ("has:workflow", {"paused"}),
        ("next:<10m status:scheduled", {"sync", "broken", "worse", "theirs"}),
        ("next:>1h", {"nightly_report"}),
        ("runs:>0", {"sync"}),
    ],
)
def test_the_schedules_that_match(text: str, names: set[str]) -> None:
    assert found(text) == names


def test_each_state_can_be_asked_for() -> None:
    assert SCHEDULES.every_state == {*Standing}


@pytest.mark.parametrize(
    ("text", "meant"), [("status:missed", "overdue"), ("status:pausd", "paused"), ("task:a", "sends")]
)
def test_a_mistake_is_pointed_at_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_schedules(text)
    assert caught.value.problems[0].suggestion == meant


def test_the_example_is_a_filter() -> None:
    assert parse_schedules(SCHEDULES.example).text == SCHEDULES.example
