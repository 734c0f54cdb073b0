"""What the console reads from the environment before Textual is imported, and the cost of that import."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from horsies.config.contexts import ConfigFile, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.look import themes
from horsies_tui.settings import ConsoleOptions
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
        (["task"], "nothing to open"),
        (["task", "7f3a", "8"], "nothing to open"),
        (["--screen", "queues"], "there is no screen"),
        (["--fps", "0"], "--fps"),
        (["--context", "a", "--database-url", "postgresql://h/d"], "two databases"),
    ],
)
def test_a_wrong_command_line_is_refused_before_the_terminal_is_touched(arguments: list[str], says: str) -> None:
    run = subprocess.run([sys.executable, "-m", "horsies", "tui", *arguments], capture_output=True, text=True)
    assert run.returncode == 2
    assert says in run.stderr
