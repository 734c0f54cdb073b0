"""Rates and the verdict of the overview; its history: points by bucket, and gaps for missing data."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from health_scene import NOON, a_finding, a_glance, a_queue, a_report, a_worker, ago, gone
from hypothesis import given, strategies as st

from horsies.findings import Severity
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.views import Buckets, ClusterPoint, Count, Flow, Liveness, QueueRate, TaskPoint
from horsies_tui.health.alerts import Level, alerts
from horsies_tui.health.glance import Glance
from horsies_tui.health.history import History, Series, last_known
from horsies_tui.health.rates import Course, Outlook, all_queues, all_rates, outlook
from horsies_tui.health.verdict import ClusterVerdict, verdict
from horsies_tui.health.windows import USUAL, WINDOWS, Window, neighbour
from horsies_tui.look.cells import Look
from horsies_tui.overview.rows import QUEUE_COLUMNS, QueueLine, queue_lines

RATES = st.floats(0, 1000, allow_subnormal=False)


def test_each_course_has_its_reason() -> None:
    courses = {
        Course.EMPTY: outlook(a_queue(), QueueRate(5, 0)),
        Course.PAUSED: outlook(a_queue(due=5, paused_at=ago(1)), QueueRate(5, 5)),
        Course.GROWS: outlook(a_queue(due=100), QueueRate(5, 4)),
        Course.STANDS: outlook(a_queue(due=5), QueueRate(0, 0)),
        Course.HOLDS: outlook(a_queue(due=5), QueueRate(5, 5.2)),
        Course.DRAINS: outlook(a_queue(due=5), QueueRate(4, 5)),
    }
    assert [found.course for found in courses.values()] == list(courses)


@pytest.mark.parametrize("passed_s", [3, 8, 15, 26])
def test_a_queue_that_drains_after_a_burst_does_not_grow(passed_s: float) -> None:
    """1,377 tasks sent within a second, 50 a second done: it was called growing until the queue was empty."""
    due = 1377 - round(50 * passed_s)
    lately_s = min(passed_s, 5)
    burst = 1377 if passed_s < 5 else 0
    flows = Flow(1377 / 60, 50 * passed_s / 60, 60), Flow(burst / 5, 50 * lately_s / 5, 5)
    found = outlook(a_queue(due=due), QueueRate(1377 / 300, 50 * passed_s / 300, *flows))
    if burst:
        assert found.course is Course.GROWS  # it does arrive, in these five seconds
    else:
        assert (found.course, found.left) == (Course.DRAINS, timedelta(seconds=due / 50))


def test_the_last_minute_decides_the_trend_unless_its_difference_is_chance() -> None:
    queue = a_queue(due=200)
    starts = QueueRate(0.5, 0.2, Flow(2.45, 0.63, 60), Flow(2.4, 0.6, 5))
    assert (outlook(queue, starts).course, outlook(queue, starts).growth_per_s) == (Course.GROWS, pytest.approx(1.82))
    over = QueueRate(5, 2, Flow(0, 2, 60), Flow(0, 2, 5))
    assert outlook(queue, over) == Outlook(Course.DRAINS, timedelta(seconds=100))
    chance = QueueRate(1, 1, Flow(7 / 60, 5 / 60, 60), Flow(0.2, 0, 5))
    assert outlook(queue, chance).course is Course.HOLDS
    assert outlook(queue, QueueRate(0, 5, Flow(0, 0, 60), Flow(0, 0, 5))).course is Course.STANDS


@given(st.integers(0, 1_000_000), RATES, RATES)
def test_only_what_drains_has_an_end_and_it_lies_ahead(due: int, comes: float, goes: float) -> None:
    found = outlook(a_queue(due=due), QueueRate(comes, goes))
    assert (found.left is not None) is (found.course is Course.DRAINS)
    if found.left is not None:
        assert goes > comes
        assert 0 < found.left.total_seconds() * (goes - comes) < due + 1
    if found.course is Course.GROWS:
        assert found.growth_per_s > 0
    if due == 0:
        assert found == Outlook(Course.EMPTY)


def test_all_queues_are_the_sum_of_them() -> None:
    rows = (
        a_queue("a", due=3, running=2, later=Count(1), oldest_due_at=ago(9)),
        a_queue("b", claimed=4),
        a_queue("c", due=5, oldest_due_at=ago(90)),
    )
    total = all_queues((*rows, a_queue("d", later=Count(7, at_least=True))))
    assert (total.due, total.later, total.running, total.claimed) == (Count(8), Count(8, at_least=True), 2, 4)
    assert (total.oldest_due_at, total.cap, total.name) == (ago(90), None, "")
    assert all_rates({"a": QueueRate(1, 2), "b": QueueRate(3, 4)}) == QueueRate(4, 6)
    assert all_queues(()).due == Count(0)


def test_all_queues_together_are_not_paused_when_one_is() -> None:
    rows = (a_queue("a", due=3, paused_at=ago(9)), a_queue("b"), a_queue("c", due=2, paused_at=ago(5)))
    sums, *each = queue_lines(a_glance(queues=rows))
    trend = next(column for column in QUEUE_COLUMNS.columns if column.key == "drains")
    assert trend.cell(sums, Look(NOON)).text == "2 of 3 paused"
    assert [trend.cell(line, Look(NOON)).text.split()[0] for line in each] == ["paused", "–", "paused"]


@pytest.mark.parametrize(
    ("comes", "waited_s", "said"), [(5, 1, "at once"), (4, 1, "at once"), (5, 180, "steady"), (4, 180, "steady")]
)
def test_what_has_long_waited_is_not_gone_at_once(comes: float, waited_s: float, said: str) -> None:
    row, rate = a_queue(due=5, oldest_due_at=ago(waited_s)), QueueRate(comes, 5)
    drains = next(column for column in QUEUE_COLUMNS.columns if column.key == "drains")
    assert drains.cell(QueueLine(row, rate, outlook(row, rate)), Look(NOON)).text == said


def judged(glance: Glance) -> ClusterVerdict:
    return verdict(glance, alerts(glance))


def said(glance: Glance) -> str:
    found = judged(glance)
    return found.lead + found.words


def test_all_is_well_with_workers_their_load_and_what_is_due() -> None:
    assert said(a_glance()) == "Healthy: 2 workers, 50% busy, no tasks waiting."
    queues = (a_queue(due=3), a_queue("bulk", due=600))
    glance = a_glance(queues=queues, rates={"mail": QueueRate(1, 9), "bulk": QueueRate(0, 1)})
    assert said(glance) == "Healthy: 2 workers, 50% busy, 603 waiting; bulk clear in 10m."
    assert judged(glance).alert is None


def test_a_vanished_worker_comes_first_and_the_slowest_queue_last() -> None:
    interrupted = a_finding(
        INTERRUPTED, "build_report", 2, severity=Severity.NEEDS_ACTION, since=ago(9000), worker_id=None
    )
    glance = a_glance(
        interrupted, gone(), a_finding(count=3),
        queues=(a_queue(due=1440, oldest_due_at=ago(30)),), rates={"mail": QueueRate(28, 30)},
    )  # fmt: skip
    found = judged(glance)
    assert found.lead + found.words == (
        "Critical: web-3 is lost for 6m, holds 13 tasks, 3 stale; 2 build_report interrupted; mail clear in 12m."
    )
    assert found.level is Level.CRITICAL
    assert found.alert == alerts(glance)[0]


def test_what_does_not_fit_is_counted() -> None:
    findings = [a_finding(name=f"t{n}", worker_id=None) for n in range(4)]
    assert said(a_glance(*findings)) == "Degraded: 1 t0 stale; 1 t1 stale; 2 more alerts below."


def test_where_the_line_is_short_less_is_said_and_nothing_is_cut_that_need_not_be() -> None:
    queues = (a_queue(due=1440, oldest_due_at=ago(30)),)
    glance = a_glance(gone(), *(a_finding(name=f"t{n}", worker_id=None) for n in range(2)), queues=queues,
                      rates={"mail": QueueRate(28, 30)})  # fmt: skip
    found = {room: verdict(glance, alerts(glance), room).words for room in (200, 100, 80, 60, 9)}
    assert found[200].endswith("13 tasks; 1 t0 stale; 1 more alert below; mail clear in 12m.")
    assert found[100] == "web-3 is lost for 6m, holds 13 tasks; 1 t0 stale; 1 more alert below; mail clear in 12m."
    assert found[80] == "web-3 is lost for 6m, holds 13 tasks; 2 more alerts below."
    assert found[60] == found[9] == "web-3 is lost for 6m, holds 13 tasks."


def test_notes_alone_leave_all_well() -> None:
    glance = a_glance(workers=(a_worker(), a_worker("web-2", Liveness.LOST, 60, running=0)))
    assert said(glance) == "Healthy: 1 worker, 50% busy, no tasks waiting."


def test_without_workers_and_work_nothing_is_said_to_be_well() -> None:
    found = judged(a_glance(workers=(), report=a_report(workers_alive=0, sweep=None)))
    assert (found.lead, found.words) == ("", "No worker is alive; no tasks waiting.")
    first = judged(a_glance(workers=(), had_workers=False, queues=(a_queue(due=3),)))
    assert (first.lead, first.words) == ("", "No worker yet; 3 waiting.")


WINDOW = WINDOWS[0]
SECONDS = st.integers(0, 3_000)


def task_points(buckets: Buckets, ended: float = 10.0) -> tuple[TaskPoint, ...]:
    step_s = buckets.step.total_seconds()
    return tuple(TaskPoint(start, step_s, ended, 1.0, 0.0, waiting=5.0, run_p50=0.5) for start in buckets.starts)


def cluster(buckets: Buckets) -> tuple[ClusterPoint, ...]:
    return tuple(ClusterPoint(start, 2, 0.5) for start in buckets.starts)


def read(history: History, now: datetime, window: Window = WINDOW) -> tuple[Buckets, Series]:
    """As a feed does: read what is missing, add it, draw."""
    buckets = window.buckets(now)
    missing = history.missing(buckets)
    history.put(buckets, task_points(missing), cluster(missing))
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
    history.put(buckets, task_points(buckets), cluster(buckets))
    later = WINDOW.buckets(NOON + WINDOW.step)
    missing = history.missing(later)
    assert buckets.starts[-1] in missing.starts
    history.put(later, task_points(missing, ended=40.0), cluster(missing))
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
        for number, point in enumerate(task_points(buckets))
    ]
    seen = [point for number, point in enumerate(cluster(buckets)) if number not in lost]
    history.put(buckets, told, seen)
    series = history.series(buckets)
    for values in (series.ended, series.waiting, series.run_p50, series.busy):
        assert {number for number, value in enumerate(values) if value is None} == lost
    assert set(series.wait_p95) == {None}


def test_a_bucket_that_has_just_begun_has_no_rate_yet() -> None:
    history, buckets = History(), WINDOW.buckets(NOON)
    *whole, newest = task_points(buckets)
    begun = TaskPoint(newest.start, 1.0, 3.0, 0.0, 0.0, waiting=5.0)
    history.put(buckets, [*whole, begun], cluster(buckets))
    series = history.series(buckets)
    assert series.ended[-2:] == (1.1, None)
    assert series.waiting[-1] == 5.0


def test_what_has_just_failed_is_in_the_rate_that_is_said() -> None:
    """It was 0 for half a bucket: 30 s in the default window."""
    history, buckets = History(), WINDOW.buckets(NOON)
    *whole, newest = task_points(buckets)
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
