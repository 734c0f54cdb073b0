"""The texts of the task list before there are rows, the strip of heartbeats, and what is copied."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import replace
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
from horsies_tui.look.glyphs import UNICODE
from horsies_tui.task.export import file_end, is_cut, new_file, story_json, write_new
from horsies_tui.task.heartbeats import BeatState, BeatTrack, beats_of, heartbeats, strip
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.tasks.task_list_texts import empty_words, tally

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
