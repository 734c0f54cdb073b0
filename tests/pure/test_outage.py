"""Who may have been silent because there was no database to speak to."""

from __future__ import annotations

import pytest

from horsies.config.resilience import WorkerResilienceConfig
from horsies.run.outage import Outage


class Clock:
    """Goes on when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock) -> Outage:
    return Outage(WorkerResilienceConfig(db_retry_initial_ms=1_000, db_retry_max_ms=8_000), clock)


def test_without_an_outage_silence_is_silence(outage: Outage) -> None:
    assert not outage.excuses(300, 30)


def test_one_that_lasted_long_enough_excuses_until_everybody_has_had_time_to_beat(outage: Outage, clock: Clock) -> None:
    for _ in range(40):  # ten seconds, the longest pause with its jitter, between two tries
        outage.noticed()
        clock.now += 10
    clock.now += 29
    assert outage.excuses(300, 30)
    clock.now += 2
    assert not outage.excuses(300, 30)


def test_a_short_one_excuses_no_long_silence(outage: Outage, clock: Clock) -> None:
    outage.noticed()
    clock.now += 5
    outage.noticed()
    assert outage.excuses(44, 30)
    assert not outage.excuses(46, 30)


def test_two_of_them_do_not_add_up_to_a_long_one(outage: Outage, clock: Clock) -> None:
    outage.noticed()
    clock.now += 3_600
    outage.noticed()
    assert not outage.excuses(300, 30)
