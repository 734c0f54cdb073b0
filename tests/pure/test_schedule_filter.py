"""The filter of schedules: matches and errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from schedule_scene import EVERY_5_MIN, a_run, a_schedule

from horsies.query import SCHEDULES, FilterError, parse_schedules
from horsies.views import Standing
from horsies.views.row_filter import matching_schedules

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
