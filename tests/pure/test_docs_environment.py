"""docs/settings.md has every variable of the environment: those of options, and those that the code reads."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from horsies.cli.main import _GROUPS, _whole, app

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs" / "settings.md").read_text("utf-8").partition("\n## The environment\n")[2].partition("\n## ")[0]
)
INTERNAL = {"HORSIES_CHILD_PROCESS", "HORSIES_SERVED"}
"""Set by our own processes for those that they start."""


def commands() -> dict[str, Any]:
    """Every command by its words: `worker`, `tasks ls`."""
    root: Any = typer.main.get_command(app)
    found = {name: command for name, command in root.commands.items() if name not in _GROUPS}
    for name, group in _GROUPS.items():
        found |= {f"{name} {word}": command for word, command in _whole(group).commands.items()}
    return found


def rows() -> list[str]:
    """The lines of the table of options."""
    used: dict[str, list[tuple[str, str]]] = {}
    for words, command in commands().items():
        for parameter in command.params:
            if isinstance(parameter.envvar, str):
                used.setdefault(parameter.envvar, []).append((max(parameter.opts, key=len), words))
    lines = []
    for name, users in sorted(used.items()):
        spelled = ", ".join(sorted({f"`{option}`" for option, _ in users if option.startswith("--")}))
        named = dict.fromkeys(words for _, words in users)
        of = "most commands" if len(named) > 5 else ", ".join(f"`{words}`" for words in named)
        lines.append(f"| `{name}` | {spelled} | {of} |")
    return lines


def test_the_page_has_the_variable_of_every_option() -> None:
    table = SECTION.partition("And these variables")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == rows(), "\n".join(rows())


def test_the_page_has_every_variable_that_the_code_names() -> None:
    sources = [path for top in ("worker", "horsies_tui") for path in (ROOT / top).rglob("*.py")]
    named = {name for path in sources for name in re.findall(r'"((?:HORSIES|TASKLIB)_[A-Z_]+)"', path.read_text())}
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", SECTION, re.MULTILINE))
    assert named - INTERNAL == documented - {"DATABASE_URL"}


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"HORSIES_PROCESSES": "many"}, "(env var: 'HORSIES_PROCESSES')"),
        ({"HORSIES_SHUTDOWN_GRACE": "soon"}, "'soon' is not auto, or a number of seconds"),
        ({"HORSIES_LOG_FORMAT": "xml"}, "'human', 'json'"),
    ],
)
def test_a_worker_reads_its_options_from_the_environment(variables: dict[str, str], says: str) -> None:
    result = CliRunner().invoke(app, ["worker", "nothing.py:app"], env=variables)
    assert result.exit_code != 0
    assert says in " ".join((result.output + str(result.exception)).replace("│", " ").split())


@pytest.fixture
def _log_of_the_test() -> Iterator[None]:
    """Workers, schedulers and checks send the log to the output of the command, which is closed after it."""
    logger = logging.getLogger("horsies")
    before, level, propagate = [*logger.handlers], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = before, propagate
    logger.setLevel(level)


@pytest.mark.usefixtures("_log_of_the_test")
@pytest.mark.parametrize("words", sorted(commands().keys() - {"demo", "new"}))
def test_every_command_takes_the_application_from_the_environment(words: str) -> None:
    """All commands but `demo` and `new`, which make one."""
    needed = [each for each in commands()[words].params if each.param_type_name == "argument" and each.required]
    result = CliRunner().invoke(
        app, [*words.split(), *("x" for _ in needed)], env={"HORSIES_MODULE": "no_such_module:app"}
    )
    assert "there is no module 'no_such_module'" in str(result.exception)


def test_help_names_the_variables() -> None:
    shown = CliRunner().invoke(app, ["worker", "--help"], env={"COLUMNS": "200"}).output
    for name in ("HORSIES_PROCESSES", "HORSIES_LOG_FORMAT", "HORSIES_SHUTDOWN_GRACE"):
        assert f"env var: {name}" in shown


def test_every_option_of_every_command_says_what_it_does() -> None:
    unsaid = [
        (words, parameter.name)
        for words, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.hidden and not parameter.help
    ]
    assert unsaid == []
