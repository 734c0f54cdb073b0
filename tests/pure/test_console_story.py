"""The page of a story: sections, cursor, search, drawing; the timeline of its attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from math import isclose

import pytest
from hypothesis import given, settings, strategies as st
from story_scene import FIRST, action, at, attempt, row, running, stored, story, told, waiting

from horsies.display.payload import Masks
from horsies.findings.why import Reason, ReasonKind, Why
from horsies.query import parse
from horsies.views import Ambiguous, NodeLink, TaskDetail, TaskRow
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import FOUND, Span, span_pieces, width_of
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Document, Fold, Line, OpenTask, OpenWorkflow, Section, ShowTasks, ShowWorkers
from horsies_tui.story.page import Place, StoryPage, lay_out, row_pieces, text_width
from horsies_tui.story.payload import StoryContext, read_payload
from horsies_tui.story.text_search import TextSearch, find_in_payload, hits, pattern
from horsies_tui.task.document import choices, document, nothing
from horsies_tui.task.facts import head, links, quoted, why
from horsies_tui.task.feed import DetailSnapshot
from horsies_tui.task.lanes import Lane, lanes, places
from horsies_tui.task.timeline import EARLIER, timeline

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


@settings(max_examples=30)
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


def test_links_lead_to_workflow_worker_reruns_and_what_is_alike() -> None:
    linked = told(
        story(
            row=row(worker_id='web "1"', rerun_of="019a-old", unique_key="invoice 7,8", is_workflow_task=True),
            reruns=("019a-new",),
            node=NodeLink("wf-1", "month_end", "RUNNING", 3, "import", "FAILED"),
        )
    )
    targets = {line.key[0]: line.target for line in links(linked, 119).lines}  # type: ignore[index]
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


LENGTHS = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e7)), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 200))
def test_all_places_are_given_and_none_more(lengths: list[float], width: int) -> None:
    given_places = places(lengths, width)
    assert len(given_places) == len(lengths)
    assert sum(given_places) == (width if any(lengths) else 0)
    assert all(taken == 0 for taken, length in zip(given_places, lengths, strict=True) if length == 0)


@given(LENGTHS, st.integers(1, 200))
def test_what_happened_has_a_place_where_there_is_room(lengths: list[float], width: int) -> None:
    happened = sum(length > 0 for length in lengths)
    assert sum(taken > 0 for taken in places(lengths, width)) >= min(happened, width)


@given(LENGTHS, st.integers(1, 200))
def test_a_longer_stretch_never_has_fewer_places(lengths: list[float], width: int) -> None:
    ranked = sorted(zip(lengths, places(lengths, width), strict=True))
    for (shorter, fewer), (longer, more) in pairwise(ranked):
        assert fewer <= more or isclose(shorter, longer)


@given(st.lists(st.floats(1.0, 20.0), min_size=1, max_size=8))
def test_what_needs_no_help_is_to_scale_within_one_place(lengths: list[float]) -> None:
    total = sum(lengths)
    for length, taken in zip(lengths, places(lengths, 200), strict=True):
        assert abs(taken - length / total * 200) < 1


def test_small_ones_take_from_the_others_in_proportion() -> None:
    assert places([0.001, 100.0, 0.001, 50.0], 32) == (1, 20, 1, 10)
    assert places([5.0, 5.0], 5) == (3, 2)
    assert places([3.0, 2.0, 1.0], 2) == (1, 1, 0)
    assert places([], 5) == ()


def phases(lane: Lane) -> list[tuple[str, float]]:
    return [(stretch.phase.name, stretch.length.total_seconds()) for stretch in lane.stretches]


def test_a_retried_task_has_a_lane_for_each_attempt_and_each_wait_between() -> None:
    first, wait, second = lanes(story(), at(2_000))
    assert phases(first) == [("WAITING", 5), ("CLAIMED", 56), ("RUNNING", 842)]
    assert phases(wait) == [("BACKOFF", 60)]
    assert phases(second) == [("WAITING", 7), ("CLAIMED", 1), ("RUNNING", 581)]
    assert (wait.due, wait.about) == (at(963), False)
    assert second.action is not None
    assert second.action.verb == "fail"


def test_a_live_task_reaches_to_now() -> None:
    assert phases(lanes(running(), at(1_100))[-1]) == [("WAITING", 7), ("CLAIMED", 1), ("RUNNING", 129)]
    assert [phases(lane) for lane in lanes(waiting(), at(940))[1:]] == [[("BACKOFF", 37)]]
    assert [phases(lane) for lane in lanes(waiting(), at(970))[1:]] == [[("BACKOFF", 60)], [("WAITING", 7)]]


def test_a_task_that_was_never_run_waits_from_when_it_was_due() -> None:
    fresh = story(
        row=row(
            status="PENDING", state="PENDING", enqueued_at=at(60), next_retry_at=None, claimed_at=None, started_at=None,
            finished_at=None, retry_count=0,
        ),
        attempts=(), executions=(), audit=(),
    )  # fmt: skip
    assert phases(*lanes(fresh, at(100))) == [("LATER", 60), ("WAITING", 40)]
    assert phases(*lanes(fresh, at(30))) == [("LATER", 30)]
    gone = replace(fresh, row=replace(fresh.row, status="CANCELLED", state="CANCELLED", finished_at=at(100)))
    cancelled = replace(gone, audit=(action(100, "cancel"),))
    (lane,) = lanes(cancelled, at(500))
    assert phases(lane) == [("LATER", 60), ("WAITING", 40)]
    assert lane.action is not None
    text = "\n".join(line.text for line in timeline(told(cancelled, now=500), 120).lines)
    assert 'cancelled after 40.0s of waiting  by ops@bastion "stuck on lock"' in text


def test_the_wait_of_an_earlier_retry_follows_from_the_policy() -> None:
    policy = {"retry_policy": {"auto_retry_for": ["BROKE"], "intervals": [10, 20], "max_retries": 2}}
    detail = story(
        row=row(next_retry_at=at(45), enqueued_at=at(45), claimed_at=at(46), started_at=at(47), finished_at=at(50)),
        options=stored(policy),
        attempts=(attempt(1, 1, 5, will_retry=True), attempt(2, 16, 25, will_retry=True), attempt(3, 47, 50)),
        executions=(), audit=(),
    )  # fmt: skip
    waits = [lane for lane in lanes(detail, at(60)) if lane.due is not None]
    assert [(lane.due, lane.about, phases(lane)) for lane in waits] == [
        (at(15), True, [("BACKOFF", 10)]),
        (at(45), False, [("BACKOFF", 20)]),
    ]
    assert "retry after about 10.0s" in "\n".join(line.text for line in timeline(told(detail, now=60), 120).lines)


def test_an_interrupted_attempt_goes_on_at_once() -> None:
    stopped = attempt(1, 1, 5, will_retry=True, error_code="TASK_INTERRUPTED", outcome="WORKER_FAILURE")
    detail = replace(running(), attempts=(stopped,), executions=())
    assert [lane.due for lane in lanes(detail, at(1_100))] == [None, None]


def test_a_requeue_by_hand_is_a_lane_of_its_own_however_soon() -> None:
    ended = attempt(1, 61, 903)
    soon = replace(running(), attempts=(ended,), audit=(action(904, "requeue"),), executions=(), row=_requeued(at(904)))
    assert [phases(lane)[0] for lane in lanes(soon, at(1_100))] == [("WAITING", 61), ("ENDED", 1), ("WAITING", 66)]
    taken = attempt(1, 61, 903, error_code="OPERATOR_REQUEUED", outcome="WORKER_FAILURE")
    lane, present = lanes(replace(soon, attempts=(taken,), audit=(action(903, "requeue"),)), at(1_100))
    assert lane.action is not None
    assert phases(present)[0] == ("WAITING", 67)
    requeued = action(1_903, "requeue", reason=None)
    detail = replace(
        running(), attempts=(ended,), audit=(requeued,), executions=(),
        row=replace(_requeued(at(1_903)), claimed_at=at(1_910), started_at=at(1_911)),
    )  # fmt: skip
    _, between, present = lanes(detail, at(2_000))
    assert phases(between) == [("ENDED", 1_000)]
    assert phases(present) == [("WAITING", 7), ("CLAIMED", 1), ("RUNNING", 89)]
    text = [line.text for line in timeline(told(detail), 120).lines]
    assert "requeued after 16m40s by ops@bastion" in text[1]


def test_the_undo_of_an_acknowledgement_is_no_requeue() -> None:
    audit = (action(1_920, "undo", id=9, undoes=8), action(1_910, "acknowledge", id=8), action(1_903, "requeue", id=7))
    row = replace(_requeued(at(1_903)), claimed_at=at(1_930), started_at=at(1_931))
    detail = replace(running(), attempts=(attempt(1, 61, 903),), audit=audit, executions=(), row=row)
    _, between, _ = lanes(detail, at(2_000))
    assert between.action is not None
    assert between.action.id == 7


def _requeued(moment: datetime) -> TaskRow:
    return replace(running().row, next_retry_at=None, enqueued_at=moment)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1e5), min_size=2, max_size=24), st.integers(30, 220), st.booleans())
def test_lanes_follow_each_other_and_fit_any_width(gaps: list[float], width: int, ascii_only: bool) -> None:
    moments, total = [], 0.0
    for gap in gaps:
        total += gap
        moments.append(total)
    pairs = list(zip(moments[::2], moments[1::2], strict=False))
    tries = tuple(attempt(number, *pair, will_retry=True) for number, pair in enumerate(pairs, 1))
    detail = replace(running(), attempts=tries, executions=(), row=replace(running().row, started_at=at(total)))
    told_lanes = lanes(detail, at(total + 100))
    stretches = [stretch for lane in told_lanes for stretch in lane.stretches]
    assert all(before.end == after.begin for before, after in pairwise(stretches))
    tell = told(detail, now=total + 100, glyphs=ASCII) if ascii_only else told(detail, now=total + 100)
    for line in timeline(replace(tell, open=frozenset({EARLIER, Fold("timeline", 1)})), width).lines:
        assert width_of(line.spans) <= width
        assert not ascii_only or line.text.isascii()


def many(count: int) -> TaskDetail:
    tries = tuple(attempt(n, n * 10, n * 10 + 5, will_retry=True, error_code="BROKE") for n in range(1, count + 1))
    return replace(running(), attempts=tries, executions=())


def test_of_many_attempts_the_newest_are_shown_and_the_others_unfold() -> None:
    folded = timeline(told(many(20)), 120)
    assert folded.lines[0].text == "▸ 14 earlier attempts"
    assert folded.lines[0].target == EARLIER
    unfolded = timeline(told(many(20), open=frozenset({EARLIER})), 120)
    assert unfolded.lines[0].text == "▾ all attempts"
    assert sum(isinstance(line.key, int) and line.key in range(1, 21) for line in unfolded.lines) == 20


def test_an_attempt_unfolds_to_all_that_is_known_of_it() -> None:
    long = replace(FIRST, error_message="no runner heartbeat " * 20)
    detail = story(attempts=(long, story().attempts[1]))
    shut = timeline(told(detail), 80)
    text = "\n".join(line.text for line in timeline(told(detail, open=frozenset({Fold("timeline", 1)})), 80).lines)
    said = [line.text for line in shut.lines if isinstance(line.key, tuple) and line.key[:2] == (1, "words")]
    assert len(said) == 3, "what does not fit beside the bar wraps there"
    assert said[-1].endswith("…")
    assert {line[: line.index("heartbeat")].strip() for line in said} <= {"", "runner", "no runner"}
    for words in ("waited 5.0s   claimed 56.0s   ran 14m02s", "started 2026-11-18 11:21:04Z", "retried", "web-3"):
        assert words in text
    assert text.replace("\n     ", "").count("no runner heartbeat") >= 20


def test_every_sign_of_the_drawing_stands_where_its_time_is() -> None:
    lines = [line for line in timeline(told(), 120).lines if not (isinstance(line.key, tuple) and "words" in line.key)]
    first, wait, second, axis = (line.text for line in lines)
    assert first.index("█") < first.index("✗") <= wait.index("┄")
    assert wait.rindex("┄") < second.index("░") < second.index("█") < second.index("✗")
    assert second.index("✗") == first.index("ran") - 3 == 51
    assert axis.startswith("   11:20:03Z ")
    assert " 25m52s " in axis
    assert axis[: second.index("✗")].rstrip().endswith("11:45:55Z")


def test_a_run_that_an_operator_took_away_is_no_failure_of_a_worker() -> None:
    """The column has no other word than WORKER_FAILURE for it."""
    for code, words, sign in (
        ("OPERATOR_CANCELLED", "outcome cancelled by an operator", "⊘"),
        ("TASK_CANCELLED", "outcome cancelled", "⊘"),
        ("OPERATOR_FAILED", "outcome failed by an operator", "✗"),
        ("WORKER_CRASHED", "outcome worker failure", "✗"),
    ):
        taken = replace(FIRST, error_code=code, will_retry=False)
        context = told(story(attempts=(taken,)), open=frozenset({Fold("timeline", 1)}))
        text = "\n".join(line.text for line in timeline(context, 200).lines)
        assert words in text
        assert sign in text.splitlines()[0], text
