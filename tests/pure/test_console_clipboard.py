"""Copying: the sequence sent to a terminal, its size limit, and files for longer texts."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from story_scene import story

from horsies.display.payload import Masks
from horsies.domain.errors import HorsiesError
from horsies.views import Stored
from horsies_tui.clipboard import MOST_BYTES, fits, given_to_a_program, sequence, through_tmux
from horsies_tui.task.export import is_cut, new_file, story_json, write_new


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
