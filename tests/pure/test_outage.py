"""After an outage outcomes and beats are stored first; then the worker claims again."""

from __future__ import annotations

import pytest

from horsies.run.loops import BEATS, Outage


class Scene:
    """A worker's outage with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.outage = Outage(lambda: self.now)
        self.waiting: list[float] = []
        self.looks = self.overs = 0
        self.outage.watch(lambda moment: any(at <= moment for at in self.waiting), self._look, self._over)

    def _look(self) -> None:
        self.looks += 1

    def _over(self) -> None:
        self.overs += 1

    def step(self, loop: str) -> None:
        """A step that takes half a second."""
        began = self.now
        self.now += 0.5
        self.outage.through(loop, began)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_without_a_failure_nothing_is_held_back(scene: Scene) -> None:
    scene.step("claim")
    assert not scene.outage.holds_back
    assert (scene.looks, scene.overs) == (0, 0)


def test_a_failure_has_the_worker_beat_before_it_claims_again(scene: Scene) -> None:
    scene.outage.noticed()
    assert scene.outage.holds_back
    assert scene.looks == 1
    scene.step("claim")
    assert scene.outage.holds_back
    scene.step(BEATS)
    assert not scene.outage.holds_back
    assert scene.overs == 1


def test_outcomes_from_before_go_first_and_later_ones_need_not(scene: Scene) -> None:
    scene.waiting = [scene.now - 30, scene.now + 5]
    scene.outage.noticed()
    scene.step(BEATS)
    assert scene.outage.holds_back
    scene.waiting.pop(0)
    scene.step("finish")
    assert not scene.outage.holds_back


def test_a_beat_that_was_under_way_when_it_was_noticed_proves_nothing(scene: Scene) -> None:
    began = scene.now
    scene.now += 1
    scene.outage.noticed()
    scene.outage.through(BEATS, began)
    assert scene.outage.holds_back
    scene.step(BEATS)
    assert not scene.outage.holds_back
