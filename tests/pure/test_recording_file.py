"""The file of a recording: whole frames, killed writers, damage, foreign files; and a replay's moments."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Any

import pytest
from test_console_link_status import STATUS

from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.recording.file import MAGIC, RecordedFrame, RecordingError, RecordingReader, RecordingWriter
from horsies_tui.recording.player import Player, words
from horsies_tui.recording.recorder import Recorder

T0_MS = 1_795_000_000_000
ROWS = ("tasks", "rows", "", "newest")
DETAIL = ("detail", "task", "7f3a")


class Scene:
    """A recorder with given values for each second."""

    def __init__(self, path: Path) -> None:
        self.writer = RecordingWriter(path)
        self.recorder = Recorder(self.writer, lambda value: value, self.fail)

    def fail(self, why: str) -> None:
        raise AssertionError(why)

    def at(self, second: float, **shown: Any) -> None:
        keys = {"rows": ROWS, "detail": DETAIL}
        told = [(keys[name], (value,)) for name, value in shown.items()]
        self.recorder.write(T0_MS + round(second * 1000), [*told, (("link", "status"), (STATUS,))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "incident.rec"


def player_at(path: Path, second: float) -> Player:
    player = Player(RecordingReader(path))
    player.pause(True)
    player.seek(second - (player.now().timestamp() - T0_MS / 1000))
    return player


def rows_at(path: Path, second: float) -> tuple[Any, str]:
    seen = player_at(path, second).look("tasks", SnapshotPart("rows", ("rows",), ("", "newest"), what="this filter"))
    return seen.values and seen.values[0], seen.note


def test_each_moment_shows_what_was_on_screen_then(path: Path) -> None:
    scene = Scene(path)
    for second in range(700):  # more than two segments
        scene.at(second, rows=(f"row {second // 7}",))
    assert [rows_at(path, second)[0] for second in (0, 6.9, 7, 299, 300, 301, 690)] == [
        ("row 0",),
        ("row 0",),
        ("row 1",),
        ("row 42",),
        ("row 42",),
        ("row 43",),
        ("row 98",),
    ]
    assert sum(frame.begins for _, frame in RecordingReader(path).frames()) == 3


def test_what_was_not_on_screen_is_said_and_never_invented(path: Path) -> None:
    scene = Scene(path)
    scene.at(0, rows=("a",))
    scene.at(10, rows=("a",), detail="story")
    scene.at(20, rows=("a",))
    scene.at(30, rows=("a",), detail="later story")
    part = SnapshotPart("task", ("detail",), ("7f3a",), what="this task")
    seen = {second: player_at(path, second).look("detail", part) for second in (5, 15, 25, 30)}
    assert [each.values for each in seen.values()] == [None, ("story",), ("story",), ("later story",)]
    assert [bool(each.note) for each in seen.values()] == [True, False, True, False]
    assert "this task was not on screen before" in seen[5].note
    assert "was on screen until" in seen[25].note
    other = player_at(path, 15).look("detail", SnapshotPart("task", ("detail",), ("other",), what="this task"))
    assert (other.values, other.note) == (None, "this task was not on screen while this was recorded")


def test_rest_costs_little_and_a_gap_is_told_from_it(path: Path) -> None:
    scene = Scene(path)
    scene.at(0, rows=("a",) * 200)
    before = scene.writer.size
    for second in range(1, 61):
        scene.at(second, rows=("a",) * 200)
    assert scene.writer.size - before < 500
    scene.at(200, rows=("b",))
    assert player_at(path, 30).gap == ""
    assert player_at(path, 100).gap.startswith("nothing was recorded from")
    assert player_at(path, 200).gap == ""


def test_the_file_belongs_to_its_owner_and_is_never_overwritten(path: Path) -> None:
    old = os.umask(0)
    try:
        RecordingWriter(path).close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(RecordingError, match="exists already"):
        RecordingWriter(path)
    with pytest.raises(RecordingError, match="No such file"):
        RecordingWriter(path.parent / "missing" / "a.rec")


def test_every_cut_leaves_what_was_whole(path: Path) -> None:
    scene, sizes = Scene(path), []
    for second in range(5):
        scene.at(second, rows=(f"row {second}",))
        sizes.append(scene.writer.size)
    whole = path.read_bytes()
    for length in range(sizes[0], len(whole) + 1):
        path.write_bytes(whole[:length])
        reader = RecordingReader(path)
        assert len([*reader.frames()]) == sum(size <= length for size in sizes)
        assert reader.damaged_at is None


def test_damage_is_named_and_what_is_before_it_is_shown(path: Path) -> None:
    scene = Scene(path)
    for second in range(5):
        scene.at(second, rows=(f"row {second}",))
        if second == 2:
            whole = scene.writer.size
    data = bytearray(path.read_bytes())
    data[whole + 20] ^= 0xFF
    path.write_bytes(data)
    player = player_at(path, 100)
    assert player.at_end
    assert player.damage == f"the file is damaged from byte {whole:,} on, and ends there"
    assert rows_at(path, 100)[0] == ("row 2",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a recording of horsies tui"),
        (b"\x7fELF" * 100, "is not a recording of horsies tui"),
        (MAGIC + b"7\n", "was recorded in format 7, and this release reads 1"),
        (MAGIC + b"1\n", "is empty"),
        (MAGIC + b"1\n" + b"\xff" * 100, "is damaged at its beginning"),
        (MAGIC + b"1\n" + struct.pack(">II", 90, 0) + b"x" * 90, "is damaged at its beginning"),
    ],
)
def test_a_foreign_file_is_refused_with_a_reason(path: Path, content: bytes, why: str) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=why):
        Player(RecordingReader(path))


@pytest.mark.parametrize(
    "head",
    [
        b" " * 5_000_000,
        b"[]",
        b"{",
        b'{"names":{"1":["a"]},"on":[],"off":[]}',
        b'{"names":{},"on":[3],"off":[]}',
        b"[" * 9_000,
    ],
)
def test_whole_frames_with_another_content_are_refused(path: Path, head: bytes) -> None:
    RecordingWriter(path).write(RecordedFrame(True, T0_MS, head, b"{}"))
    with pytest.raises(RecordingError, match="is not what this release of horsies records"):
        Player(RecordingReader(path))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b" " * 70_000_000, "inflates to more than 64 MB"),
        (b"{}", "classes"),
        (b'{"classes":[],"objects":[],"values":{"0":["system","true"]}}', "is not a value"),
        (b'{"classes":[],"objects":[],"values":{"0":["(",["text"]]}}', "cannot be replayed"),
    ],
)
def test_values_that_are_none_are_refused_at_the_start(path: Path, body: bytes, why: str) -> None:
    head = b'{"names":{"0":["link","status"]},"on":[0],"off":[]}'
    RecordingWriter(path).write(RecordedFrame(True, T0_MS, head, body))
    with pytest.raises(RecordingError, match=why):
        Player(RecordingReader(path))


@pytest.mark.parametrize("at_ms", [-1, -(2**62), 2**62, 253_402_300_799_000])
def test_a_time_out_of_range_is_an_error(path: Path, at_ms: int) -> None:
    RecordingWriter(path).write(RecordedFrame(True, at_ms, b'{"names":{},"on":[],"off":[]}', b"{}"))
    with pytest.raises(RecordingError, match="is not between the years 1970 and 9000"):
        Player(RecordingReader(path))


def test_a_segment_of_many_frames_is_inflated_up_to_a_limit(path: Path) -> None:
    """Each frame is allowed, and 90 kB of file would take 600 MB of memory."""
    writer = RecordingWriter(path)
    head = b'{"names":{"0":["link","status"]},"on":[0],"off":[]}'
    for number in range(9):
        body = b'{"classes":[],"objects":[%s[]],"values":{}}' % (b"[]," * 500_000)
        writer.write(RecordedFrame(number == 0, T0_MS, head if number == 0 else b'{"names":{},"on":[],"off":[]}', body))
    with pytest.raises(RecordingError, match="would take more than 256 MB of memory"):
        Player(RecordingReader(path))


def test_a_busy_console_records_in_segments_that_can_be_read(path: Path) -> None:
    scene = Scene(path)
    for second in range(40):
        scene.at(second, rows=(f"{second}" * 1_000_000,))
    assert len([frame for _, frame in RecordingReader(path).frames() if frame.begins]) > 1
    assert rows_at(path, 39)[0] == ("39" * 1_000_000,)


def test_a_part_that_cannot_be_read_later_says_so_and_the_others_are_shown(path: Path) -> None:
    scene = Scene(path)
    scene.at(0, rows=("a",))
    head = b'{"names":{},"on":[0],"off":[]}'
    scene.writer.write(
        RecordedFrame(True, T0_MS + 10_000, head, b'{"classes":[],"objects":[],"values":{"0":["system"]}}')
    )
    assert rows_at(path, 5) == (("a",), "")
    values, note = rows_at(path, 10)
    assert values is None
    assert "is not what this release of horsies records" in note
    assert player_at(path, 10).status() == STATUS


def test_a_part_with_other_fields_is_left_to_the_release_that_recorded_it(path: Path) -> None:
    Scene(path).at(0, rows=("a",))
    seen = player_at(path, 0).look("tasks", SnapshotPart("rows", ("rows", "new"), ("", "newest"), what="this filter"))
    assert (seen.values, seen.note) == (None, "this filter was recorded by another release, which shows it")


def test_it_is_paused_sped_up_and_ends_where_the_recording_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(path)
    for second in range(61):
        scene.at(second, rows=(f"row {second}",))
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    player = Player(RecordingReader(path), 4.0)

    def second() -> float:
        return player.now().timestamp() - T0_MS / 1000

    clock[0] += 5
    assert (second(), words(player)) == (20.0, "4×")
    player.pause(True)
    clock[0] += 5
    assert (second(), words(player)) == (20.0, "paused")
    player.seek(-30)
    assert second() == 0.0
    player.faster(1)
    player.pause(False)
    clock[0] += 2
    assert (second(), words(player)) == (16.0, "8×")
    clock[0] += 3600
    assert (second(), words(player), player.at_end) == (60.0, "ended", True)
    player.seek(-10)
    assert (second(), player.at_end) == (50.0, False)
    clock[0] += 60
    player.pause(False)
    assert second() == 0.0, "at the end it begins again"
