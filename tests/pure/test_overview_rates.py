"""Rates: the trend of a queue, and of all queues together."""

from __future__ import annotations

import pytest
from health_scene import NOON, a_queue, ago
from hypothesis import given, strategies as st

from horsies.views import Count, QueueRate
from horsies_tui.health.rates import Course, Outlook, all_queues, all_rates, outlook
from horsies_tui.look.cells import Look
from horsies_tui.overview.rows import QUEUE_COLUMNS, QueueLine

RATES = st.floats(0, 1000, allow_subnormal=False)


def test_a_queue_drains_in_what_is_due_by_what_goes_out_more_than_comes_in() -> None:
    found = outlook(a_queue(due=1440), QueueRate(28, 30))
    assert found.course is Course.DRAINS
    assert found.left is not None
    assert found.left.total_seconds() == 720


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


@pytest.mark.parametrize(
    ("comes", "waited_s", "said"), [(5, 1, "at once"), (4, 1, "at once"), (5, 180, "steady"), (4, 180, "steady")]
)
def test_what_has_long_waited_is_not_gone_at_once(comes: float, waited_s: float, said: str) -> None:
    row, rate = a_queue(due=5, oldest_due_at=ago(waited_s)), QueueRate(comes, 5)
    drains = next(column for column in QUEUE_COLUMNS.columns if column.key == "drains")
    assert drains.cell(QueueLine(row, rate, outlook(row, rate)), Look(NOON)).text == said
