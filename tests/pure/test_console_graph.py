"""A workflow as a graph, whose lines are its dependencies and nothing else, and as a timeline of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flow_scene import NOW, a_node, a_row, a_story, ago
from hypothesis import given, settings, strategies as st

from horsies.views import NodeRun, NodeView
from horsies_tui.workflow.gantt import Bar, GanttRow, Part, TimedStory, critical_path, gantt, places
from horsies_tui.workflow.graph import Vertex, arrange
from horsies_tui.workflow.graph_page import Drawing, Scale, Wants, draw

SCALES = (
    Scale(label=14, rows=2, apart=1, extras=True),
    Scale(label=10, rows=1, apart=1),
    Scale(label=1, rows=1, apart=0),
)
LEFT, RIGHT, UP, DOWN = frozenset("┤┼┘┴┐┬─"), frozenset("├┼└┴┌┬─"), frozenset("│┤├┼┘└┴"), frozenset("│┤├┼┐┌┬")

Lines = frozenset[tuple[int, int]]


@st.composite
def graphs(draw_from: st.DrawFn, most: int = 14) -> list[Vertex]:
    size = draw_from(st.integers(1, most))
    pairs = [(first, second) for second in range(size) for first in range(second)]
    chosen = draw_from(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * size)) if pairs else []
    return [Vertex(key, tuple(first for first, second in chosen if second == key)) for key in range(size)]


def drawn(vertices: list[Vertex], scale: Scale = SCALES[1]) -> Drawing:
    return draw(arrange(vertices), scale, {vertex.key: Wants(3 + vertex.key, 2) for vertex in vertices})


def lines_of(vertices: list[Vertex]) -> Lines:
    return frozenset((need, vertex.key) for vertex in vertices for need in vertex.needs)


def read(drawing: Drawing) -> Lines:
    """The connections that a reader sees who follows the lines from each node to the right."""
    ends = {(spot.x, spot.y): key for key, spot in drawing.spots.items()}
    found = set()
    for key, spot in drawing.spots.items():
        if drawing.lines[spot.y][spot.x] != "─":
            continue
        found |= {(key, ends[end]) for end in followed(drawing.lines, spot.x, spot.y)}
    return frozenset(found)


def followed(lines: tuple[str, ...], x: int, y: int) -> Iterator[tuple[int, int]]:
    """Where a line that leads to the right ends."""
    while lines[y][x] != " ":
        if lines[y][x] in LEFT and lines[y][x] != "─":
            yield from followed_out_of(lines, x, y)
            return
        x += 1
    yield x + 1, y


def followed_out_of(lines: tuple[str, ...], x: int, y: int) -> Iterator[tuple[int, int]]:
    top = bottom = y
    while lines[top][x] in UP:
        top -= 1
    while lines[bottom][x] in DOWN:
        bottom += 1
    for row in range(top, bottom + 1):
        if lines[row][x] in RIGHT:
            yield from followed(lines, x + 1, row)


@settings(max_examples=150)
@given(graphs(), st.sampled_from(SCALES))
def test_the_drawn_lines_are_the_dependencies_and_nothing_else(vertices: list[Vertex], scale: Scale) -> None:
    assert read(drawn(vertices, scale)) == lines_of(vertices)


@settings(max_examples=100)
@given(graphs(), st.sampled_from(SCALES))
def test_nodes_lie_over_no_line_and_no_other_node(vertices: list[Vertex], scale: Scale) -> None:
    drawing = drawn(vertices, scale)
    assert set(drawing.spots) == {vertex.key for vertex in vertices}
    taken = set()
    for key, spot in drawing.spots.items():
        assert 1 <= spot.width <= scale.label
        leads_on = any(first == key for first, _ in lines_of(vertices))
        for row in range(spot.y, spot.y + scale.rows):
            under = drawing.lines[row][spot.x : spot.x + spot.width]
            assert under == ("─" if leads_on and row == spot.y else " ") * spot.width
            places = {(x, row) for x in range(spot.x, spot.x + spot.width)}
            assert not places & taken
            taken |= places


@settings(max_examples=100)
@given(graphs(), st.sampled_from(SCALES))
def test_the_page_is_as_wide_as_its_layers_and_strokes_need(vertices: list[Vertex], scale: Scale) -> None:
    arranged, drawing = arrange(vertices), drawn(vertices, scale)
    assert {len(line) for line in drawing.lines} == {drawing.width}
    knots = sum(map(len, arranged.layers))
    assert drawing.width <= len(arranged.layers) * (scale.label + 4) + knots * (scale.apart + 1)
    assert drawing.height <= 2 * scale.rows * knots
    assert all(0 <= spot.y < drawing.height for spot in drawing.spots.values())


@settings(max_examples=100)
@given(graphs())
def test_every_node_stands_right_of_what_it_waits_for(vertices: list[Vertex]) -> None:
    spots = drawn(vertices).spots
    for first, second in lines_of(vertices):
        assert spots[first].x + spots[first].width < spots[second].x
        assert spots[first].layer < spots[second].layer


@settings(max_examples=50)
@given(graphs())
def test_the_order_in_which_a_node_names_its_needs_changes_nothing(vertices: list[Vertex]) -> None:
    turned = [vertex._replace(needs=tuple(sorted(vertex.needs, reverse=True))) for vertex in vertices]
    assert drawn(turned) == drawn(vertices)


def test_a_fork_and_a_join_look_like_one() -> None:
    steps = [Vertex(0, ()), Vertex(1, (0,)), Vertex(2, (0,)), Vertex(3, (0,)), Vertex(4, (1, 2, 3)), Vertex(5, (4,))]
    drawing = draw(arrange(steps), Scale(label=5, rows=1, apart=1), dict.fromkeys(range(6), Wants(5, 6)))
    assert drawing.lines == (
        "       ┌─ ───────┐               ",
        "───────┼─ ───────┼─ ───────      ",
        "       └─ ───────┘               ",
    )


def test_a_circle_and_a_node_that_is_not_there_are_left_out_and_said() -> None:
    damaged = [Vertex(0, (2,)), Vertex(1, (0,)), Vertex(2, (1, 9)), Vertex(3, (3, 2))]
    arranged = arrange(damaged)
    assert {(9, 2), (3, 3)} < arranged.left_out
    assert read(drawn(damaged)) == lines_of(damaged) - arranged.left_out
    assert len(arranged.left_out) == 3


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn([]) == Drawing()


@pytest.mark.parametrize("count", [1, 200])
def test_a_chain_is_one_line(count: int) -> None:
    chain = [Vertex(key, (key - 1,) if key else ()) for key in range(count)]
    drawing = drawn(chain)
    assert drawing.height == 1
    assert read(drawing) == lines_of(chain)


def test_three_hundred_beside_each_other_are_drawn_with_two_strokes() -> None:
    fan = [Vertex(0, ()), *(Vertex(key, (0,)) for key in range(1, 301)), Vertex(301, tuple(range(1, 301)))]
    drawing = drawn(fan)
    assert drawing.height == 300
    assert read(drawing) == lines_of(fan)
    assert sum(line.count("│") + line.count("┼") + line.count("├") + line.count("┤") for line in drawing.lines) < 700


def test_many_lines_that_lead_to_one_far_node_share_a_passage() -> None:
    """Fifty steps, of which one is followed by ten more before all are joined."""
    steps = [Vertex(0, ()), *(Vertex(key, (0,)) for key in range(1, 51))]
    steps += [Vertex(51, (50,)), *(Vertex(key, (key - 1,)) for key in range(52, 61))]
    steps.append(Vertex(61, (*range(1, 51), 60)))
    arranged = arrange(steps)
    assert [len(layer) for layer in arranged.layers[2:-1]] == [2] * 10
    assert read(drawn(steps)) == lines_of(steps)


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
