"""The task list: texts before there are rows, cursor and view, position; the strip of heartbeats; what is copied."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from story_scene import T0, at, row, running, story, told, waiting
from test_console_link_status import STATUS

from horsies.config.recovery import RecoveryConfig
from horsies.display.payload import Masks
from horsies.domain.errors import HorsiesError
from horsies.query import parse
from horsies.views import Count, Execution, Sort, Stored, TaskCounts
from horsies_tui.clipboard import MOST_BYTES, fits, given_to_a_program, sequence, through_tmux
from horsies_tui.feed.status import LinkState, LinkStatus
from horsies_tui.look.bars import WHOLE, Extent, more_below, position, scrollbar
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import title_line
from horsies_tui.task.export import file_end, is_cut, new_file, story_json, write_new
from horsies_tui.task.heartbeats import BeatState, BeatTrack, beats_of, heartbeats, strip
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.tasks.task_list_texts import empty_words, tally
from horsies_tui.widgets.viewport import Viewport

NOW = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
CONNECTING = replace(STATUS, state=LinkState.CONNECTING, since=NOW, last_data_at=None, server_version=None)


@pytest.mark.parametrize(
    ("task_id", "end"),
    [
        ("019a7c2e-9999-7000-8000-0000feedf00d", "feedf00d"),
        ("order/../..", "er______"),
        ("\x1b]0;t\x07[/x]", "0_t___x_"),
        ("t1", "t1"),
    ],
)
def test_the_end_of_an_id_is_no_path(task_id: str, end: str) -> None:
    assert file_end(task_id) == end


@pytest.mark.parametrize(
    ("status", "after_s", "words"),
    [
        (CONNECTING, 1, ["Connecting to db01/app"]),
        (CONNECTING, 4, ["No answer yet from db01/app", "@ opens another database"]),
        (
            replace(CONNECTING, state=LinkState.DOWN, detail="cannot connect to db01:5432"),
            12,
            ["Not connected to db01/app.", "cannot connect to db01:5432"],
        ),
    ],
)
def test_without_a_connection_it_says_to_which_database_and_why(
    status: LinkStatus, after_s: int, words: list[str]
) -> None:
    said = empty_words(TaskSnapshot(), status, NOW + timedelta(seconds=after_s))
    assert [word for word in words if word not in said] == []


def test_a_refusal_that_says_what_is_missing_says_it_once() -> None:
    lack = "schema public has no horsies tables; `horsies db init` creates them"
    status = replace(CONNECTING, state=LinkState.LIVE, last_data_at=NOW, lacks=(lack,))
    said = empty_words(TaskSnapshot(error=lack), status, NOW)
    assert said.count("horsies db init") == 1


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.RUNNING])
@pytest.mark.parametrize("searched", ["", "searched back to 2026-11-17 12:04Z"])
def test_the_count_and_the_empty_list_below_it_agree(sort: Sort, searched: str) -> None:
    """`5 match` stood above `No task matches`: the count was older than the rows, or of other rows than the order's."""
    need = TaskNeed(parse("queue:mail"), sort)
    found = TaskCounts({"PENDING": Count(5)}, None, None)
    whole = {"at_start": True, "at_end": not searched, "searched": searched, "now": NOW, "loading": False}
    snapshot = TaskSnapshot(counts=found, filter_text="queue:mail", sort=sort, **whole)
    counts = tally(snapshot, need, UNICODE, UTC, frozen=False, up=True).counts
    said = empty_words(snapshot, replace(CONNECTING, state=LinkState.LIVE), NOW)
    assert counts is not None
    assert ("No task matches" in said) is (counts.total.number == 0)
    assert counts.total.number == 0 or "5 match" in said


MINUTE = timedelta(minutes=1)


def of(beats: list[float], end: float, **fields: object) -> BeatTrack:
    usual = {
        "role": "runner", "beats": tuple(at(beat) for beat in beats), "begin": T0, "end": at(end), "live": True,
        "every": timedelta(seconds=30), "stale_after": 5 * MINUTE,
    }  # fmt: skip
    return BeatTrack(**{**usual, **fields})  # type: ignore[arg-type]


@given(st.integers(0, 400), st.integers(1, 100), st.floats(-10, 10))
def test_regular_beats_are_heard_at_every_place(count: int, width: int, drift: float) -> None:
    heard = strip(of([30 * n + (drift if n else 0) for n in range(count + 1)], 30 * count + 20), width)
    assert 1 <= len(heard) <= width
    assert set(heard) == {BeatState.ON_TIME}


@given(st.floats(0, 100_000), st.integers(1, 100))
def test_silence_grows_from_late_to_stale_and_never_back(silent: float, width: int) -> None:
    heard = strip(of([10.0], 10 + silent), width)
    order = [BeatState.ON_TIME, BeatState.LATE, BeatState.STALE]
    assert [order.index(each) for each in heard] == sorted(order.index(each) for each in heard)
    assert heard[-1] is (BeatState.STALE if silent > 300 else BeatState.LATE if silent > 60 else BeatState.ON_TIME)


def test_a_place_is_one_beat_long_where_there_is_room() -> None:
    assert strip(of([0, 30, 60], 390), 50) == (BeatState.ON_TIME,) * 4 + (BeatState.LATE,) * 8 + (BeatState.STALE,)
    assert strip(of([], 10), 50) == (BeatState.ON_TIME,)


def text(detail: object, now: float, width: int = 120, **fields: object) -> str:
    section = heartbeats(told(detail, now=now, **fields), width)  # type: ignore[arg-type]
    assert section is not None
    return "\n".join([section.more, *(line.text for line in section.lines)])


def test_a_healthy_run_says_when_it_was_heard_last() -> None:
    assert text(running(), 1_040) == ("attempt 2, runner web-1:4120\n♥♥♥   every 30s   last 9s ago   stale after 5m00s")


def test_a_silent_run_says_when_it_will_count_as_dead_and_then_what_is_done_about_it() -> None:
    assert text(running(), 1_131).endswith("last 1m40s ago   stale after 5m00s   stale in 3m20s")
    dead = text(running(), 1_391)
    assert "│" in dead
    assert dead.endswith("stale: the next sweep ends it as WORKER_CRASHED")
    settings = RecoveryConfig(auto_fail_stale_running=False)
    assert text(running(), 1_391, recovery=settings).endswith("stale: no sweep ends it")


def test_a_claim_is_judged_by_its_claimer() -> None:
    claimed = row(status="CLAIMED", state="CLAIMED", started_at=None, finished_at=None, error_code=None)
    detail = replace(running(), row=claimed, executions=(Execution(2, (at(990),), (), None, False),))
    assert text(detail, 1_000).startswith("attempt 2, claimer web-1\n")
    assert "stale after 2m00s" in text(detail, 1_000)
    assert text(detail, 1_200).endswith("stale: the next sweep requeues it")


def test_a_result_that_is_being_written_has_its_own_threshold() -> None:
    detail = replace(running(), row=replace(running().row, finalizing_at=at(1_035)))
    settings = RecoveryConfig(finalizing_stale_threshold_ms=600_000)
    assert "stale after 10m00s" in text(detail, 1_040, recovery=settings)


def test_an_ended_run_says_how_long_before_its_end_it_was_heard() -> None:
    assert "last 41.0s before the end" in text(story(), 9_000)
    assert text(waiting(), 940).startswith("attempt 1, runner web-3:88")


def test_who_was_never_in_hand_or_never_heard_has_no_strip() -> None:
    assert heartbeats(told(replace(story(), executions=())), 80) is None
    assert beats_of(told(replace(story(), executions=(Execution(2, (), (), None, False),)))) is None
    assert "none for 7s" in text(replace(running(), executions=(Execution(2, (), (), None, False),)), 978)


def test_of_a_long_run_only_the_end_was_read_and_the_strip_says_so() -> None:
    beats = tuple(at(40_000 + 30 * n) for n in range(120))
    detail = replace(running(), executions=(Execution(2, (), beats, "web-1:4120", True),))
    assert text(detail, 43_580).splitlines()[1].startswith("…♥♥♥")


@given(st.text(max_size=200))
def test_a_terminal_is_sent_the_text_to_the_letter(text: str) -> None:
    raw = sequence(text)
    assert raw.startswith("\x1b]52;c;")
    assert raw.endswith("\a")
    assert base64.b64decode(raw[7:-1]).decode() == text
    assert through_tmux(raw) == "\x1bPtmux;\x1b" + raw + "\x1b\\"


def test_no_more_is_sent_than_terminals_take() -> None:
    assert fits("x" * MOST_BYTES)
    assert not fits("x" * (MOST_BYTES + 1))
    assert not fits("ż" * (MOST_BYTES // 2 + 1))
    assert len(sequence("x" * MOST_BYTES)) == 100_000


def test_a_copied_task_is_the_json_of_the_command_without_what_is_hidden() -> None:
    told = json.loads(story_json(story(), None, Masks(frozenset({"*token"}))))
    assert told["task"]["status"] == "FAILED"
    assert told["kwargs"]["api_token"] == "***"
    assert [attempt["attempt"] for attempt in told["attempts"]] == [1, 2]
    assert told["audit"][0]["reason"] == "stuck on lock"


def test_a_task_of_which_a_part_was_read_is_known_as_such() -> None:
    assert not is_cut(story())
    assert is_cut(story(kwargs=Stored("{", 3_000_000, cut=True)))


def test_a_file_is_new_and_for_its_owner_only(tmp_path: Path) -> None:
    path = new_file(f" {tmp_path}/task.json ")
    write_new(path, '{"a": "ż"}')
    assert path.read_text("utf-8") == '{"a": "ż"}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(HorsiesError, match="exists; choose another name"):
        new_file(str(path))
    with pytest.raises(HorsiesError, match="File exists; choose another place"):
        write_new(path, "")
    with pytest.raises(HorsiesError, match="does not exist"):
        new_file(f"{tmp_path}/none/task.json")


@pytest.fixture
def desk(tmp_path: Path) -> dict[str, str]:
    """A machine with a display, whose `xclip` writes its input to a file."""
    program = tmp_path / "xclip"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = '-selection clipboard' ] && exec /bin/cat > {tmp_path}/taken\n")
    program.chmod(0o755)
    return {"PATH": str(tmp_path), "DISPLAY": ":0"}


def test_a_program_that_took_it_is_believed(desk: dict[str, str], tmp_path: Path) -> None:
    assert given_to_a_program("zażółć", desk)
    assert (tmp_path / "taken").read_text("utf-8") == "zażółć"


def test_a_program_that_fails_or_has_no_screen_is_not(desk: dict[str, str], tmp_path: Path) -> None:
    assert not given_to_a_program("a", {"PATH": desk["PATH"]})
    assert not given_to_a_program("a", {**desk, "SSH_CONNECTION": "10.0.0.1 22 10.0.0.2 22"})
    (tmp_path / "xclip").write_text("#!/bin/sh\nexit 1\n")
    assert not given_to_a_program("a", desk)


@dataclass(frozen=True)
class Row:
    id: str


def rows(*ids: object) -> tuple[Row, ...]:
    return tuple(Row(str(each)) for each in ids)


def viewport(count: int, *, cursor: int = 0, height: int = 5) -> Viewport[Row]:
    view: Viewport[Row] = Viewport()
    view.resize(height)
    view.take(rows(*range(count)))
    view.move_to(cursor)
    return view


def line_of_cursor(view: Viewport[Row]) -> int:
    return view.cursor - view.top


def test_rows_that_come_above_move_neither_the_cursor_nor_its_line():
    view = viewport(20, cursor=3)
    view.take(rows("a", "b", "c", *range(20)))
    assert (view.cursor_id, line_of_cursor(view)) == ("3", 3)


def test_with_stick_the_newest_stay_in_view_and_the_cursor_on_its_row():
    view = viewport(20)
    view.take(rows("new", *range(20)), stick=True)
    assert (view.cursor_id, view.cursor, view.top) == ("0", 1, 0)


def test_with_stick_a_row_that_leaves_the_view_is_chosen_no_more():
    view = viewport(20)
    view.take(rows("a", "b", "c", "d", *range(20)), stick=True)
    assert (view.cursor_id, view.top) == ("0", 0)
    view.take(rows("e", "a", "b", "c", "d", *range(20)), stick=True)
    assert (view.cursor_id, view.cursor_row, view.top) == (None, None, 0)
    view.step(1)
    assert view.cursor_id == "e"
    view.step(1)
    assert view.cursor_id == "a"


def test_beyond_the_edge_the_view_moves_by_half_so_that_most_keys_send_two_lines():
    view = viewport(20, cursor=4)
    view.move_to(5)
    assert (view.top, line_of_cursor(view)) == (3, 2)


def test_a_page_keeps_one_row_in_view_and_ends_full():
    view = viewport(12)
    view.page(1)
    assert (view.top, view.cursor_id) == (4, "4")
    view.page(1)
    view.page(1)
    assert [row.id for row in view.in_view] == ["7", "8", "9", "10", "11"]
    view.page(-1)
    view.page(-9)
    assert (view.top, view.cursor) == (0, 0)


IDS = st.lists(st.integers(0, 30), unique=True, max_size=25)
STEP = st.one_of(
    st.tuples(st.just("take"), IDS, st.booleans()),
    st.tuples(st.just("move"), st.integers(-5, 40)),
    st.tuples(st.just("page"), st.integers(-2, 2)),
    st.tuples(st.just("resize"), st.integers(-1, 12)),
)


@given(st.lists(STEP, max_size=30))
def test_the_cursor_is_in_view_and_no_blank_is_shown_where_rows_are(steps):
    view: Viewport[Row] = Viewport()
    for name, *values in steps:
        match name:
            case "take":
                before = view.cursor_id
                view.take(rows(*values[0]), stick=values[1])
                if before is not None:
                    stays = not values[1] and view.index_of(before) is not None
                    assert view.cursor_id in ((before,) if stays else (before, None))
            case "move":
                view.move_to(values[0])
            case "page":
                view.page(values[0])
            case "resize":
                view.resize(values[0])
        assert len(view.in_view) == min(view.height, len(view.rows))
        assert view.cursor_row is None or view.cursor_row in view.in_view
        assert view.above + len(view.in_view) + view.below == len(view.rows)


@pytest.mark.parametrize(
    ("index", "loaded", "extent", "words"),
    [
        (11, 40, WHOLE, "12 / 40"),
        (11, 400, Extent(0, 2_772), "12 / 2,772"),
        (0, 200, Extent(0, 10_000, at_least=True), "1 / 10,000+"),
        (4, 200, Extent(37, 2_772), "42 / 2,772"),
        (4, 200, Extent(None, 2_772), "… / 2,772"),
        (None, 200, Extent(0, 2_772), "2,772"),
        (99, 100, Extent(0, 90), "100 / 100"),
    ],
)
def test_the_position_is_the_number_of_the_row_and_of_all(
    index: int | None, loaded: int, extent: Extent, words: str
) -> None:
    assert position(index, loaded, extent, UNICODE) == words


def test_rows_that_a_part_does_not_show_are_counted() -> None:
    assert more_below(4, UNICODE) == "↓ 4 more"
    assert more_below(1_204, ASCII) == "v 1,204 more"
    assert more_below(0, UNICODE) == ""


def test_a_scrollbar_shows_which_part_is_in_view() -> None:
    extent = Extent(0, 100)
    assert scrollbar(0, 10, 40, extent, 10) == range(1)
    assert scrollbar(1, 10, 40, extent, 10) == range(1, 2)
    assert scrollbar(45, 10, 60, extent, 10) == range(4, 5)
    assert scrollbar(90, 10, 100, extent, 10) == range(9, 10)
    assert scrollbar(0, 10, 20, WHOLE, 10) == range(5)
    assert scrollbar(0, 10, 10, WHOLE, 10) is None
    assert scrollbar(0, 10, 40, Extent(None, 100), 10) is None


@given(st.integers(1, 60), st.integers(0, 3_000_000), st.integers(0, 3_000_000))
def test_its_thumb_is_on_the_bar_and_at_an_end_only_there(view: int, top: int, whole: int) -> None:
    top = min(top, max(whole - view, 0))
    found = scrollbar(top, view, whole, Extent(0, whole), view)
    assert (found is None) is (view >= whole)
    if found is not None:
        assert len(found) >= 1
        assert range(view)[found.start : found.stop] == found
        if view > 2:
            assert (found.start == 0) is (top == 0) or len(found) == view
            assert (found.stop == view) is (top == whole - view) or len(found) >= view - 1


@pytest.mark.parametrize(
    ("width", "title"),
    [
        (40, "   ID      ERROR             12 / 2,772 "),
        (29, "   ID      ERROR  12 / 2,772 "),
        (27, "   ID      ERROR  12/2,772 "),
        (24, "   ID      ERROR        "),
    ],
)
def test_the_position_stands_at_the_end_of_the_titles_if_there_is_room(width: int, title: str) -> None:
    columns = ColumnSet(
        (
            Column("id", "ID", lambda row, look: Cell(row.id), 7),
            Column("error", "ERROR", lambda row, look: Cell(""), 5, grow=1),
        )
    )
    line = title_line(columns.place(width), UNICODE, width, "12 / 2,772")
    assert "".join(piece.text for piece in line) == title
    assert sum(piece.width for piece in line) == width
