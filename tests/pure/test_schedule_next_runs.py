"""The runs that are planned, by the definition that a scheduler stored, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from schedule_scene import AT_HALF_PAST_TWO, EVERY_5_MIN, a_schedule

from horsies.views import next_runs

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def planned(count: int = 3, now: datetime = NOON, **changes: Any) -> list[datetime]:
    return [run.at for run in next_runs(a_schedule(**changes), now, count)]


def test_an_interval_goes_on_from_the_run_that_is_planned() -> None:
    first = at("2026-11-17 12:03:07")
    assert planned(pattern=EVERY_5_MIN, next_run_at=first) == [first, first + HOUR / 12, first + HOUR / 6]


def test_an_overdue_interval_runs_once_and_then_in_step_with_its_slots() -> None:
    late = at("2026-11-17 11:40:00")
    assert planned(pattern=EVERY_5_MIN, next_run_at=late) == [
        late,
        at("2026-11-17 12:05:00"),
        at("2026-11-17 12:10:00"),
    ]


def test_one_that_catches_up_sends_every_missed_slot() -> None:
    late = at("2026-11-17 11:50:00")
    slots = planned(5, pattern=EVERY_5_MIN, next_run_at=late, catch_up_missed=True)
    assert slots == [late + number * HOUR / 12 for number in range(5)]


def test_a_paused_one_shows_the_runs_after_now() -> None:
    late = at("2026-11-17 11:40:00")
    slots = planned(2, pattern=EVERY_5_MIN, next_run_at=late, paused_at=NOON)
    assert slots == [at("2026-11-17 12:05:00"), at("2026-11-17 12:10:00")]


def test_one_that_was_never_planned_counts_from_now() -> None:
    slots = planned(2, pattern=AT_HALF_PAST_TWO, next_run_at=None)
    assert slots == [at("2026-11-18 02:30:00"), at("2026-11-19 02:30:00")]


def test_a_change_of_the_clocks_is_marked_on_the_first_run_after_it() -> None:
    autumn = at("2026-10-24 10:00:00")
    row = a_schedule(pattern={"type": "daily", "time": "12:00:00"}, timezone=BERLIN, next_run_at=autumn)
    runs = next_runs(row, autumn - HOUR, 3)
    assert [run.at for run in runs] == [autumn, at("2026-10-25 11:00:00"), at("2026-10-26 11:00:00")]
    assert [run.shift for run in runs] == [0 * HOUR, -HOUR, 0 * HOUR]


def test_a_first_run_after_the_change_is_marked_too() -> None:
    row = a_schedule(pattern=AT_HALF_PAST_TWO, timezone=BERLIN, next_run_at=at("2027-03-29 00:30:00"))
    (run,) = next_runs(row, at("2027-03-27 12:00:00"), 1)
    assert run.shift == HOUR


def test_the_slot_that_is_skipped_is_said() -> None:
    skipped = at("2026-11-19 02:30:00")
    row = a_schedule(pattern=AT_HALF_PAST_TWO, next_run_at=at("2026-11-18 02:30:00"), skip_slot=skipped)
    assert [run.is_skipped for run in next_runs(row, NOON, 3)] == [False, True, False]


def test_a_scheduler_that_looks_seldom_may_be_late_for_twice_as_long() -> None:
    late = a_schedule(next_run_at=NOON - timedelta(seconds=90))
    seldom = a_schedule(next_run_at=NOON - timedelta(seconds=90), check_interval_seconds=60)
    assert (late.overdue(NOON), seldom.overdue(NOON)) == (timedelta(seconds=90), None)


def test_no_more_runs_than_there_are() -> None:
    assert planned(definition=None, next_run_at=None) == []
    assert planned(definition=None, next_run_at=NOON) == [NOON]
