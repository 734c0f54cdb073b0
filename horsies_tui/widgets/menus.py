"""Short menus above a list, to choose one item or switch several; each item has a letter."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from horsies.domain.plain_text import clean
from horsies.query.language import states
from horsies_tui.actions import Scope, bindings
from horsies_tui.look.glyphs import cut
from horsies_tui.look.tones import TONES, Tone, state_tone, tone_css
from horsies_tui.widgets.counts_line import counted
from horsies_tui.widgets.plain import entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.style import Style
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.query.language import Filter
    from horsies.views import TaskCounts, WorkflowCounts
    from horsies_tui.look.glyphs import Glyphs


ResultT = TypeVar("ResultT")

_GUTTER: Final = 8
"""Columns of the cursor, the box or mark, the letter, and the blanks between them."""
_CORNERS: Final = 4
"""Columns of the lower border that Textual reserves."""


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a menu. Its `letter` chooses it at once; `help` and numbers follow the label."""

    id: str
    label: str
    letter: str = ""
    help: str = ""
    tone: Tone | None = None


class MenuLines(Widget, can_focus=True):
    """The lines of a menu. With `boxes`, each line has a box; otherwise only lines that are on are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.MENU)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"menu--letter", "menu--help", "menu--cursor", *TONES}
    DEFAULT_CSS = """
        MenuLines { width: 1fr; height: auto; text-wrap: nowrap; }
        MenuLines > .menu--letter { color: $text-accent; text-style: bold; }
        MenuLines > .menu--help { color: $text-muted; }
        MenuLines > .menu--cursor { background: $block-cursor-background; text-style: bold; }
        MenuLines:ansi > .menu--cursor { text-style: reverse; }
        """ + tone_css("MenuLines")

    class Chosen(Message):
        """A line was chosen by enter, or by its letter in a menu with one choice."""

    def __init__(
        self, items: Iterable[Item], on: Iterable[str], glyphs: Glyphs, *, boxes: bool, title: str, subtitle: str
    ) -> None:
        super().__init__(id="sheet")
        self.items = tuple(items)
        self.on = set(on)
        self._glyphs = glyphs
        self._boxes = boxes
        self._at = next((index for index, item in enumerate(self.items) if item.id in self.on), 0)
        self._label = max((cell_len(clean(item.label)) for item in self.items), default=0)
        self._subtitle = subtitle
        entitle(self, glyphs, title, subtitle)

    @property
    def here(self) -> str:
        """Return the id of the line under the cursor."""
        return self.items[self._at].id

    def get_content_width(self, *_sizes: object) -> int:
        lines = _GUTTER + self._label + max((cell_len(item.help) + 2 for item in self.items), default=0)
        return max(lines, cell_len(self._subtitle) + _CORNERS)

    def get_content_height(self, *_sizes: object) -> int:
        return len(self.items)

    def render(self) -> Text:
        first, last = self._in_view
        return Text("\n").join(self._line(index, self.items[index]) for index in range(first, last))

    @property
    def _in_view(self) -> tuple[int, int]:
        """Return the range of lines that are in view, which includes the cursor's."""
        height = self.content_size.height or len(self.items)
        first = min(max(self._at - height // 2, 0), max(len(self.items) - height, 0))
        return first, min(first + height, len(self.items))

    def action_down(self) -> None:
        self._move(self._at + 1)

    def action_up(self) -> None:
        self._move(self._at - 1)

    def action_switch(self) -> None:
        if self._boxes:
            self.on ^= {self.here}
            self.refresh()
        else:
            self.action_take()

    def action_take(self) -> None:
        self.post_message(self.Chosen())

    def on_key(self, event: events.Key) -> None:
        """Handle the letters, which are specific to this menu and not registered as actions."""
        found = [index for index, item in enumerate(self.items) if item.letter and item.letter == event.character]
        for index in found:
            event.stop()
            self._move(index)
            self.action_switch()

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        first, last = self._in_view
        if at is not None and at.y < last - first:
            self._move(first + at.y)
            self.action_switch()

    def _move(self, to: int) -> None:
        self._at = to % len(self.items)
        self.refresh()

    def _line(self, index: int, item: Item) -> Text:
        cursor = self._glyphs.cursor if index == self._at else " "
        line = Text(f"{cursor} {self._sign(item)} ")
        line.append(f"{item.letter:<2}", self._style("menu--letter"))
        label = clean(self._glyphs.text(item.label))
        line.append(label + " " * (self._label - cell_len(label)), self._style(item.tone) if item.tone else None)
        if item.help:
            room = max(self.content_size.width - line.cell_len - 2, 0)
            line.append(f"  {cut(clean(self._glyphs.text(item.help)), room, self._glyphs)}", self._style("menu--help"))
        line.append(" " * max(self.content_size.width - line.cell_len, 0))
        if index == self._at:
            line.stylize(self._style("menu--cursor"))
        return line

    def _sign(self, item: Item) -> str:
        on = item.id in self.on
        if self._boxes:
            return "[x]" if on else "[ ]"
        return self._glyphs.mark if on else " "

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


class _Menu(Sheet[ResultT]):
    DEFAULT_CSS = """
    _Menu {
        align: left top;
        & > #sheet { width: auto; min-width: 30; max-width: 100%; max-height: 80%; margin: 3 0 0 2; }
        &.-narrow > #sheet { width: auto; }
    }
    """

    def __init__(self, lines: MenuLines) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        yield self._lines


class PickOne(_Menu[str]):
    """A menu that returns the chosen id. The current one is marked."""

    def __init__(self, title: str, items: Sequence[Item], current: str, glyphs: Glyphs) -> None:
        keys = "enter choose · esc close"
        super().__init__(MenuLines(items, [current], glyphs, boxes=False, title=title, subtitle=keys))

    def on_menu_lines_chosen(self) -> None:
        self.dismiss(self._lines.here)


class PickSome(_Menu[frozenset[str]]):
    """A menu that returns the ids that are on."""

    def __init__(self, title: str, items: Sequence[Item], on: Iterable[str], glyphs: Glyphs) -> None:
        keys = "space switch · enter apply · esc close"
        super().__init__(MenuLines(items, on, glyphs, boxes=True, title=title, subtitle=keys))

    def on_menu_lines_chosen(self) -> None:
        self.dismiss(frozenset(self._lines.on))


_COUNT_WIDTH: Final = 8
_NO_HELP: Final[Mapping[str, str]] = MappingProxyType({})


def states_on(current: Filter) -> frozenset[str]:
    """Return the states that are on in the menu; none if the filter names no states."""
    return states(current) if any(term.key == "status" for term in current.terms) else frozenset()


def toggled(current: Filter, state: str) -> frozenset[str]:
    """Return the filter's states with this one switched; only this one if the filter matched any state."""
    return states_on(current) ^ {state} if states(current) != current.language.every_state else frozenset({state})


def state_menu(
    letters: Mapping[str, str],
    counts: TaskCounts | WorkflowCounts | None,
    current: Filter,
    glyphs: Glyphs,
    help: Mapping[str, str] = _NO_HELP,  # noqa: A002 - as in an Item
) -> PickSome:
    """Return the menu of states, in the order of `letters`. If all are off, any state matches."""
    found = counts.states if counts is not None else {}
    items = [
        Item(
            state,
            glyphs.state_text(state),
            letter,
            f"{counted(found.get(state)):>{_COUNT_WIDTH}}  {help.get(state, '')}".rstrip(),
            state_tone(state),
        )
        for state, letter in letters.items()
    ]
    return PickSome("States (none: any)", items, states_on(current), glyphs)
