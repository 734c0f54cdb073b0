"""The labels of a graph's nodes, its sizes, the cursor's movement, and the details of one node."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from flow_scene import NOW, a_node, a_node_story, a_row, a_story, ago, labels
from hypothesis import given, settings, strategies as st
from story_scene import stored

from horsies.display.payload import Masks
from horsies.domain.plan import MAP_ITEMS
from horsies.views import NodeView
from horsies_tui.look.bars import bar_parts
from horsies_tui.look.glyphs import ASCII, UNICODE, cut_middle
from horsies_tui.look.lines import width_of
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import OpenTask, OpenWorkflow
from horsies_tui.story.payload import payload_of
from horsies_tui.workflow.graph import Vertex, arrange
from horsies_tui.workflow.graph_labels import state_of, vertices, wants
from horsies_tui.workflow.graph_page import Scale, Wants, draw, step
from horsies_tui.workflow.graph_sizes import MAP, SIZES, Sizes
from horsies_tui.workflow.head import HeadContext, flow_head, progress_bar
from horsies_tui.workflow.node import NodeContext, node_document, texts_of

FAILED = a_node(2, "import_us", "FAILED", (0,), error_code="TIMEOUT", retry_count=2, max_retries=2, task_id="t-2")
NODES = (
    a_node(0, "open_books", "COMPLETED", started_at=ago(60.2), completed_at=ago(60)),
    a_node(
        1, "import_eu", "RUNNING", (0,), started_at=ago(252), last_beat=ago(2), task_id="t-1", task_status="RUNNING"
    ),
    FAILED,
    a_node(3, "reconcile", "SKIPPED", (1, 2), args_from={"books": 0}),
    a_node(4, "report", "PENDING", (3,), join="quorum", min_success=1, allow_failed_deps=True),
)


def said(index: int, width: int = 40, *nodes: NodeView) -> tuple[str, str]:
    """The label and the line below it."""
    told = labels(*(nodes or NODES))
    lines = (told.label(index, width), told.fact(index, width))
    return tuple("".join(span.text for span in spans).strip() for spans in lines)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("index", "label", "fact"),
    [
        (0, "✓ open_books 0.2s", ""),
        (1, "▶ import_eu 4m10s", "♥ 2s"),
        (2, "✗ import_us", "TIMEOUT"),
        (3, "⊘ reconcile", "import_us failed"),
        (4, "· report", ""),
    ],
)
def test_a_node_says_how_it_is(index: int, label: str, fact: str) -> None:
    assert said(index) == (label, fact)


@pytest.mark.parametrize(
    ("fields", "label", "fact"),
    [
        ({"status": "RUNNING", "next_retry_at": ago(-41), "error_code": "TIMEOUT"}, "↻ it", "retry 41s TIMEOUT"),
        ({"status": "RUNNING", "next_retry_at": ago(1)}, "↻ it", "retry now"),
        ({"status": "ENQUEUED", "queue": "mail"}, "◔ it", "queue mail"),
        ({"status": "ENQUEUED", "task_status": "RUNNING"}, "▶ it", ""),
        ({"status": "READY"}, "○ it", ""),
        ({"status": "RUNNING", "started_at": ago(400), "last_beat": ago(372)}, "▶ it 6m40s", "♥ 6m10s"),
        (
            {"status": "RUNNING", "is_subworkflow": True, "sub_total": 1_200, "sub_done": 37, "sub_failed": 2},
            "▶ it 37/1,200",
            "2 failed",
        ),
    ],
)
def test_a_state_is_more_than_a_status(fields: dict[str, Any], label: str, fact: str) -> None:
    assert said(0, 40, a_node(0, "it", **fields)) == (label, fact)


@given(st.integers(1, 40), st.sampled_from(range(5)), st.booleans())
def test_labels_keep_to_their_width_and_their_letters(width: int, index: int, ascii_only: bool) -> None:
    told = labels(*NODES, glyphs=ASCII if ascii_only else UNICODE)
    for spans in (told.label(index, width), told.fact(index, width)):
        assert width_of(spans) <= width
        assert not ascii_only or "".join(span.text for span in spans).isascii()


def test_a_label_that_is_cut_keeps_the_end_of_its_name_by_which_steps_differ() -> None:
    first, second = a_node(0, "transform_shard_0041"), a_node(1, "transform_shard_0042")
    cut = [said(index, 12, first, second)[0] for index in (0, 1)]
    assert cut == ["· trans…0041", "· trans…0042"]


@given(st.text(max_size=30), st.integers(0, 30))
def test_what_is_cut_in_the_middle_fits(text: str, width: int) -> None:
    clean = "".join(char for char in text if char.isprintable() and char.isascii())
    cut = cut_middle(clean, width, UNICODE)
    assert len(cut) <= width
    assert cut == clean or "…" in cut or width == 0


def test_what_changes_while_it_runs_changes_no_place() -> None:
    later = [a_node(node.index, node.label, "COMPLETED", node.dependencies) for node in NODES]
    assert wants(later) == wants(NODES)
    assert vertices(later) == vertices(NODES)


def sizes_of(vertices: list[Vertex]) -> Sizes:
    return Sizes(arrange(vertices), {vertex.key: Wants(12, 6) for vertex in vertices})


def fan(count: int) -> list[Vertex]:
    return [
        Vertex(0, ()),
        *(Vertex(key, (0,)) for key in range(1, count + 1)),
        Vertex(count + 1, tuple(range(1, count + 1))),
    ]


def chain(count: int) -> list[Vertex]:
    return [Vertex(key, (key - 1,) if key else ()) for key in range(count)]


@pytest.mark.parametrize(
    ("vertices", "width", "height", "readable", "whole"),
    [
        (fan(3), 120, 20, "facts", "facts"),
        (fan(15), 120, 20, "names", "names"),
        (fan(60), 120, 20, "names", "map"),
        (chain(5), 80, 10, "short names", "short names"),
        (chain(18), 80, 10, "short names", "signs"),
        (fan(1_000), 200, 50, "map", "map"),
        (chain(1_000), 200, 50, "map", "map"),
    ],
)
def test_the_size_is_what_can_be_read_and_zero_fits_all(
    vertices: list[Vertex], width: int, height: int, readable: str, whole: str
) -> None:
    sizes = sizes_of(vertices)
    assert SIZES[sizes.readable(width, height)].name == readable
    assert SIZES[sizes.whole(width, height)].name == whole
    assert SIZES[MAP].name == "map"


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(10, 200), st.integers(3, 60))
def test_what_is_called_whole_fits_unless_it_is_the_map(count: int, width: int, height: int) -> None:
    sizes = sizes_of(fan(count))
    size = sizes.whole(width, height)
    drawing = sizes.drawing(size, width)
    assert drawing.width <= width
    assert size == MAP or drawing.height <= height


def test_of_many_nodes_only_what_was_prepared_is_drawn_and_never_a_thousand_screens() -> None:
    sizes = sizes_of(fan(300))
    assert [sizes.can_draw(size) for size in range(len(SIZES))] == [False, False, False, False, True]
    sizes.prepare()
    assert all(sizes.can_draw(size) for size in range(len(SIZES)))
    long = sizes_of(chain(3_000))
    long.prepare()
    assert [long.can_draw(size) for size in range(len(SIZES))] == [False, True, True, True, True]


def test_the_story_stands_beside_what_is_high_and_below_what_is_flat() -> None:
    assert sizes_of(fan(30)).beside(120, 34) is not None
    assert sizes_of(fan(30)).beside(100, 34) is None
    assert sizes_of(chain(4)).beside(200, 50) is None


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(3, 80))
def test_a_map_has_each_node_once_and_keeps_to_its_width(count: int, width: int) -> None:
    drawing = sizes_of(fan(count)).drawing(MAP, width)
    places = [(spot.x, spot.y) for spot in drawing.spots.values()]
    assert len(set(places)) == len(places) == count + 2
    assert all(0 <= x < width and 0 <= y < drawing.height for x, y in places)


@settings(max_examples=60)
@given(
    st.integers(1, 25), st.sampled_from([0, 1, 2, 3, MAP]), st.lists(st.sampled_from(["up", "down", "left", "right"]))
)
def test_the_cursor_never_leaves_the_graph_and_every_node_can_be_reached(
    count: int, size: int, ways: list[Any]
) -> None:
    nodes = fan(count)
    drawing = sizes_of(nodes).drawing(size, 30)
    ties = {
        vertex.key: {*vertex.needs, *(other.key for other in nodes if vertex.key in other.needs)} for vertex in nodes
    }
    key = 0
    for way in ways:
        key = step(drawing, key, way, ties)
        assert key in drawing.spots
    reached, waiting = {0}, [0]
    while waiting:
        here = waiting.pop()
        new = {step(drawing, here, way, ties) for way in ("up", "down", "left", "right")} - reached
        reached |= new
        waiting += new
    assert reached == set(drawing.spots)


def told(index: int, width: int = 100, **fields: Any) -> dict[str, str]:
    """The lines of the node's section by label."""
    tell = NodeContext(NODES[index], labels(*NODES), UTC, **fields)
    section = node_document(tell, width)[0].sections[0]
    return {line.key[0]: line.text[11:] for line in section.lines}  # type: ignore[index]


def test_a_node_tells_what_it_waits_for_takes_and_holds_up() -> None:
    assert told(3) == {
        "skipped": "import_us failed",
        "task": "shop.reconcile  queue default  priority 100  without a task",
        "waits for": "▶ import_eu  ✗ import_us",
        "runs when": "all dependencies succeeded",
        "takes": "books from open_books",
        "then": "· report",
    }
    assert told(4)["runs when"] == "at least 1 of its dependencies succeeded, also after failures"
    assert told(2)["failed"] == "TIMEOUT after 3 tries"
    assert told(2)["task"] == "shop.import_us  t-2  its row was deleted"


def test_a_node_that_runs_once_for_each_item_takes_its_items() -> None:
    node = a_node(9, "close", "PENDING", (0,), is_subworkflow=True, args_from={MAP_ITEMS: 0})
    section = node_document(NodeContext(node, labels(*NODES, node), UTC), 80)[0].sections[0]
    assert "takes      its items from open_books" in [line.text for line in section.lines]


def test_a_node_leads_to_its_task_or_to_its_child() -> None:
    child = a_node(
        9,
        "batch",
        "RUNNING",
        is_subworkflow=True,
        sub_workflow_id="wf-2",
        sub_total=4,
        sub_done=1,
        sub_status="RUNNING",
    )
    targets = []
    for node in (NODES[1], child):
        section = node_document(NodeContext(node, labels(*NODES, child), UTC), 80)[0].sections[0]
        targets += [line.target for line in section.lines if line.target is not None]
    assert targets == [OpenTask("t-1"), OpenWorkflow("wf-2")]


def test_what_a_node_without_a_task_was_given_is_told_and_what_is_masked_is_not() -> None:
    story = a_node_story(NODES[4], kwargs=stored({"path": "a.csv", "api_token": "hunter2"}), args=stored([]))
    source = texts_of(story, None)
    assert source.args is None
    payload = payload_of(source, Masks(frozenset({"*token"})))
    document = node_document(NodeContext(NODES[4], labels(*NODES), UTC, story, None, payload), 120)
    text = "\n".join(line.text for band in document for section in band.sections for line in section.lines)
    assert '"a.csv"' in text
    assert "hunter2" not in text


def test_the_head_says_how_far_it_is_and_where_one_came_from() -> None:
    lines = flow_head(HeadContext(a_story(*NODES), NOW, UNICODE, UTC, ("year_end",)), 200)
    text = lines[0].text
    assert text.startswith("▶ RUNNING 10m   year_end ▸ month_end")
    assert "4 of 7 done · 2 completed · 1 running · 1 failed · 1 skipped · 2 waiting" in text
    assert "only the first 5 are shown" in text


@given(st.lists(st.integers(0, 50), min_size=5, max_size=5))
def test_a_bar_is_always_as_long_and_full_only_when_all_is_done(counts: list[int]) -> None:
    completed, failed, skipped, running, waiting = counts
    row = a_row(
        completed=completed, failed=failed, skipped=skipped, running=running, waiting=waiting, total=sum(counts)
    )
    bar = "".join(text for text, _ in progress_bar(row, 10, UNICODE))
    assert len(bar) == 10
    assert (set(bar) <= set("━╳╌")) is (sum(counts) > 0 and running + waiting == 0)
    assert {sign in bar for sign, count in zip("━╳╌┅", counts, strict=False) if count} <= {True}
    assert {sign in bar for sign, count in zip("━╳╌┅", counts, strict=False) if not count} <= {False}


def test_each_part_of_a_bar_has_its_own_sign_and_colour() -> None:
    row = a_row(completed=48, failed=1, skipped=10, running=20, waiting=21, total=100)
    assert progress_bar(row, 10, UNICODE) == (
        ("━━━━", Tone.COMPLETED),
        ("╳", Tone.FAILED),
        ("╌", Tone.CANCELLED),
        ("┅┅", Tone.RUNNING),
        ("──", Tone.PENDING),
    )
    assert "".join(text for text, _ in progress_bar(row, 10, ASCII)) == "====x->>.."
    assert bar_parts(((Tone.FAILED, 0),), 3, UNICODE) == (("───", Tone.PENDING),)


def test_states_come_from_the_task_only_while_the_node_is_under_way() -> None:
    assert state_of(a_node(0, "x", "FAILED", next_retry_at=ago(-5))) == "FAILED"
    assert state_of(a_node(0, "x", "ENQUEUED", task_status="CLAIMED")) == "CLAIMED"
    assert state_of(a_node(0, "x", "ENQUEUED", task_status="PENDING")) == "ENQUEUED"


def test_a_layer_is_as_wide_as_its_widest_label_with_what_stands_behind_it() -> None:
    both = [draw(arrange(chain(1)), Scale(30, 1, 1, extras=extras), {0: Wants(8, 6)}).width for extras in (False, True)]
    assert both == [8, 14]
