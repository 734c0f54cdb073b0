"""When a feed reads again, and which part of the counts is next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from horsies.query import parse, task_conditions
from horsies.views import Count, Cursor, TaskCounts, count_parts
from horsies.views.searching import Rest as Left
from horsies.views.tasks import UNSUCCESSFUL
from horsies_tui.feed.pace import OperatorIdle, ReadPace, Rhythm
from horsies_tui.feed.tally import MOST_TURNS, Tally

RHYTHM = Rhythm()
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def read(pace: ReadPace, began: float, took: float = 0.01, *, done: bool = True) -> None:
    pace.begin(began)
    pace.end(began + took, done=done)


def test_notifications_are_folded_into_one_read_per_tick() -> None:
    pace = ReadPace(RHYTHM)
    read(pace, 10.0)
    for _ in range(1_000):
        pace.mark(12.0)
    assert pace.due_at(told=True) == 10.25


def test_without_a_change_it_is_read_seldom_where_changes_are_told_and_polled_where_not() -> None:
    pace = ReadPace(RHYTHM)
    read(pace, 10.0)
    assert (pace.due_at(told=True), pace.due_at(told=False)) == (25.0, 12.0)


def test_a_slow_read_is_repeated_after_five_times_its_cost() -> None:
    pace = ReadPace(RHYTHM)
    read(pace, 10.0, took=2.0)
    pace.mark(12.0)
    assert pace.due_at(told=True) == 20.0
    assert pace.due_at(told=False) == 20.0


def test_a_read_that_was_given_up_is_still_to_be_done() -> None:
    pace = ReadPace(RHYTHM)
    read(pace, 10.0, took=2.0, done=False)
    assert pace.due_at(told=True) == 20.0


def test_a_new_connection_forgets_how_slow_it_was() -> None:
    pace = ReadPace(RHYTHM)
    read(pace, 10.0, took=3.0, done=False)
    pace.renew()
    assert pace.due_at(told=True) == 0.0


def test_the_operator_rests_two_seconds_after_he_moved_and_never_while_he_is_busy() -> None:
    rest = OperatorIdle(2.0)
    assert rest.at(0.0)
    rest.touch(10.0)
    assert (rest.at(11.9), rest.at(12.0), rest.begins_at()) == (False, True, 12.0)
    rest.busy = True
    assert (rest.at(100.0), rest.begins_at()) == (False, None)


def counted(tally: Tally, now: float, *, done: bool = True) -> tuple[str, ...] | None:
    """One turn; returns the statuses that were counted."""
    tally.begin(now)
    statuses = tally.part.statuses
    if done:
        tally.add(TaskCounts({status: Count(1) for status in statuses or ()}, None, 7))
    tally.end(now + 0.01, done=done)
    return statuses


def test_the_first_counts_are_read_part_by_part_without_a_pause_and_told_when_they_are_whole() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse(""))))
    parts = []
    while not tally.is_complete:
        assert tally.due_at(told=True) == 0.0
        assert tally.counts is None
        parts.append(counted(tally, 10.0))
    assert len(parts) == len(set(parts)) == 4
    assert tally.counts is not None
    assert tally.counts.total == Count(7)
    assert tally.counts.in_table == 7
    assert tally.due_at(told=True) == 25.0


def test_each_part_is_read_again_after_a_reconnect_and_with_age() -> None:
    """Only one of four was: changes during an outage stayed uncounted for a minute, and ctrl+r did not help."""
    tally = Tally(RHYTHM, count_parts(task_conditions(parse(""))))
    for _ in range(4):
        counted(tally, 10.0)
    tally.renew()
    assert len({counted(tally, 11.0 + turn / 4) for turn in range(4)}) == 4
    assert not tally.dirty
    now, parts = tally.due_at(told=True), set()
    assert now > 25
    while tally.due_at(told=True) <= now:
        parts.add(counted(tally, now))
        now += 0.25
    assert len(parts) == 4


def test_a_part_that_failed_waits_and_is_read_again() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse("status:failed,running"))))
    first = counted(tally, 10.0, done=False)
    assert tally.due_at(told=True) == 10.25
    assert {counted(tally, 11.0), counted(tally, 12.0)} >= {first}
    assert tally.is_complete


def test_a_new_filter_forgets_the_counts_of_the_old_one() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse("status:running"))))
    counted(tally, 10.0)
    assert tally.counts is not None
    tally.ask(count_parts(task_conditions(parse("status:failed"))))
    assert tally.counts is None
    assert counted(tally, 10.0) == ("FAILED",)


def stretches(*numbers: int) -> list[TaskCounts]:
    """The counts of each turn for one part: a number, and for all but the last that there is more."""
    found = []
    for place, number in enumerate(numbers, 1):
        rest = Left(UNSUCCESSFUL, Cursor(NOON - timedelta(minutes=place))) if place < len(numbers) else None
        states = {"FAILED": Count(number, rest is not None)}
        found.append(TaskCounts(states, rest.after.time if rest else None, 7, rest))
    return found


def test_what_was_not_counted_to_its_end_goes_on_until_it_is() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse("status:failed"))))
    told, now = [], 10.0
    for counts in stretches(2_500, 1_200, 65):
        assert tally.due_at(told=True) <= now
        tally.begin(now)
        assert (tally.rest is None) is (not told)
        tally.add(counts)
        tally.end(now, done=True)
        assert tally.counts is not None
        told.append((str(tally.counts.total), tally.counts.reached))
        now += 1
    assert told == [
        ("2500+", NOON - timedelta(minutes=1)),
        ("3700+", NOON - timedelta(minutes=2)),
        ("3765", None),
    ]
    assert tally.due_at(told=True) > now


def test_a_number_that_was_counted_to_its_end_stays_until_it_is_counted_again() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse("status:failed"))))
    told = []
    for counts in (*stretches(10, 10), *stretches(11, 11)):
        tally.begin(10.0)
        tally.add(counts)
        tally.mark(12.0)
        tally.end(10.0, done=True)
        assert tally.counts is not None
        told.append(str(tally.counts.total))
    assert told == ["10+", "20", "20", "22"]


def test_a_part_without_an_end_is_given_up_and_says_so() -> None:
    tally = Tally(RHYTHM, count_parts(task_conditions(parse("status:failed"))))
    endless = stretches(10, 10)[0]
    for _ in range(MOST_TURNS + 1):
        tally.begin(10.0)
        tally.add(endless)
        tally.end(10.0, done=True)
    assert tally.counts is not None
    assert tally.counts.total == Count(10 * (MOST_TURNS + 1), at_least=True)
    assert not tally.dirty


def test_a_turn_that_was_superseded_by_other_parts_is_none_of_them() -> None:
    """A filter that was typed while the one before was counted ended the counts of the list for good."""
    parts = count_parts(task_conditions(parse("status:failed")))
    tally = Tally(RHYTHM, parts)
    tally.begin(10.0)
    tally.ask(parts)
    tally.end(10.0, done=False)
    for _ in range(4):
        tally.begin(11.0)
        tally.add(stretches(10)[0])
        tally.end(11.0, done=True)
    assert tally.counts is not None
    assert tally.counts.total == Count(10)


def test_a_slow_read_that_is_put_off_says_when_what_is_shown_is_too_old() -> None:
    """Reads of 0.9 s were repeated every 18 s under LIVE."""
    pace = ReadPace(Rhythm(tick_s=2.0, poll_s=2.0, reconcile_s=5.0, slow_factor=20.0, grace_s=3.0))
    assert not pace.is_overdue(100.0, told=True)
    pace.begin(100.0)
    pace.end(100.9, done=True)
    assert pace.due_at(told=True) == pytest.approx(118.0)
    assert [pace.is_overdue(at, told=True) for at in (107.9, 108.1)] == [False, True]
    pace.mark(101.0)
    assert [pace.is_overdue(at, told=True) for at in (104.9, 105.1)] == [False, True]
    pace.begin(118.0)
    pace.mark(118.5)
    pace.end(119.0, done=False)
    assert pace.is_overdue(119.0, told=True)
    pace.begin(119.0)
    assert pace.is_overdue(119.5, told=True)
    pace.mark(119.4)
    pace.end(119.5, done=True)
    assert [pace.is_overdue(at, told=True) for at in (123.9, 124.1)] == [False, True]


def test_parts_that_wait_behind_a_slow_one_are_as_old_as_their_own_last_count() -> None:
    """A lock of a second put off each further part by five seconds, and the sum was shown as current meanwhile."""
    tally = Tally(Rhythm(grace_s=3.0), count_parts(task_conditions(parse("status:failed,running"))))
    assert counted(tally, 10.0) != counted(tally, 10.1)
    tally.mark(12.0)
    tally.begin(12.0)
    tally.add(TaskCounts({}, None, 7))
    tally.end(13.5, done=True)
    assert tally.due_at(told=True) == pytest.approx(19.5)
    tally.mark(14.0)  # of all further ones only the first one counts
    assert [tally.is_overdue(at, told=True) for at in (14.9, 15.1)] == [False, True]
    counted(tally, 19.5)
    assert [tally.is_overdue(at, told=True) for at in (16.9, 17.1)] == [False, True]
