"""The help (key `?`): the keys that work on this screen, including those of the config file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widget import Widget

from horsies_tui.actions import Action, Scope, key_label
from horsies_tui.look.glyphs import STATE_GLYPHS, cut
from horsies_tui.look.tones import TONES, state_tone, tone_css
from horsies_tui.widgets.plain import entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.app import ComposeResult

    from horsies_tui.look.glyphs import Glyphs

TITLES: Final = {
    Scope.TABLE: "Rows",
    Scope.BESIDE: "The story beside the list",
    Scope.VERBS: "Actions (each opens a preview first)",
    Scope.OVERVIEW: "The overview",
    Scope.CHART: "The charts",
    Scope.REPLAY: "The recording",
    Scope.TASKS: "Tasks",
    Scope.DETAIL: "Task",
    Scope.STORY: "Its story",
    Scope.WORKERS: "Workers",
    Scope.RECOVERY: "Recovery",
    Scope.ACTIVITY: "Activity",
    Scope.WORKFLOWS: "Workflows",
    Scope.WORKFLOW: "Workflow",
    Scope.FLOWS: "Actions on workflows (each opens a preview first)",
    Scope.GRAPH: "Its nodes",
    Scope.SCHEDULES: "Schedules",
    Scope.PICKER: "Databases",
    Scope.FILTER: "Filter line",
    Scope.MENU: "Menu",
    Scope.PREVIEW: "Preview",
    Scope.ARGUMENTS: "Arguments",
    Scope.OUTCOME: "Outcome",
    Scope.SHEET: "Sheet",
    Scope.FILTER: "Filter line",
    Scope.MENU: "Menu",
    Scope.COMMAND: "Command line",
    Scope.APP: "Everywhere",
}
_LABEL_WIDTH: Final = 15
_HELP_WIDTH: Final = 52
_IDS_FROM: Final = 100
"""Terminal width from which the ids of actions are shown, which `[keys]` in the config file needs."""


class KeyList(Widget):
    """The table of keys, one per line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--title", "keys--key", "keys--off", "keys--id", *TONES}

    DEFAULT_CSS = """
    KeyList {
        height: auto;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .keys--title { color: $text-accent; text-style: bold; }
        & > .keys--key { text-style: bold; }
        & > .keys--off { color: $text-disabled; }
        & > .keys--id { color: $text-muted; }
    }
    """ + tone_css("KeyList")

    def __init__(
        self,
        live: Sequence[tuple[Action, list[str]]],
        glyphs: Glyphs,
        *,
        no_writes: str | None,
    ) -> None:
        super().__init__()
        self._live = live
        self._glyphs = glyphs
        self._no_writes = no_writes

    def render(self) -> Text:
        text, scope = Text(no_wrap=True, overflow="ellipsis"), None
        width = max((len(self._keys(keys)) for _, keys in self._live), default=0) + 2
        for action, keys in self._live:
            if action.scope is not scope:
                scope = action.scope
                self._title(text, TITLES[scope])
                if scope in (Scope.VERBS, Scope.FLOWS) and self._no_writes:
                    text.append(f"  {self._no_writes}\n", self._style("keys--off"))
            text.append_text(self._line(action, keys, width))
        self._title(text, "States")
        for state in STATE_GLYPHS:
            text.append(f"  {self._glyphs.state_text(state)}\n", self._style(state_tone(state) or "keys--key"))
        return text

    def _title(self, text: Text, title: str) -> None:
        text.append("\n" if text else "")
        text.append(f"{title}\n", self._style("keys--title"))

    def _line(self, action: Action, keys: list[str], width: int) -> Text:
        line = Text()
        line.append(f"  {self._keys(keys):<{width}}", self._style("keys--key"))
        room = self.content_size.width - line.cell_len - _LABEL_WIDTH - 1
        line.append(f"{action.label:<{_LABEL_WIDTH}} {cut(self._glyphs.text(action.help), room, self._glyphs)}")
        if self.size.width >= _IDS_FROM:
            line.append(" " * (_HELP_WIDTH - len(action.help)))
            line.append(f"  {action.id}", self._style("keys--id"))
        line.append("\n")
        if action.writes and self._no_writes:
            line.stylize(self._style("keys--off"))
        return line

    def _keys(self, keys: list[str]) -> str:
        return " ".join(key_label(key, ascii_only=self._glyphs.ascii) for key in keys)

    def _style(self, component: str) -> Style:
        return self.get_component_rich_style(component, partial=True)


class HelpSheet(Sheet[None]):
    """The help sheet. It scrolls if it does not fit."""

    DEFAULT_CSS = "HelpSheet > #sheet { max-width: 116; }"

    def __init__(self, keys: KeyList, glyphs: Glyphs) -> None:
        super().__init__()
        self._keys = keys
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet") as sheet:
            entitle(sheet, self._glyphs, "Keys", "esc closes")
            yield self._keys
