"""ARCHITECTURE.md and CONTRIBUTING.md name only existing files, modules, tables, commands, markers and variables, and
tests/README.md has a place for every file of the tests."""

from __future__ import annotations

import importlib.util
import logging
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from horsies.cli.main import _GROUPS, _whole, app
from horsies.store.schema import MIGRATIONS

ROOT = Path(__file__).parents[2]
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
TESTS = "tests/README.md"
TEXTS = {page: (ROOT / page).read_text("utf-8") for page in (*PAGES, TESTS)}

BASES = (ROOT, ROOT / "worker/horsies", ROOT / "horsies_tui")
"""A path is relative to the repository, or in the tables about the two packages to one of those."""
NOT_OURS = ("dist",)
SUFFIXES = (".py", ".sql", ".md", ".toml", ".tcss")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MARKERS = {marker.partition(":")[0] for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]}
SOURCES = "\n".join(
    path.read_text("utf-8") for top in ("worker", "horsies_tui", "tests") for path in (ROOT / top).rglob("*.py")
)
OF_THE_SCHEMA = set(re.findall(r"\bhorsies_\w+", "".join(migration.sql for migration in MIGRATIONS)))


def spans(text: str) -> set[str]:
    """The text between backticks, outside of blocks."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)))


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of each command: of shell blocks and of spans. `name='value' program` begins with its program."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    for line in [*"\n".join(blocks).splitlines(), *spans(text)]:
        for part in line.split("&&"):
            words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else part.split()
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words:
                yield words


def is_path(span: str) -> bool:
    return not re.search(r"[ <…]", span) and span not in SUFFIXES and ("/" in span or span.endswith(SUFFIXES))


def exists(path: str) -> bool:
    """A statement may be named without its folder, and `*` stands for several."""
    if path.endswith(".sql") and "/" not in path:
        return any((ROOT / "worker/horsies").rglob(path))
    return any(any(base.glob(path.rstrip("/"))) for base in BASES)


def problem_of_command(words: list[str]) -> str | None:
    """What `horsies …` names that does not exist: a command of a group, or an option."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command)
    for word in words[1:]:
        if word.startswith("--"):
            if not any(word.partition("=")[0] in option.opts for option in command.get_params(context)):
                return f"{command.name} has no option {word}"
        elif hasattr(command, "resolve_command") and word != "…":
            if command.get_command(context, word) is None:
                return f"{command.name} has no command {word}"
            _, command, _ = command.resolve_command(context, [word])
            context = command.context_class(command, parent=context)
    return None


def problem_of_tests(words: list[str]) -> str | None:
    """What a pytest command names that does not exist: a marker or a path."""
    for before, word in pairwise(words):
        if before == "-m":
            unknown = set(re.findall(r"\w+", word)) - MARKERS - {"not", "and", "or"}
            if unknown:
                return f"no marker {unknown}"
        elif word.startswith("tests") and not exists(word):
            return f"no {word}"
    return None


@pytest.mark.parametrize("page", TEXTS)
def test_each_link_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXTS[page])
    here = (ROOT / page).parent
    assert links
    assert [link for link in links if not link.startswith("https:") and not (here / link).exists()] == []


@pytest.mark.parametrize("page", TEXTS)
def test_each_path_exists(page: str) -> None:
    paths = {span for span in spans(TEXTS[page]) if is_path(span) and not span.startswith(NOT_OURS)}
    paths -= {span for span in paths if span.startswith(".venv/bin/")}
    assert len(paths) > 10
    assert sorted(path for path in paths if not exists(path)) == []


def test_each_module_table_function_and_variable_that_is_named_exists() -> None:
    named = set().union(*map(spans, TEXTS.values()))
    modules = {name for name in named if re.fullmatch(r"(horsies|horsies_tui)(\.\w+)+", name) and not is_path(name)}
    of_the_schema = {name for name in named if re.fullmatch(r"horsies_\w+", name) and name != "horsies_tui"}
    variables = {name for text in TEXTS.values() for name in re.findall(r"\b(?:HORSIES|SOAK)_[A-Z_]+", text)}
    assert len(modules) > 1
    assert len(of_the_schema) > 10
    assert len(variables) > 2
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    assert of_the_schema - OF_THE_SCHEMA - {"horsies_console_schema"} == set()
    assert [name for name in variables if f'"{name}"' not in SOURCES] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_class_function_setting_and_statement_that_is_named_exists(page: str) -> None:
    known = SOURCES + "".join(path.read_text("utf-8") for path in (ROOT / "worker").rglob("*.sql"))
    named = {match[1] for span in spans(TEXTS[page]) if (match := re.fullmatch(r"(?:\w+\.)?([A-Za-z_]\w*)", span))}
    programs = {Path(words[0]).name for words in command_lines(TEXTS[page])}
    assert len(named) > 3
    assert [name for name in named - programs if not re.search(rf"\b{name}\b", known)] == []


def test_no_page_counts_the_versions_of_the_schema() -> None:
    """A number was right until the next version: the name of the constant stays right."""
    assert "SCHEMA_VERSION" in TEXTS["ARCHITECTURE.md"]
    assert re.findall(r"[Vv]ersion \d+|`0\d\d_", TEXTS["ARCHITECTURE.md"] + TEXTS["CONTRIBUTING.md"]) == []


@pytest.mark.parametrize("page", PAGES)
def test_each_command_with_its_options_exists(page: str) -> None:
    problems, seen = [], set()
    for words in command_lines(TEXTS[page]):
        program = Path(words[0]).name
        seen.add(program)
        if program == "horsies":
            problems.append(problem_of_command(words))
        elif program == "pytest":
            problems.append(problem_of_tests(words))
        elif program == "python" and words[1:2] == ["-m"]:
            problems.append(None if importlib.util.find_spec(words[2]) else f"no module {words[2]}")
        elif words[0].startswith(".venv/bin/"):
            problems.append(None if Path(sys.executable).with_name(program).exists() else f"no program {program}")
    assert "horsies" in seen
    assert [problem for problem in problems if problem] == []


def test_each_test_file_of_the_invariants_has_tests() -> None:
    rows = re.findall(r"^\| .+ \| (`tests/.+`) \|$", TEXTS["ARCHITECTURE.md"], re.MULTILINE)
    files = [name for row in rows for name in spans(row)]
    assert len(files) > 30
    assert [name for name in files if "def test_" not in (ROOT / name).read_text("utf-8")] == []


def test_each_package_stands_in_the_map() -> None:
    named = spans(TEXTS["ARCHITECTURE.md"])
    for top in (ROOT / "worker/horsies", ROOT / "horsies_tui"):
        packages = {path.parent.name for path in top.glob("*/__init__.py")}
        assert len(packages) > 5
        assert {name for name in packages if f"{name}/" not in named} == set(), top.name


def test_each_helper_of_the_tests_is_in_their_index() -> None:
    files = (path for suffix in ("py", "sql") for path in (ROOT / "tests").rglob(f"*.{suffix}"))
    helpers = {path.relative_to(ROOT).as_posix() for path in files if not path.name.startswith("test_")}
    rows = "\n".join(re.findall(r"^\| `tests/.*$", TEXTS[TESTS], re.MULTILINE))
    assert len(helpers) > 50
    assert helpers - spans(rows) == set()


def test_the_first_word_of_a_test_file_leads_to_its_code() -> None:
    rows = re.findall(r"^\| (`\w.*?) \| .*$", TEXTS[TESTS], re.MULTILINE)
    words = {word for row in rows for word in spans(row) if not is_path(word)}
    files = {path.stem for layer in ("pure", "sql", "process") for path in (ROOT / "tests" / layer).glob("test_*.py")}
    begun = {file: {word for word in words if f"{file}_".startswith(f"test_{word}_")} for file in files}
    assert [file for file, leading in begun.items() if not leading] == []
    assert words - set().union(*begun.values()) == set()


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
    table = SECTION.partition("These variables have no option")[0]
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
        ({"HORSIES_SHUTDOWN_GRACE": "soon"}, "'soon' is neither auto nor a number of seconds"),
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


def test_every_option_of_every_command_says_what_it_does() -> None:
    unsaid = [
        (words, parameter.name)
        for words, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.hidden and not parameter.help
    ]
    assert unsaid == []
