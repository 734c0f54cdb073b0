"""The ways of a text to the terminal: by types where there is one, and by a look at the source for Textual's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widget import Widget

import horsies_tui
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.pen import Pen
from horsies_tui.shell.palette import _found
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
