"""The page of a story: sections beside each other, cursor movement, search, drawing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from story_scene import at, row, running, stored, story, told, waiting

from horsies.display.payload import Masks
from horsies.findings.why import Reason, ReasonKind, Why
from horsies.query import parse
from horsies.views import Ambiguous, NodeLink, TaskDetail
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import FOUND, Span, span_pieces
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Document, Line, OpenTask, OpenWorkflow, Section, ShowTasks, ShowWorkers
from horsies_tui.story.page import Place, StoryPage, lay_out, row_pieces, text_width
from horsies_tui.story.payload import StoryContext, read_payload
from horsies_tui.story.text_search import TextSearch, find_in_payload, hits, pattern
from horsies_tui.task.document import choices, document, nothing
from horsies_tui.task.facts import head, links, quoted, why
from horsies_tui.task.feed import DetailSnapshot

WIDTHS = (80, 100, 120, 160, 200)


def whole(detail: TaskDetail | None = None, **fields: object) -> StoryContext:
    tell = told(detail, **fields)  # type: ignore[arg-type]
    return replace(tell, payload=read_payload(tell.detail, Masks()))


def page(width: int, tell: StoryContext | None = None) -> StoryPage:
    return lay_out(document(tell or whole(), text_width(width)), width)


def keys(page: StoryPage) -> list[str]:
    return list(dict.fromkeys(place.section for place in page.spots))


def test_arguments_and_error_stand_beside_each_other_where_there_is_room() -> None:
    assert keys(page(120)) == ["timeline", "heartbeats", "arguments", "outcome", "hand", "links", "options"]
    assert keys(page(80)) == ["timeline", "heartbeats", "outcome", "arguments", "hand", "links", "options"]
    assert len(page(80).rows) > len(page(120).rows)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("detail", [story(), running(), waiting()])
def test_every_row_fills_the_width_exactly(width: int, glyphs: object, detail: TaskDetail) -> None:
    tell = whole(detail, glyphs=glyphs, now=1_400)
    for each in page(width, tell).rows:
        pieces = row_pieces(each, None, None, width, tell.glyphs)
        assert sum(piece.width for piece in pieces) == width
        if tell.glyphs.ascii:
            assert "".join(piece.text for piece in pieces).isascii()
    for line in head(tell, text_width(width)):
        assert sum(piece.width for piece in span_pieces(line.spans, text_width(width), tell.glyphs)) == width - 1


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(WIDTHS), st.lists(st.sampled_from(["up", "down", "left", "right", "part", "back"]), max_size=60))
def test_a_cursor_always_stands_on_a_line_of_its_page(width: int, moves: list[str]) -> None:
    laid = page(width)
    spot = laid.first
    for move in moves:
        assert spot is not None
        match move:
            case "up" | "down":
                step = 1 if move == "down" else -1
                spot = laid.near(spot.y + step, spot.placed.x, step) or spot
            case "left" | "right":
                spot = laid.beside(spot, 1 if move == "right" else -1) or spot
            case _:
                spot = laid.part(spot, 1 if move == "part" else -1) or spot
        assert spot.placed in laid.rows[spot.y]
        assert laid.spots[spot.placed.place] == spot


def test_going_down_visits_every_line_of_a_narrow_page_once() -> None:
    laid = page(80)
    spot, seen = laid.first, []
    while spot is not None:
        seen.append(spot.placed.place)
        spot = laid.near(spot.y + 1, spot.placed.x, 1)
    assert seen == list(laid.spots)


def test_a_place_that_is_gone_leaves_the_cursor_in_its_section() -> None:
    laid = page(120)
    spot = laid.spot(Place("outcome", (77,)))
    assert spot is not None
    assert spot.placed.place == Place("outcome", (0,))
    assert laid.spot(None) == laid.first
    assert StoryPage().spot(Place("x", 1)) is None


def test_the_head_says_who_it_is_and_how_it_stands() -> None:
    lines = [line.text for line in head(told(), 119)]
    assert lines[0].startswith("✗ FAILED  OPERATOR_FAILED   nightly_import   019a7a11-5b1c-7000-8000-0000c0ffee00")
    assert "2 of 2 tries" in lines[1]
    assert "retry fixed [60] on WORKER_CRASHED" in lines[1]
    assert len(head(told(), 79)) <= 4
    assert head(told(running(), now=1_100), 119)[0].text.startswith("▶ RUNNING 2m00s")
    assert head(told(waiting(), now=940), 119)[0].text.startswith("↻ RETRY in 23s  WORKER_CRASHED")


def test_why_it_waits_counts_on() -> None:
    reasons = (
        Reason(ReasonKind.RETRY_WAIT, "retry 1 of 1 is due in 59s", until=at(963)),
        Reason(ReasonKind.QUEUE_PAUSED, "queue bulk was paused 3m ago by ops"),
    )
    told_why = Why(row().id, "PENDING", at(904), reasons)
    section = why(told(waiting(), now=940, why=told_why), 119)
    assert section is not None
    assert [line.text for line in section.lines] == [
        "it waits for its retry: due in 23s, at 11:36:06Z",
        "queue bulk was paused 3m ago by ops",
    ]
    late = why(told(waiting(), now=970, why=told_why), 119)
    assert late is not None
    assert late.lines[0].text == "it waits for its retry: due now"
    assert why(told(story(), why=told_why), 119) is None


def linked() -> StoryContext:
    return told(
        story(
            row=row(worker_id='web "1"', rerun_of="019a-old", unique_key="invoice 7,8", is_workflow_task=True),
            reruns=("019a-new",),
            node=NodeLink("wf-1", "month_end", "RUNNING", 3, "import", "FAILED"),
        )
    )


def test_links_lead_to_workflow_worker_reruns_and_what_is_alike() -> None:
    targets = {line.key[0]: line.target for line in links(linked(), 119).lines}  # type: ignore[index]
    assert targets == {
        "workflow": OpenWorkflow("wf-1", 3),
        "worker": ShowWorkers('id:"web \\"1\\""'),
        "rerun of": OpenTask("019a-old"),
        "rerun as": OpenTask("019a-new"),
        "unique": ShowTasks('unique:"invoice 7,8"'),
        "similar": ShowTasks("name:nightly_import error:OPERATOR_FAILED"),
    }
    filters = [target.filter for target in targets.values() if isinstance(target, ShowTasks)]
    assert all(len(parse(text).terms) in (1, 2) for text in filters)


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20))
def test_any_value_in_a_link_is_one_value_of_the_filter(value: str) -> None:
    understood = parse(f"worker:{quoted(value)}")
    assert len(understood.terms) == 1
    assert parse(understood.text) == understood


def found(tell: StoryContext, width: int, needle: str) -> list[tuple[str, object]]:
    assert tell.payload is not None
    return [tuple(hit) for hit in hits(document(tell, width), find_in_payload(tell.payload, needle), needle)]


def test_a_search_goes_through_lines_and_folded_payload_from_top_to_bottom() -> None:
    tell = whole(story(kwargs=stored({"path": "s3://WORKER_CRASHED", "rows": list(range(500))})))
    sections = [section for section, _ in found(tell, 119, "worker_crashed")]
    assert sections == ["timeline", "arguments", "outcome", "options"]
    assert found(tell, 119, "499")[0][0] == "arguments"
    assert found(tell, 119, "no such thing") == []


def test_matches_are_walked_round_and_round_and_counted() -> None:
    search = TextSearch()
    search.begin("import")
    search.take(hits((document(told(), 119)), {}, "import"))
    assert search.words == "import: 0 of 1"
    first = search.step(1)
    assert search.words == "import: 1 of 1"
    assert search.step(1) == first
    assert not search.is_new
    search.forget()
    assert search.step(1) is None
    search.begin("nothing like it")
    assert search.is_new
    assert search.step(1) is None
    assert search.words == "nothing like it not found"


def test_what_is_sought_stands_out_across_spans_and_under_the_cursor() -> None:
    line = Line(1, (Span("ran on "), Span("web", Tone.MUTED), Span("-1:4120")))
    pieces = list(span_pieces(line.spans, 20, UNICODE, ("cursor",), pattern("WEB-1")))
    assert [piece.text for piece in pieces if FOUND in piece.classes] == ["web", "-1"]
    assert all("cursor" in piece.classes for piece in pieces)
    assert "".join(piece.text for piece in pieces) == "ran on web-1:4120".ljust(20)


def flat(made: Document) -> list[Section]:
    return [section for band in made for section in band.sections]


def test_several_ids_are_a_choice() -> None:
    (section,) = flat(choices(Ambiguous("019a", ("019a-1", "019a-2"), more=True), UNICODE))
    assert [line.target for line in section.lines] == [OpenTask("019a-1"), OpenTask("019a-2"), None]
    assert section.lines[-1].text == "and older ones"


def test_without_a_story_it_says_why_and_what_to_do() -> None:
    def told_of(**fields: object) -> str:
        (section,) = flat(nothing(DetailSnapshot(text="7f3a", **fields), 200, UNICODE))  # type: ignore[arg-type]
        return section.lines[0].text

    assert told_of() == "looking for 7f3a"
    assert told_of(error="no answer within 2s") == "no answer within 2s"
    assert told_of(loading=False) == "No task has an id that begins or ends with 7f3a. esc goes back."
