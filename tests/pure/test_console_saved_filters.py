"""Filters that the console saves in the config file, without a change to anything else in it."""

from __future__ import annotations

import threading
import tomllib
from pathlib import Path

import pytest

from horsies.config.contexts import read_config_file
from horsies.domain.errors import ConfigurationError
from horsies_tui.saved_filters import forget_filter, is_filter_name, save_filter
from horsies_tui.settings import ConsoleSettings

FULL = """\
# my databases
theme = "nord"   # dark

[filters]  # by name
mine = "queue:mail"
'quoted' = "status:failed"

[contexts.prod]
url = "postgresql://ops@db01/app"
"""


def test_a_filter_is_added_below_the_others_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FULL)
    path.chmod(0o640)
    save_filter(path, "tasks", "new", 'name:"a \\"b\\"" since:1h')
    assert path.read_text() == FULL.replace(
        "'quoted' = \"status:failed\"\n",
        '\'quoted\' = "status:failed"\nnew = "name:\\"a \\\\\\"b\\\\\\"\\" since:1h"\n',
    )
    assert ConsoleSettings.of(read_config_file(path)).filters["new"] == 'name:"a \\"b\\"" since:1h'
    assert path.stat().st_mode & 0o777 == 0o640
    save_filter(path, "workflows", "stuck", "status:running run:>1h")
    assert '\n\n[filters.workflows]\nstuck = "status:running run:>1h"\n' in path.read_text()
    assert dict(ConsoleSettings.of(read_config_file(path)).filters_of("workflows")) == {
        "stuck": "status:running run:>1h"
    }
    for screen, name in (("tasks", "new"), ("tasks", "quoted"), ("workflows", "stuck")):
        forget_filter(path, screen, name)
    left = [line for line in path.read_text().splitlines() if line and line != "[filters.workflows]"]
    assert left == [line for line in FULL.splitlines() if line and "quoted" not in line]
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_a_file_that_does_not_exist_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "horsies" / "config.toml"
    save_filter(path, "tasks", "mine", "queue:mail")
    assert path.read_text() == '[filters]\nmine = "queue:mail"\n'
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, path = tmp_path / "dotfiles" / "horsies.toml", tmp_path / "config.toml"
    real.write_text(FULL)
    path.symlink_to(real)
    save_filter(path, "tasks", "new", "x")
    assert path.is_symlink()
    assert ConsoleSettings.of(read_config_file(real)).filters["new"] == "x"


@pytest.mark.parametrize("text", ['filters = {mine = "x"}\n', 'filters.mine = "x"\n', 'note = """\n[filters]\n"""'])
def test_a_filter_is_added_to_a_file_of_any_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    save_filter(path, "tasks", "new", "y")
    before, after = tomllib.loads(text), tomllib.loads(path.read_text())
    assert after == {**before, "filters": {**before.get("filters", {}), "new": "y"}}
    forget_filter(path, "tasks", "new")
    assert tomllib.loads(path.read_text()) == {"filters": {}, **before}


@pytest.mark.parametrize(
    ("text", "words"), [("theme = \n", "not valid TOML"), ('filters = "mine"\n', "filters in the config file is not a")]
)
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        save_filter(path, "tasks", "new", "x")
    assert path.read_text() == text


def test_a_name_is_not_taken_twice_and_an_unknown_one_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FULL + '\n[filters.workers]\nold = "x"\n')
    with pytest.raises(ConfigurationError, match="there is a filter mine already"):
        save_filter(path, "tasks", "mine", "x")
    with pytest.raises(ConfigurationError, match="the table of another screen"):
        save_filter(path, "tasks", "workers", "x")
    with pytest.raises(ConfigurationError, match="there is no saved filter none"):
        forget_filter(path, "tasks", "none")
    assert is_filter_name("a-b_1")
    assert not is_filter_name("a.b")
    assert not is_filter_name("")


def test_two_consoles_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FULL)
    saving = [
        threading.Thread(target=save_filter, args=(path, "tasks", f"f{number}", f"queue:q{number}"))
        for number in range(12)
    ]
    for thread in saving:
        thread.start()
    for thread in saving:
        thread.join()
    assert {f"f{number}" for number in range(12)} <= set(ConsoleSettings.of(read_config_file(path)).filters)
