"""The charts of one worker: values, scales, and when a value is too old to be called current."""

from __future__ import annotations

from worker_scene import NOON

from horsies.views.series import WorkerPoint
from horsies_tui.look.charts import Chart
from horsies_tui.workers.story import charts


def point(**fields: float) -> WorkerPoint:
    return WorkerPoint(NOON, NOON, **fields)  # type: ignore[arg-type]


def of(*points: WorkerPoint) -> dict[str, Chart]:
    return {chart.title: chart for chart in charts(points, "1h")}


def test_a_scale_holds_all_that_a_worker_can_do_and_what_it_did_beyond() -> None:
    found = of(
        point(running=1, processes=8, cpu_percent=12.0, memory_mb=100.0, children_memory_mb=50.0, claimed=0),
        point(running=2, processes=8, cpu_percent=130.0, memory_mb=100.0, claimed=20),
    )
    assert (found["busy"].top, found["cpu"].top, found["memory"].height) == (20, 130.0, 200.0)
    assert [curve.now for curve in found["busy"].curves] == ["2/8", "20"]
    assert [curve.now for curve in found["memory"].curves] == ["100M", "100M"]
    assert found["memory"].curves[0].values == (150.0, 100.0)


def test_an_idle_worker_does_not_look_busy() -> None:
    found = of(point(running=0, claimed=0, processes=8, cpu_percent=0.4))
    assert (found["busy"].top, found["cpu"].top) == (8, 100.0)
    assert found["cpu"].curves[0].now == "0%"


def test_what_was_told_long_ago_is_not_called_now() -> None:
    told, silence = point(running=3, processes=8), WorkerPoint(NOON)
    assert of(told, silence, silence)["busy"].curves[0].now == ""
    assert of(told, silence)["busy"].curves[0].now == "3/8"
    assert of(told, silence, silence)["busy"].curves[0].values == (3, None, None)


def test_a_hundred_async_tasks_in_two_processes_are_two_busy_processes() -> None:
    found = of(point(running=100, claimed=0, processes=2), point(running=None, claimed=0, processes=2))
    assert (found["busy"].top, found["busy"].height) == (2, 2)
    assert found["busy"].curves[0].values == (2, None)
    assert found["busy"].curves[0].now == "2/2"
