"""The console's settings, saved filters and environment; filters that keys make; times as an operator types them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from horsies.config.contexts import ConfigFile, DatabaseChoice, read_config_file
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError
from horsies.query import parse
from horsies.query.keys import EVERY_STATE, SCHEDULED
from horsies.query.language import states
from horsies.views import GROUPINGS, Sort
from horsies_tui.look import themes
from horsies_tui.saved_filters import forget_filter, is_filter_name, save_filter
from horsies_tui.settings import ConsoleOptions, ConsoleSettings
from horsies_tui.shell import environment, launch
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.environment import (
    ANSI,
    DARK,
    LIGHT,
    fitting_theme,
    for_textual,
    unknown_theme,
    wants_ascii,
    why_unfit,
)
from horsies_tui.tasks.filter_edits import GROUP_KEYS, NoSuchFilter, all_shown, of_groups, of_states


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('bell = "loud"', "bell is neither true nor false"),
        ("theme = 3", "theme is not a string"),
        ("story = 'off'", "story is neither true nor false"),
        ("filters = 'status:failed'", "filters is not a table of names and texts"),
        ("targets = '1m'", "targets is not a length of time"),
        ("[targets]\nmail = 60", "targets.mail is not a length of time"),
        ("[targets]\nmail = '1 min'", "targets.mail is not a length of time"),
        ("[filters]\nmine = 3", "filters is not a table of names and texts"),
        ("keys = 3", "keys is not a table"),
        ("[keys]\ntasks.follow = 5", "keys.tasks.follow names no key"),
        ("[keys]\n'tasks.follow' = 'f,,g'", "keys.tasks.follow names no key"),
        ("[keys]\n'tasks.follow' = ''", "keys.tasks.follow names no key"),
        ("[keys]\n'postgresql://u:hunter2@h/d' = 3", "names no key"),
    ],
)
def test_a_wrong_setting_names_the_file_the_key_and_a_valid_value(tmp_path: Path, text: str, says: str) -> None:
    """Only the console stops on it: no other command reads these keys."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    file = read_config_file(path)
    with pytest.raises(ConfigurationError) as caught:
        ConsoleSettings.of(file)
    assert says in caught.value.message
    assert str(path) in str(caught.value)
    assert caught.value.help_text
    assert "hunter2" not in str(caught.value)


def test_settings_are_read_and_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    usual = ConsoleSettings.of(read_config_file(path))
    assert usual == ConsoleSettings()
    assert (usual.bell, usual.title, usual.story) == (False, True, True)
    path.write_text(
        "theme = 'ansi'\nstory = false\nbell = true\ntitle = false\nmask_arguments = ['password', 'card_*']\n"
        "[filters]\nmine = 'queue:mail'\n[targets]\nmail = '90s'\nbulk = '2h'"
    )
    file = read_config_file(path)
    assert file.mask_arguments == ("password", "card_*")
    assert ConsoleSettings.of(file) == ConsoleSettings(
        theme="ansi",
        story=False,
        bell=True,
        title=False,
        filters={"mine": "queue:mail"},
        targets={"mail": 90, "bulk": 7200},
    )


def test_ids_of_keys_may_be_quoted_or_written_as_toml_reads_dots(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[keys]\ntasks.follow = 'F5'\ntasks.hold = 'h,p'\n'app.help' = 'f1'\n[keys.table]\ndown = 'n'")
    assert ConsoleSettings.of(read_config_file(path)).keys == {
        "tasks.follow": "F5",
        "tasks.hold": "h,p",
        "app.help": "f1",
        "table.down": "n",
    }


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


TRUE_COLOUR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@pytest.mark.parametrize("environ", [{}, {"TERM": ""}, {"TERM": "dumb"}])
def test_a_terminal_that_cannot_move_its_cursor_is_refused(environ: dict[str, str]) -> None:
    assert "TERM is dumb" in (why_unfit(environ, is_terminal=True) or "")


def test_a_pipe_is_refused_and_a_terminal_is_not() -> None:
    assert "needs a terminal" in (why_unfit(TRUE_COLOUR, is_terminal=False) or "")
    assert why_unfit(TRUE_COLOUR, is_terminal=True) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.utf8"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, True),
    ],
)
def test_ascii_is_chosen_where_the_locale_is_not_utf8(environ: dict[str, str], expected: bool) -> None:
    assert wants_ascii(environ) is expected


@pytest.mark.parametrize(
    ("environ", "wished", "expected"),
    [
        (TRUE_COLOUR, None, DARK),
        ({**TRUE_COLOUR, "COLORFGBG": "0;15"}, None, LIGHT),
        ({**TRUE_COLOUR, "COLORFGBG": "15;0"}, None, DARK),
        ({"TERM": "xterm-256color"}, None, DARK),
        ({"TERM": "xterm"}, None, ANSI),
        ({"TERM": "linux"}, LIGHT, LIGHT),
        ({**TRUE_COLOUR, "NO_COLOR": "1"}, None, ANSI),
        ({**TRUE_COLOUR, "NO_COLOR": "1"}, DARK, ANSI),
        ({**TRUE_COLOUR, "NO_COLOR": ""}, None, DARK),
    ],
)
def test_the_theme_suits_the_terminal(environ: dict[str, str], wished: str | None, expected: str) -> None:
    assert fitting_theme(environ, wished) == expected


def test_the_names_of_the_themes_are_those_that_exist() -> None:
    assert list(environment.THEMES) == list(themes.THEMES)
    assert unknown_theme(DARK) is None
    assert DARK in str(unknown_theme("solarized"))


def test_an_empty_no_color_is_no_wish() -> None:
    assert for_textual({"NO_COLOR": ""}, fps=4)["NO_COLOR"] is None
    assert for_textual({"NO_COLOR": "1"}, fps=4)["NO_COLOR"] == "1"
    assert for_textual({}, fps=4)["TEXTUAL_FPS"] == "4"


@pytest.mark.parametrize("module", ["horsies.cli.main", "horsies_tui.shell.launch", "horsies_tui.settings"])
def test_nothing_loads_textual_before_the_environment_is_set(module: str) -> None:
    code = f"import {module}, sys; print([name for name in sys.modules if name.partition('.')[0] == 'textual'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_no_key_waits_for_a_collection_of_what_the_imports_have_made(monkeypatch: pytest.MonkeyPatch) -> None:
    exempt: list[tuple[int, bool]] = []

    async def run_async(self: ConsoleApp, *, mouse: bool) -> None:
        exempt.append((gc.get_freeze_count(), gc.isenabled()))

    monkeypatch.setattr(ConsoleApp, "run_async", run_async)
    monkeypatch.setattr(launch.os, "environ", dict(TRUE_COLOUR))
    monkeypatch.setattr(sys, "__stdin__", None)  # that of a test process is no terminal
    choice = DatabaseChoice(DatabaseUrl.parse("postgresql://ops@127.0.0.1:1/app"), "for the test")
    gc.unfreeze()
    assert launch.run(ConsoleOptions(choice, ConfigFile(Path("config.toml"), {}, None))) == 0
    ((count, collects),) = exempt
    assert count > 50_000
    assert collects


def test_without_a_terminal_the_command_points_at_the_one_that_prints(tmp_path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "xterm"}
    run = subprocess.run(
        [sys.executable, "-m", "horsies", "tui"], capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert "needs a terminal" in run.stderr
    assert "horsies tasks ls" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["task"], "cannot be opened"),
        (["task", "7f3a", "8"], "cannot be opened"),
        (["--screen", "queues"], "there is no screen"),
        (["--fps", "0"], "--fps"),
        (["--context", "a", "--database-url", "postgresql://h/d"], "both name a database"),
    ],
)
def test_a_wrong_command_line_is_refused_before_the_terminal_is_touched(arguments: list[str], says: str) -> None:
    run = subprocess.run([sys.executable, "-m", "horsies", "tui", *arguments], capture_output=True, text=True)
    assert run.returncode == 2
    assert says in run.stderr


SOME_STATES = st.frozensets(st.sampled_from(sorted(EVERY_STATE - {SCHEDULED})), min_size=1)
"""As rows show them: a scheduled task is shown as pending."""


@given(SOME_STATES)
def test_a_filter_of_states_covers_exactly_these(wanted: frozenset[str]) -> None:
    made = of_states(parse("queue:mail"), wanted)
    assert states(parse(made.text)) == (wanted | {SCHEDULED} if "PENDING" in wanted else wanted)
    assert "queue:mail" in made.text


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("", {"FAILED", "INTERRUPTED"}, "status:failed"),
        ("", {"FAILED"}, "status:failed -status:interrupted"),
        ("", {"RETRY"}, "status:retry"),
        ("status:done queue:mail", {"RUNNING"}, "status:running queue:mail"),
        ("", {"PENDING", "RETRY", "CLAIMED", "RUNNING"}, "status:live"),
        ("status:failed since:1h", set(), "since:1h"),
        ("status:failed", EVERY_STATE, ""),
    ],
)
def test_states_are_written_as_a_person_would(before: str, wanted: set[str], after: str) -> None:
    assert of_states(parse(before), frozenset(wanted)).text == after


def test_every_grouping_narrows_some_key() -> None:
    assert set(GROUP_KEYS) == set(GROUPINGS)


def test_a_group_takes_the_place_of_what_was_asked_of_its_key() -> None:
    """If the key were added again, the filter would match either."""
    before = parse("error:RATE*,TIMEOUT -error:OLD queue:pay")
    assert of_groups(before, "error_code", ["RATE_LIMITED"]).text == "-error:OLD queue:pay error:RATE_LIMITED"


def test_a_name_with_signs_of_the_language_is_meant_as_it_is() -> None:
    name = 'shop.*,"a b"'
    made = of_groups(parse(""), "task_name", [name])
    assert [str(value.exact) for term in parse(made.text).terms for value in term.values] == [name]


def test_several_groups_are_any_of_them() -> None:
    assert of_groups(parse("since:1h"), "queue_name", ["mail", "pay"]).text == "since:1h queue:mail,pay"


def test_tasks_without_an_error_code_are_those_that_were_counted() -> None:
    """Codes are counted among the tasks that ended badly; otherwise every completed task would match too."""
    assert of_groups(parse(""), "error_code", [None]).text == "status:failed,cancelled,expired -has:error"
    assert of_groups(parse("status:live"), "error_code", [None]).text == "status:live -has:error"


@pytest.mark.parametrize(("by", "keys"), [("worker", [None]), ("error_code", ["TIMEOUT", None])])
def test_a_group_that_no_filter_can_mean_is_refused(by: str, keys: list[str | None]) -> None:
    with pytest.raises(NoSuchFilter):
        of_groups(parse(""), by, keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sort", "meant"),
    [
        ("queue:mail", Sort.NEWEST, "queue:mail"),
        ("queue:mail", Sort.WAITING, "status:pending,retry queue:mail"),
        ("queue:mail status:live", Sort.RUNNING, "status:running queue:mail"),
        ("status:failed", Sort.FINISHED, "status:failed"),
    ],
)
def test_all_that_match_are_those_that_the_order_shows(text: str, sort: Sort, meant: str) -> None:
    assert all_shown(parse(text), sort).text == meant


@pytest.mark.parametrize(("text", "sort"), [("", Sort.NEWEST), ("", Sort.WAITING), ("status:failed", Sort.WAITING)])
def test_the_whole_table_and_nothing_at_all_are_never_meant(text: str, sort: Sort) -> None:
    with pytest.raises(NoSuchFilter):
        all_shown(parse(text), sort)
