"""Schedules that cannot be sent: when they are tried again, and how often that is logged."""

from __future__ import annotations

import logging

import pytest

from horsies.run import scheduler
from horsies.run.events import Events
from horsies.run.scheduler import ScheduleFailures


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: now[0])
    return now


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(record.fields["error"], record.fields["failures"]) for record in caplog.records]  # type: ignore[attr-defined]


def test_a_schedule_that_fails_is_tried_again_at_a_rising_interval_of_a_minute_at_most(clock: list[float]) -> None:
    failures = ScheduleFailures(Events(logging.getLogger("test.quiet")))
    pauses = []
    for _ in range(9):
        failures.add("a", "no such queue")
        begin = clock[0]
        while failures.waits("a"):
            clock[0] += 0.5
        pauses.append(clock[0] - begin)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert not failures.waits("b")
    failures.add("a", "no such queue")
    failures.forget("a")
    assert not failures.waits("a")


def test_the_same_error_is_logged_ever_more_rarely_and_another_one_at_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = ScheduleFailures(Events(logging.getLogger("test.failures")))
    for _ in range(20):
        failures.add("a", "no such queue")
    failures.add("a", "no such table")
    failures.forget("a")
    failures.add("a", "no such table")
    assert logged(caplog) == [
        *(("no such queue", count) for count in (1, 2, 4, 8, 16)),
        ("no such table", 1),
        ("no such table", 1),
    ]
