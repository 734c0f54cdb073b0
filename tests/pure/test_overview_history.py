"""The history: points by bucket, kept as they are read, and gaps for missing data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from horsies.views import Buckets, ClusterPoint, TaskPoint
from horsies_tui.health.history import History, Series, last_known
from horsies_tui.health.windows import USUAL, WINDOWS, Window, neighbour

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
WINDOW = WINDOWS[0]
SECONDS = st.integers(0, 3_000)


def points(buckets: Buckets, ended: float = 10.0) -> tuple[TaskPoint, ...]:
    step_s = buckets.step.total_seconds()
    return tuple(TaskPoint(start, step_s, ended, 1.0, 0.0, waiting=5.0, run_p50=0.5) for start in buckets.starts)


def cluster(buckets: Buckets) -> tuple[ClusterPoint, ...]:
    return tuple(ClusterPoint(start, 2, 0.5) for start in buckets.starts)


def read(history: History, now: datetime, window: Window = WINDOW) -> tuple[Buckets, Series]:
    """As a feed does: read what is missing, add it, draw."""
    buckets = window.buckets(now)
    missing = history.missing(buckets)
    history.put(buckets, points(missing), cluster(missing))
    return missing, history.series(buckets)


@given(SECONDS, st.sampled_from(WINDOWS))
def test_a_window_ends_with_now_and_is_as_long_as_it_says(after: int, window: Window) -> None:
    now = NOON + timedelta(seconds=after)
    buckets = window.buckets(now)
    assert buckets.index(now) == buckets.count - 1
    assert buckets.count * buckets.step == window.length
    assert buckets.starts[0] > now - window.length
    assert all((start - NOON) % window.step == timedelta(0) for start in buckets.starts)


@given(st.lists(st.integers(0, 400), max_size=20), st.sampled_from(WINDOWS))
@settings(deadline=None)
def test_whenever_it_is_read_nothing_is_missing_and_only_what_is_new_was_asked_for(
    pauses: list[int], window: Window
) -> None:
    history, now = History(), NOON
    read(history, now, window)
    for pause in pauses:
        before = window.buckets(now)
        now += timedelta(seconds=pause)
        missing, series = read(history, now, window)
        assert None not in series.waiting
        assert None not in series.busy
        wanted = window.buckets(now)
        moved = (wanted.first - before.first) // window.step
        assert missing.count == min(max(moved + 1, 2), wanted.count)
        assert missing.end == wanted.end


def test_what_was_not_over_is_read_again() -> None:
    history = History()
    buckets = WINDOW.buckets(NOON)
    history.put(buckets, points(buckets), cluster(buckets))
    later = WINDOW.buckets(NOON + WINDOW.step)
    missing = history.missing(later)
    assert buckets.starts[-1] in missing.starts
    history.put(later, points(missing, ended=40.0), cluster(missing))
    assert history.series(later).ended[-3:] == (1.1, 4.1, 4.1)


def test_after_an_outage_longer_than_the_window_all_is_read_anew() -> None:
    history = History()
    read(history, NOON)
    assert history.missing(WINDOW.buckets(NOON + timedelta(hours=2))).count == WINDOW.buckets(NOON).count


@given(st.sets(st.integers(0, 29)))
def test_gaps_stay_gaps_wherever_they_are(lost: set[int]) -> None:
    history, buckets = History(), WINDOW.buckets(NOON)
    told = [
        TaskPoint(point.start, point.seconds) if number in lost else point
        for number, point in enumerate(points(buckets))
    ]
    seen = [point for number, point in enumerate(cluster(buckets)) if number not in lost]
    history.put(buckets, told, seen)
    series = history.series(buckets)
    for values in (series.ended, series.waiting, series.run_p50, series.busy):
        assert {number for number, value in enumerate(values) if value is None} == lost
    assert set(series.wait_p95) == {None}


def test_a_bucket_that_has_just_begun_has_no_rate_yet() -> None:
    history, buckets = History(), WINDOW.buckets(NOON)
    *whole, newest = points(buckets)
    begun = TaskPoint(newest.start, 1.0, 3.0, 0.0, 0.0, waiting=5.0)
    history.put(buckets, [*whole, begun], cluster(buckets))
    series = history.series(buckets)
    assert series.ended[-2:] == (1.1, None)
    assert series.waiting[-1] == 5.0


def test_what_has_just_failed_is_in_the_rate_that_is_said() -> None:
    """It was 0 for half a bucket: 30 s in the default window."""
    history, buckets = History(), WINDOW.buckets(NOON)
    *whole, newest = points(buckets)
    history.put(buckets, [*whole, TaskPoint(newest.start, 2.0, 0.0, 47.0, 0.0)], ())
    series = history.series(buckets)
    assert series.failed_lately == pytest.approx((1 + 47) / 12)
    assert series.ended_lately == pytest.approx((11 + 47) / 12)
    history.put(buckets, [TaskPoint(newest.start, 6.0, 0.0, 47.0, 0.0)], ())
    assert history.series(buckets).failed_lately == pytest.approx(47 / 6)
    history.put(buckets, [TaskPoint(point.start, point.seconds) for point in whole], ())
    assert history.series(buckets).failed_lately == pytest.approx(47 / 6)
    history.put(buckets, [TaskPoint(newest.start, 2.0, 0.0, 47.0, 0.0)], ())
    assert history.series(buckets).failed_lately is None


def test_rates_taken_from_a_part_are_marked() -> None:
    history, buckets = History(), WINDOW.buckets(NOON)
    history.put(buckets, [TaskPoint(buckets.first, 10.0, 1.0, 0.0, 0.0, partly=True)], ())
    assert history.series(buckets).about


def test_now_is_one_of_the_last_two_or_nothing() -> None:
    assert last_known((1.0, 2.0, None)) == 2.0
    assert last_known((1.0, None, None)) is None
    assert last_known(()) is None


@pytest.mark.parametrize(("step", "name"), [(1, "6h"), (-1, "30m"), (9, "24h"), (-9, "5m")])
def test_windows_end_at_the_shortest_and_the_longest(step: int, name: str) -> None:
    assert neighbour(USUAL, step).name == name
