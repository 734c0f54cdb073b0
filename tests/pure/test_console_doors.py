"""Text reaches the terminal through the doors alone; Textual's private names are used in one module, and exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual import __version__
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App
from textual.content import Content
from textual.css.stylesheet import Stylesheet
from textual.fuzzy import Matcher
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

import horsies_tui
from horsies_tui import textual_internals
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.pen import Pen
from horsies_tui.shell.palette import _found
from horsies_tui.textual_internals import FrugalStylesheet
from horsies_tui.widgets.plain import explain, plain

HOSTILE = "[/tmp/x][@click=app.quit]\x1b]0;t\x07\x9b31m\u202eor\u2028d\ner\x1b[31m"
ROOT = Path(horsies_tui.__path__[0])
DOOR = ROOT / "widgets/plain.py"
PALETTE = ROOT / "shell/palette.py"
DRIVER = ROOT / "textual_internals.py"
SET_ONLY_IN = {name: {DOOR} for name in ("tooltip", "border_title", "border_subtitle", "label")} | {"sub_title": set()}
"""Textual parses a string that is put there as markup."""
CALLED_ONLY_IN = {
    **{name: set[Path]() for name in ("notify", "with_tooltip", "from_markup", "render_str", "render_markup")},
    "write_raw": {DRIVER, ROOT / "clipboard.py", ROOT / "shell/attention.py"},
}
"""They parse markup, or write what is not drawn. Ruff forbids `print` and streams."""
WIDGETS = {"Input": None, "TextArea": None, "Static": {DOOR}, "Button": {DOOR}}
"""What may be imported from `textual.widgets`, and where; the values of the first two are not markup."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        if "shots" not in path.relative_to(ROOT).parts:  # makes the pictures; not in the wheel
            yield path, ast.parse(path.read_text("utf-8"))


def broken(path: Path, node: ast.AST) -> str | None:
    """The rule that this part of the source breaks."""
    return brought_in(path, node) or used(path, node)


def brought_in(path: Path, node: ast.AST) -> str | None:
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module.startswith("textual.widgets"):
            for name in names:
                if name.name not in WIDGETS or path not in (WIDGETS[name.name] or {path}):
                    return f"imports {name.name}; widgets/plain.py has the widgets that draw text as it is"
        case ast.ImportFrom(module="textual.command", names=names) if path != PALETTE:
            if {"CommandPalette", "Hit", "DiscoveryHit"} & {name.name for name in names}:
                return "shows a palette; shell/palette.py makes its hits of any text"
        case ast.ClassDef(bases=bases) if path != DRIVER:
            inherited = {each.id for base in bases for each in ast.walk(base) if isinstance(each, ast.Name)}
            if inherited & {"Screen", "ModalScreen", "CommandPalette"} and "PacedScreen" not in inherited:
                return "is a screen that does not write with the pen, as PacedScreen does"
        case ast.FunctionDef(name="render", returns=ast.Name(id="str" | "RenderResult")):
            return "renders a string, which Textual parses as markup"
    return None


def used(path: Path, node: ast.AST) -> str | None:
    match node:
        case ast.Attribute(attr="_driver") if path != DRIVER:
            return "writes to the terminal what is not drawn"
        case ast.Attribute(attr=name, ctx=ast.Store()) if path not in SET_ONLY_IN.get(name, {path}):
            return f"sets {name}; widgets/plain.py does that with any text"
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            if path not in CALLED_ONLY_IN.get(name, {path}):
                return f"calls {name}, which parses markup or writes a raw text"
        case ast.keyword(arg="markup", value=ast.Constant(value=True)):
            return "turns markup on"
    return None


def test_no_text_goes_another_way_than_through_the_doors() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '?')} {why}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if (why := broken(path, node))
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "from textual.widgets import Static",
        "from textual.widgets import Label",
        "from textual.widgets import Markdown as M",
        "self.tooltip = status.detail",
        "sheet.border_title = name",
        "self.app.notify(text)",
        "Content.from_markup(text)",
        "app._driver.write(text)\nwrite_raw(app, text)",
        "class W(Widget):\n    def render(self) -> str: return self.text",
        "Widget(markup=True)",
        "from textual.command import CommandPalette",
        "class S(ModalScreen[str]): pass",
    ],
)
def test_the_rule_sees_each_way(source: str) -> None:
    assert any(broken(ROOT / "shell/x.py", node) for node in ast.walk(ast.parse(source)))


def test_nothing_passes_the_pen_that_a_terminal_obeys() -> None:
    link = Style(link="https://evil.example", bold=True)
    for style in (None, Style(bold=True), link):
        head, text = Pen(ColorSystem.TRUECOLOR).write([Segment(HOSTILE, style)])
        assert head in ("\x1b[0m", "\x1b[0;1m")
        assert text.isprintable()
        assert cell_len(text) == cell_len(HOSTILE), "what follows it keeps its place"


def test_the_doors_draw_markup_as_text_and_a_line_as_a_line() -> None:
    shown = plain([HOSTILE, "two"], UNICODE)
    assert isinstance(shown, Content)
    assert shown.plain.startswith("[/tmp/x][@click=app.quit] ")
    assert shown.plain.count("\n") == 1
    assert not shown.spans
    assert plain(["ñ"], ASCII).plain == "?"
    widget = Widget()
    explain(widget, UNICODE, HOSTILE)
    assert isinstance(widget.tooltip, Content)
    explain(widget, UNICODE)
    assert widget.tooltip is None


def test_a_hit_of_the_palette_is_its_text_with_the_letters_that_match() -> None:
    hit = _found(1.0, Matcher("tmp"), "filter [/tmp/x]\n\x1b[7m", print, HOSTILE)
    assert isinstance(hit.prompt, Content)
    assert hit.prompt.plain == hit.text == "filter [/tmp/x]  [7m"
    assert {hit.prompt.plain[span.start] for span in hit.prompt.spans} == set("tmp")
    assert isinstance(hit.help, Content), "Textual parses any string as markup"


REPOSITORY = Path(__file__).parents[2]
CONSOLE = REPOSITORY / "horsies_tui"
HOME = CONSOLE / "textual_internals.py"
MODULES = sorted(path for path in CONSOLE.rglob("*.py") if path != HOME)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CONSOLE)))
def test_no_other_module_names_anything_private_of_textual(path):
    """What subclasses override is in test_console_names.py."""
    text = path.read_text("utf-8")
    assert re.findall(r"(?:from|import) textual\S*\._\w+", text) == []
    assert "SLF001" not in text, "ruff finds private names of other objects, unless it is told not to"


def test_every_name_that_is_used_is_listed_with_its_reason():
    tree = ast.parse(HOME.read_text("utf-8"))
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    bases = (App, Screen, Compositor, ChopsUpdate, LayoutUpdate, Stylesheet)
    ours = {name for name in made if not any(hasattr(base, name) for base in bases)}
    misused = made | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    private = {name for name in misused - ours if name.startswith("_") and not name.startswith("__")}
    assert private, "nothing private is misused: the module and the bound in pyproject.toml can go"
    assert [name for name in private if name not in (textual_internals.__doc__ or "")] == []


def test_only_the_minor_release_is_admitted_that_these_tests_have_seen():
    bound = re.search(r'"textual>=([\d.]+),<([\d.]+)"', (REPOSITORY / "pyproject.toml").read_text("utf-8"))
    assert bound is not None
    major, minor = (int(part) for part in bound[1].split(".")[:2])
    assert bound[2] == f"{major}.{minor + 1}"
    assert __version__.startswith(f"{major}.{minor}.")


NESTED = """
Outer {
    height: 1;
    & > .part { color: red; &:focus { color: blue; & Inner { width: 3; } } }
}
Outer, Other:hover { width: 2 !important; }
"""


@pytest.mark.parametrize("tie_breaker", [0, -1, -3])
def test_a_sheet_has_the_rules_that_textual_parses(tie_breaker):
    parsed = [
        Stylesheet(variables={})._parse_rules(NESTED, ("here", "Outer"), True, tie_breaker, "Outer"),
        FrugalStylesheet(variables={})._parse_rules(NESTED, ("here", "Outer"), True, tie_breaker, "Outer"),
    ]
    textual, ours = (
        [(rule.css, rule.tie_breaker, rule.selector_names, rule.pseudo_classes, rule.is_default_rules) for rule in each]
        for each in parsed
    )
    assert ours == textual


def test_a_sheet_is_parsed_once_for_all_applications_with_the_same_variables():
    def rules(**variables: str) -> list[object]:
        sheet = FrugalStylesheet(variables=variables)
        return list(sheet._parse_rules("Outer { color: $own; }", ("here", "Once"), True, -1, "Outer"))

    assert rules(own="red")[0] is rules(own="red")[0]
    assert rules(own="red")[0] is not rules(own="blue")[0]


CONSOLE_MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(horsies_tui.__path__, "horsies_tui.")
    if "__main__" not in name and name != "horsies_tui.textual_internals"  # which overrides some on purpose
]


@pytest.mark.parametrize("name", CONSOLE_MODULES)
def test_no_private_name_of_ours_is_one_of_textuals(name: str) -> None:
    clashes = {
        (owner.__name__, mine)
        for owner in _classes_on_textual(importlib.import_module(name))
        for mine in _private_names(owner)
        if any(mine in _all_names(base) for base in owner.__mro__ if base.__module__.startswith("textual"))
    }
    assert clashes == set()


def test_what_textual_keeps_in_an_instance_is_seen_too() -> None:
    """`_context` is a method and `_running` an attribute set in __init__: both have caused failures."""
    assert {"_context", "_running"} <= _all_names(MessagePump)


def _classes_on_textual(module: ModuleType) -> list[type]:
    return [
        owner
        for owner in vars(module).values()
        if inspect.isclass(owner) and owner.__module__ == module.__name__ and issubclass(owner, MessagePump)
    ]


def _private_names(owner: type) -> set[str]:
    """Without handlers: Textual calls those of every class, so one does not hide another."""
    return {name for name in _all_names(owner) if name.startswith("_") and not name.startswith(("__", "_on_"))}


@cache
def _all_names(owner: type) -> frozenset[str]:
    """Methods, and the attributes that they assign to self, from the source."""
    names: set[str] = set()
    for node in ast.walk(_classes_in(inspect.getmodule(owner))[owner.__qualname__.rpartition(".")[2]]):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                names.add(node.attr)
    return frozenset(names)


@cache
def _classes_in(module: ModuleType | None) -> dict[str, ast.ClassDef]:
    assert module is not None
    return {
        node.name: node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ClassDef)
    }
