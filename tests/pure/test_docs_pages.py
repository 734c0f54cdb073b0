"""The pages for users, without running them: every block is text of its language, every command line is one that the
command line reads, every link leads somewhere, every setting that is named exists, and made parts are up to date."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
import yaml
from doc_pages import (
    BLOCKS,
    DOCS,
    MODULES,
    PAGES,
    ROOT,
    Block,
    anchors,
    commands,
    links,
    options_of_all_commands,
    problem_of_command,
    problem_of_syntax,
    spans,
)
from doc_tables import LANGUAGES, SETTINGS, made, made_pages

import horsies
from horsies.doctor.examine import DATABASE
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode, RetrievalCode, StopCode
from horsies.domain.errors import ErrorCode
from horsies.findings.diagnose import searches
from horsies.handle import BrokerErrorCode, TaskSendErrorCode
from horsies.store.schema import MIGRATIONS
from horsies.workflow.handle import HandleErrorCode
from horsies.workflow.starting import WorkflowStartErrorCode
from horsies_tui.actions import ACTIONS, Scope, key_name
from horsies_tui.command.grammar import parse_command

NOT_OURS = {"--help"}
"""Options of other programs, or of none."""
NEW_PROJECT = tuple((ROOT / "worker/horsies/cli/new_project").glob("*.template"))
SOURCES = "\n".join(path.read_text("utf-8") for top in ("worker", "horsies_tui") for path in (ROOT / top).rglob("*.py"))
CODES = {
    "Of a task": (OperationalErrorCode, ContractCode, RetrievalCode, OutcomeCode, StopCode),
    "When a task is sent": (TaskSendErrorCode,),
    "When a workflow is started": (WorkflowStartErrorCode,),
    "When a handle or the broker is asked": (BrokerErrorCode, HandleErrorCode),
    "Of definitions and settings": (ErrorCode,),
}
BY_OPERATORS = set(re.findall(r'"(OPERATOR_[A-Z]+)"', SOURCES))
NAMED = {"↵": "enter", "←": "left", "→": "right", "↑": "up", "↓": "down", "shift+↓": "shift+down"}
"""Keys by the signs that the pages and the console show."""

pages = pytest.mark.parametrize("page", PAGES)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_each_block_is_text_of_its_language_and_its_commands_exist(block: Block) -> None:
    assert problem_of_syntax(block) is None
    assert [problem for words in commands(block) if (problem := problem_of_command(words))] == []


def test_a_module_is_the_same_on_all_pages() -> None:
    assert len(MODULES) > 10
    assert [block.place for block in BLOCKS if block.module and block.text != MODULES[block.module].text] == []


@pages
def test_each_command_and_option_in_a_sentence_exists(page: str) -> None:
    named = [span for span in spans(PAGES[page]) if span.startswith("horsies ")]
    problems = [problem_of_command(_words(span), whole=False) for span in named]
    assert [problem for problem in problems if problem] == []
    flags = {flag for span in spans(PAGES[page]) for flag in re.findall(r"(?:^| )(--[a-z][a-z-]+)", span)}
    assert flags - options_of_all_commands() - NOT_OURS == set()


@pages
def test_each_setting_name_and_variable_in_a_sentence_exists(page: str) -> None:
    named = spans(PAGES[page])
    settings = {name for config in SETTINGS for name in getattr(config, "model_fields", config.__annotations__)}
    times = {name for span in named for name in re.findall(r"\b[a-z_]+_(?:ms|hours|seconds|bytes)\b", span)}
    assert {name for name in times if name not in settings and not re.search(rf"\b{name}\b", SOURCES)} == set()
    classes = {span for span in named if re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*", span)}
    unknown = {name for name in classes if name not in horsies.__all__}
    blocks = "\n".join(block.text for block in BLOCKS)
    assert {name for name in unknown if not re.search(rf"\b{name}\b", SOURCES + blocks)} == set()
    variables = {name for span in named for name in re.findall(r"\bHORSIES_[A-Z_]+", span)}
    assert [name for name in variables if f'"{name}"' not in SOURCES and f'"{name}"' not in _tests()] == []


@pages
def test_each_module_and_name_of_the_package_in_a_sentence_exists(page: str) -> None:
    named = [span for span in spans(PAGES[page]) if re.fullmatch(r"horsies(\.\w+)+", span)]
    assert [name for name in named if f'"{name}"' not in SOURCES and not _is_there(name)] == []  # or one of a span
    given = {name for span in spans(PAGES[page]) for name in re.findall(r"from horsies import ([\w, ]+)", span)}
    assert {name for names in given for name in names.split(", ")} <= set(horsies.__all__)


def _is_there(name: str) -> bool:
    """A module, or a name in one."""
    above, _, last = name.rpartition(".")
    with suppress(ModuleNotFoundError):  # `above` is no package, or has no such module
        import_module(name)
        return True
    return hasattr(import_module(above), last)


def _tests() -> str:
    return "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))


def _words(span: str) -> list[str]:
    """Without what may be left out: `[FILTER…]`."""
    return [word for word in shlex.split(span.replace("…", " ")) if word[0] != "["]


def test_no_page_and_no_default_has_a_path_that_another_account_can_take_first() -> None:
    """Whoever makes /tmp/shop before its user decides what is in it."""
    new = {path.name: path.read_text("utf-8") for path in NEW_PROJECT}
    shop = {path.name: path.read_text("utf-8") for path in (ROOT / "tests/fastapi_shop").rglob("*.py")}
    both = {name: (ROOT / name).read_text("utf-8") for name in ("CONTRIBUTING.md", "ARCHITECTURE.md")}
    assert len(new) > 5
    guessable = re.compile(r"(?<![\w`])/(?:var/)?tmp/|gettempdir\(\)")
    assert [name for name, text in (PAGES | new | shop | both).items() if guessable.search(text)] == []
    assert [line for line in SOURCES.splitlines() if re.search(r"gettempdir\(\)\)? */|['\"]/tmp/", line)] == []


def test_every_way_to_install_leads_to_the_repository() -> None:
    """No public index has horsies-console, and what it has under `horsies` is another project's."""
    texts = PAGES | {"the sources": SOURCES} | {path.name: path.read_text("utf-8") for path in NEW_PROJECT}
    named = re.compile(r"""pip install(?:(?!&&)[^\n])*horsies(?![^\n]* @ )|["']horsies(-console)?(\[\w+\])?[>=]""")
    assert {name: found[0] for name, text in texts.items() if (found := named.search(text))} == {}


def test_what_is_deployed_names_its_database_by_the_variable_that_comes_first() -> None:
    """DATABASE_URL counts only where the application names none, which each example here does."""
    blocks = [block for block in BLOCKS if block.language in ("yaml", "ini", "dockerfile")]
    assert [block.place for block in blocks if re.search(r"(?<!HORSIES_)DATABASE_URL", block.text)] == []
    services = [
        service
        for block in blocks
        if block.language == "yaml"
        for service in (yaml.safe_load(block.text) or {}).get("services", {}).values()
        if service.get("command", [""])[0] == "horsies"
    ]
    assert len(services) > 1
    assert all("HORSIES_DATABASE_URL" in service.get("environment", {}) for service in services)


def test_each_index_that_a_page_names_exists() -> None:
    named = {index for text in PAGES.values() for index in re.findall(r"\b(?:ix|idx|uq)_horsies_\w+", text)}
    assert len(named) > 5
    schema = "\n".join(migration.sql for migration in MIGRATIONS)
    assert {index for index in named if not re.search(rf"\b{index}\b", schema)} == set()


@pages
def test_each_link_and_picture_leads_somewhere(page: str) -> None:
    here = (ROOT / page).parent
    problems = []
    for link in links(PAGES[page]):
        if link.startswith(("https:", "http:")):
            continue
        path, _, anchor = link.partition("#")
        target = (here / path).resolve() if path else ROOT / page
        if not target.exists():
            problems.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target.read_text("utf-8")):
            problems.append(f"{link}: no such heading")
    assert problems == []


def test_each_page_can_be_reached_from_the_first_one() -> None:
    found, ahead = set[Path](), [DOCS / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in found and page.suffix == ".md":
            found.add(page)
            targets = (link.partition("#")[0] for link in links(page.read_text("utf-8")) if "://" not in link)
            ahead += [(page.parent / target).resolve() for target in targets if target]
    assert set(DOCS.rglob("*.md")) - found == set()


@pytest.mark.parametrize("page", made_pages())
def test_what_is_made_from_the_code_is_up_to_date(page: str) -> None:
    assert made(PAGES[page]) == PAGES[page], "run: python tests/doc_tables.py"


def test_every_setting_option_verb_filter_and_key_stands_on_a_page() -> None:
    parts = re.findall(r"^<!-- made: (.+) -->$", "\n".join(PAGES.values()), re.MULTILINE)
    assert {f"settings: {config.__name__}" for config in SETTINGS} <= set(parts)
    assert {f"filter: {language}" for language in LANGUAGES} <= set(parts)
    assert {"common options", "command options", "verbs", "commands", "transitions"} <= set(parts)
    scopes = [scope for part in parts if part.startswith("keys: ") for scope in part.split()[1:]]
    assert set(scopes) == {scope.value for scope in Scope}


@pytest.mark.parametrize("heading", CODES)
def test_each_error_code_is_explained(heading: str) -> None:
    section = PAGES["docs/errors.md"].partition(f"## {heading}\n")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `([A-Z][A-Z_0-9-]+)` \|", section, re.MULTILINE))
    codes = {str(code) for family in CODES[heading] for code in family}
    assert explained == codes | (BY_OPERATORS if heading == "Of a task" else set())


def test_each_numbered_error_has_its_name() -> None:
    named = dict(re.findall(r"^\| `(HRS-\d+)` \| (\w+) \|", PAGES["docs/errors.md"], re.MULTILINE))
    assert named == {code.value: code.name for code in ErrorCode}


def test_each_finding_of_the_recovery_report_is_explained() -> None:
    section = PAGES["docs/console/recovery.md"].partition("|---|---|---|\n")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| ([a-z ]+) \|", section, re.MULTILINE)
    kinds = sorted((DATABASE, *(kind for search in searches() for kind in search.kinds)), key=attrgetter("place"))
    assert explained == [kind.name for kind in kinds]


def test_each_page_is_in_the_navigation_of_the_site() -> None:
    listed = re.findall(r"^ *- (?:[\w ]+: )?(\S+\.md)$", (DOCS / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(listed) == pages


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/console/")])
def test_each_key_and_command_in_a_sentence_about_the_console_exists(page: str) -> None:
    named = spans(re.sub(r"<!-- made: .*?<!-- end -->", "", PAGES[page], flags=re.DOTALL))
    keys = {key for action in ACTIONS for key in action.keys} | {"tab", "enter", "escape"}
    pressed = {span for span in named if len(span) == 1 or re.match(r"(ctrl|shift)\+", span)}
    assert {key for key in pressed if key_name(NAMED.get(key, key)) not in keys} == set()
    typed = [re.sub(r" \[[A-Z]+\]", "", span[1:]) for span in named if re.match(r":[a-z]", span)]
    assert [text for text in typed if parse_command(text) is None] == []  # CommandError says what is wrong
