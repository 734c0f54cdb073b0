"""The pages for users, README.md and docs/, taken apart: blocks of code, command lines, links, headings.

Conventions of the pages:

- A Python block whose first line is `# shop.py` is that module; all modules of all pages make one project. Other Python
  blocks run in it. `print(…)  # 7` prints what stands behind it.
- In blocks of `sh`, each line is a command; in blocks of `text`, each line that begins with `$ `, and what follows it
  is what the command may print.
- Commands in YAML are lists that begin with `horsies`, in INI the values of keys that begin with `Exec`.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml

from horsies.cli.main import app
from horsies.cli.options import debugging
from horsies.query import FilterError, parse, parse_schedules, parse_workers, parse_workflows

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text("utf-8")
    for page in (ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md")))
}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_MODULE = re.compile(r"\A# (\w+\.py)\n")
# click's, or typer's own in releases that bundle click
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def module(self) -> str | None:
        """The file that a Python block is."""
        named = _MODULE.match(self.text) if self.language == "python" else None
        return named[1] if named else None


def _blocks() -> Iterator[Block]:
    for page, text in PAGES.items():
        for found in _FENCE.finditer(text):
            indent = len(found[1])
            lines = (line[indent:] for line in found[3].splitlines())
            yield Block(page, text[: found.start()].count("\n") + 1, found[2], "\n".join(lines) + "\n")


BLOCKS = tuple(_blocks())
MODULES = {block.module: block for block in BLOCKS if block.module}


def prose(text: str) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", text)


def spans(text: str) -> set[str]:
    """The text between backticks, outside of blocks. A long one may be broken where the line ends."""
    found = re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(text))
    return {" ".join(span.split()) for span in found if "\n\n" not in span}


def anchors(text: str) -> set[str]:
    """The names by which forges and mkdocs link to the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def shell_lines(block: Block) -> Iterator[str]:
    """The commands of a block; a backslash continues a line."""
    text = re.sub(r" *\\\n *", " ", block.text)
    for line in text.splitlines():
        if block.language == "sh" and line.strip() and not line.startswith("#"):
            yield line
        elif block.language == "text" and line.startswith("$ "):
            yield line[2:]


def words_of(line: str) -> Iterator[list[str]]:
    """The words of each command of a line, without assignments before them, redirections and what follows a pipe."""
    for part in re.split(r" && |; ", line):
        words = shlex.split(part, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        if words and words[0] in {"sudo", "exec", "nohup"}:
            words.pop(0)
        end = next((at for at, word in enumerate(words) if word in {"|", ">", "<", "&"}), len(words))
        if words[:end]:
            yield words[:end]


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each `horsies …` in a block of any language."""
    for words in _all_commands(block):
        if Path(words[0]).name == "horsies":
            yield ["horsies", *words[1:]]


def _all_commands(block: Block) -> Iterator[list[str]]:
    if block.language in {"sh", "text"}:
        for line in shell_lines(block):
            yield from words_of(line)
    elif block.language == "yaml":
        for document in yaml.safe_load_all(block.text):
            yield from _in_values(document)
    elif block.language == "ini":
        sections = ini(block.text)
        for section in sections.sections():
            yield from (shlex.split(value) for key, value in sections[section].items() if key.startswith("exec"))
    elif block.language == "dockerfile":
        yield from map(json.loads, re.findall(r"^(?:CMD|ENTRYPOINT) (\[.+\])$", block.text, re.MULTILINE))


def _in_values(value: Any) -> Iterator[list[str]]:
    if isinstance(value, list) and value and value[0] == "horsies":
        yield [str(word) for word in value]
    elif isinstance(value, str) and value.startswith("horsies "):
        yield shlex.split(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _in_values(inner)


def ini(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(text if text.lstrip().startswith("[") else f"[top]\n{text}")
    return parser


def problem_of_syntax(block: Block) -> str | None:
    """Why a block is no text of its language."""
    try:
        match block.language:
            case "python":
                compile(block.text, block.place, "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case "ini":
                ini(block.text)
            case "sh" | "text":
                list(_all_commands(block))
            case "dockerfile" | "sql":
                pass
            case _:
                return f"no language of the pages: {block.language!r}"
    except (SyntaxError, ValueError, yaml.YAMLError, configparser.Error) as error:
        return str(error)
    return None


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


def problem_of_command(words: list[str], *, whole: bool = True) -> str | None:
    """What the command line's own parser says. Unless `whole`, it may lack arguments: `horsies workers drain`."""
    command, rest = root_command(), list(words[1:])
    context = command.context_class(command, info_name="horsies")
    debug = debugging.on
    try:
        while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
            name, command, rest = command.resolve_command(context, rest)
            if hasattr(command, "resolve_command"):
                context = command.context_class(command, info_name=name, parent=context)
        if hasattr(command, "resolve_command") and not whole:
            return None
        context = command.make_context(words[-1], [word for word in rest if word != "…"])
        return problem_of_filter(words[1], context.params)
    except typer.Exit:
        return None
    except UsageError as error:
        if not whole and type(error).__name__ == "MissingParameter":
            return None
        return f"{' '.join(words)}: {error.format_message()}"  # type: ignore[attr-defined]
    finally:
        debugging.on = debug


READERS = {
    "tasks": parse,
    "tui": parse,
    "workflows": parse_workflows,
    "workers": parse_workers,
    "schedules": parse_schedules,
}


def problem_of_filter(group: str, given: dict[str, Any]) -> str | None:
    """Of a command's arguments: `--filter`, or the words of a list."""
    text = given.get("filter") or " ".join(given.get("words") or ())
    try:
        if text:
            READERS[group](text)
    except FilterError as error:
        return str(error)
    return None


def options_of_all_commands() -> set[str]:
    """Every `--option` of every command."""
    return {flag for _, command in all_commands() for parameter in command.params for flag in parameter.opts}


def all_commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command by the words that call it."""
    yield from _below((), root_command())


def _below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    context = command.context_class(command)
    for name in command.commands:
        yield from _below((*path, name), command.resolve_command(context, [name])[1])
