"""The timeline of a workflow: bars of nodes, the critical path, unfolded sub-workflows, and places on the axis."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flow_scene import NOW, a_node, a_row, a_story, ago

from horsies.views import NodeRun, NodeView
from horsies_tui.look.tones import Tone
from horsies_tui.workflow.gantt import Bar, GanttRow, Part, TimedStory, critical_path, gantt, places


def ran(index: int, label: str, begin: float, end: float | None, *needs: int, **fields: Any) -> NodeView:
    """A node that ran from and to so many seconds ago; None: it still runs."""
    status = "RUNNING" if end is None else "COMPLETED"
    completed = None if end is None else ago(end)
    status = fields.pop("status", status)
    return a_node(index, label, status, needs, started_at=ago(begin), completed_at=completed, **fields)


def timed(*nodes: NodeView, runs: tuple[NodeRun, ...] = (), **row: Any) -> TimedStory:
    return TimedStory(a_story(*nodes, row=a_row(**row)), runs)


def rows(whole: TimedStory, **parts: TimedStory) -> dict[str, GanttRow]:
    return {row.node.label: row for row in gantt(whole, parts, frozenset(parts), NOW).rows}


def told(row: GanttRow) -> list[tuple[str, float, float]]:
    """The bars, from and to so many seconds ago."""
    return [(bar.part.name, (NOW - bar.begin).total_seconds(), (NOW - bar.end).total_seconds()) for bar in row.bars]


def test_a_node_waits_from_the_end_of_the_last_that_it_needs_until_it_runs() -> None:
    found = rows(
        timed(
            ran(0, "open", 600, 500),
            ran(1, "slow", 590, 300),
            ran(2, "both", 280, 200, 0, 1),
            a_node(3, "next", "ENQUEUED", (2,)),
            a_node(4, "later", "PENDING", (3,)),
            a_node(5, "left", "SKIPPED", (0,), started_at=ago(400), completed_at=ago(400)),
        )
    )
    assert told(found["open"]) == [("RUNS", 600, 500)]
    assert told(found["slow"]) == [("WAITS", 600, 590), ("RUNS", 590, 300)]
    assert told(found["both"]) == [("WAITS", 300, 280), ("RUNS", 280, 200)]
    assert told(found["next"]) == [("WAITS", 200, 0)]
    assert told(found["later"]) == told(found["left"]) == []


def test_each_attempt_is_a_bar_and_between_two_it_waits_for_the_retry() -> None:
    runs = (NodeRun(0, ago(590), ago(500), "FAILED"), NodeRun(0, ago(440), ago(400), "WORKER_FAILURE"))
    found = rows(timed(ran(0, "again", 300, None, status="RUNNING"), runs=runs))["again"]
    assert told(found) == [
        *[("WAITS", 600, 590), ("RUNS", 590, 500), ("BACKOFF", 500, 440), ("RUNS", 440, 400)],
        *[("BACKOFF", 400, 300), ("RUNS", 300, 0)],
    ]
    assert (found.runs, found.ran) == (3, timedelta(seconds=430))
    assert [bar.tone for bar in found.bars if bar.part is Part.RUNS] == [Tone.FAILED, Tone.FAILED, Tone.RUNNING]
    waits = a_node(0, "again", "ENQUEUED", retry_count=2, task_status="PENDING", next_retry_at=ago(-60))
    assert told(rows(timed(waits, runs=runs))["again"])[-1] == ("BACKOFF", 400, 0)


def test_an_ended_attempt_that_is_that_of_the_node_is_no_second_bar() -> None:
    node = ran(0, "once", 590, 500)
    found = rows(timed(node, runs=(NodeRun(0, ago(590), ago(500), "COMPLETED"),)))["once"]
    assert told(found) == [("WAITS", 600, 590), ("RUNS", 590, 500)]


def test_the_critical_path_leads_back_from_what_ended_last_over_what_each_waited_for() -> None:
    nodes = [
        ran(0, "open", 600, 590),
        ran(1, "quick", 590, 580, 0),
        ran(2, "slow", 590, 100, 0),
        ran(3, "both", 100, 50, 1, 2),
        ran(4, "aside", 590, 60, 0),
    ]
    assert critical_path(nodes, NOW) == {0, 2, 3}
    assert critical_path([*nodes, ran(5, "runs", 55, None, 4)], NOW) == {0, 4, 5}
    assert critical_path([a_node(0, "waits")], NOW) == frozenset()


def test_a_sub_workflow_unfolds_below_its_node_and_has_a_critical_path_of_its_own() -> None:
    inner = timed(ran(0, "count", 500, 400), ran(1, "sum", 400, 350, 0), id="inner", started_at=ago(500))
    node = ran(0, "stock", 500, 350, is_subworkflow=True, sub_workflow_id="inner")
    whole = timed(node, ran(1, "mail", 340, 330, 0))
    folded = gantt(whole, {"inner": inner}, frozenset(), NOW).rows
    assert [(row.node.label, row.depth, row.unfolded) for row in folded] == [("stock", 0, False), ("mail", 0, None)]
    unfolded = gantt(whole, {"inner": inner}, frozenset({"inner"}), NOW).rows
    assert [(row.node.label, row.depth, row.critical) for row in unfolded] == [
        *[("stock", 0, True), ("count", 1, True), ("sum", 1, True), ("mail", 0, True)]
    ]
    assert len({row.key for row in unfolded}) == 4
    unread = gantt(whole, {}, frozenset({"inner"}), NOW).rows
    assert [row.node.label for row in unread] == ["stock", "mail"]


def test_the_axis_reaches_from_the_start_to_the_end_or_to_now() -> None:
    whole = gantt(timed(ran(0, "open", 600, 500)), {}, frozenset(), NOW)
    assert (whole.begin, whole.end) == (ago(600), NOW)
    ended = gantt(timed(ran(0, "open", 600, 500), completed_at=ago(490)), {}, frozenset(), NOW)
    assert (ended.begin, ended.end) == (ago(600), ago(490))
    at_once = gantt(timed(started_at=NOW, created_at=NOW), {}, frozenset(), NOW)
    assert at_once.end > at_once.begin


def test_a_run_has_a_place_however_short_and_is_drawn_over_a_wait() -> None:
    waits = Bar(Part.WAITS, ago(100), ago(50))
    runs = Bar(Part.RUNS, ago(50), ago(49.9))
    found = places((waits, runs), ago(100), NOW, 10)
    assert found == [waits] * 5 + [runs] + [None] * 4
    last = Bar(Part.RUNS, ago(0.001), NOW)
    assert places((last,), ago(100), NOW, 10) == [None] * 9 + [last]
