"""When the title of a child process changes: for long jobs, and not for short ones."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest

from horsies.run.pool.title import PAUSE_S, Title


class Loop:
    """Keeps the only timer that a title may have."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []

    def call_later(self, _delay_s: float, callback: Callable[[], None]) -> object:
        self.timers.append(callback)
        return callback

    def let_time_pass(self) -> None:
        due, self.timers = self.timers, []
        for callback in due:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def running() -> dict[str, float]:
    return {}


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def title(loop: Loop, running: dict[str, float], shown: list[str]) -> Title:
    return Title(loop, "idle", running, lambda _key: "report", shown.append)  # type: ignore[arg-type]


def test_short_jobs_share_one_timer_and_change_nothing(
    title: Title, loop: Loop, running: dict[str, float], shown: list[str]
) -> None:
    for key in ("a", "b", "c"):
        running[key] = monotonic()
        title.begun()
        del running[key]
        title.ended()
    assert len(loop.timers) == 1
    loop.let_time_pass()
    assert shown == []
    assert loop.timers == []


def test_a_long_job_is_shown_once_and_its_end_too(
    title: Title, loop: Loop, running: dict[str, float], shown: list[str]
) -> None:
    running["0199a1b2-7f3a9c01/12"] = monotonic() - PAUSE_S
    title.begun()
    loop.let_time_pass()
    assert shown == ["idle · report …7f3a9c01"]
    assert loop.timers == [], "nothing to look for while the same job runs on"
    running.clear()
    title.ended()
    loop.let_time_pass()
    assert shown[1:] == ["idle"]


def test_several_long_jobs_are_counted(title: Title, loop: Loop, running: dict[str, float], shown: list[str]) -> None:
    running.update(a=monotonic() - PAUSE_S, b=monotonic() - PAUSE_S, c=monotonic())
    title.begun()
    loop.let_time_pass()
    assert shown == ["idle · 2 tasks"]
    assert len(loop.timers) == 1, "the third has to be looked at again"
