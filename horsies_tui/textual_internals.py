"""All that the console takes from Textual beside its public interface; no other module names anything private of it.

Textual may change these names in any minor release, so `pyproject.toml` admits one, and
`tests/pure/test_console_doors.py` says at an upgrade what is no longer as it is used here:

- `Screen._compositor`, `_compositor.Compositor`, `ChopsUpdate` and `LayoutUpdate`: Textual sends the line from the left
  edge of a changed widget on, and a full style before each piece of it; one cell at the right of 120 columns took 430
  bytes, here it takes 70.
- `Screen._compositor_refresh`, `_dirty_widgets`, `Compositor._dirty_regions` and `Widget._set_dirty`: one changed cell
  below a sheet took 10 kB, here it takes 40 bytes.
- `renderables.background_screen.BackgroundScreen`, which `Screen.render` returns: the screen below a sheet.
- `Screen._on_timer_update`, `App._driver`, its `_writer_thread` and the `_queue` of that: Textual queues thirty frames
  and then blocks the loop until one is written, 12 s of pages at 30 kB/s. There is no public way to ask for the queue.
- `App._handle_exception`, `_print_error_renderables`: a bug ends the console with one sentence, not with a traceback.
- `MessagePump._dispatch_message` and `_callback.invoke`: a handler that raises ends its widget and the console.
- `Stylesheet._process_component_classes`, `DOMNode._component_styles`, `_get_component_classes` and `_attach`: Textual
  computes the styles of all component classes of a widget whenever its own, 4 of 5 computations; most are never used.
- `Stylesheet._parse_rules` and `_variables`: Textual parses a style sheet again for each new widget that inherits it
  over another number of classes, and parses each of them again once there are more than 64.
- `Input._pause_blink` and that of `TextArea`: a picture is taken while the cursor is visible.
- `App._click_chain_last_time`: a click on another screen counts as the second one of a double click.
- `App._driver` also writes sequences that no widget draws: a clipboard through tmux, the terminal's title.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.control import Control
from textual import events, messages
from textual._callback import invoke
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual._context import active_message_pump
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.worker import WorkerFailed

from horsies_tui.look.damage import Damage, tell
from horsies_tui.look.pen import RESET, Pen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from rich.console import Console, RenderableType
    from rich.segment import Segment
    from rich.style import Style
    from textual.css.model import RuleSet
    from textual.css.styles import RenderStyles
    from textual.css.types import CSSLocation
    from textual.drivers._writer_thread import WriterThread
    from textual.geometry import Region
    from textual.message import Message
    from textual.strip import Strip
    from textual.timer import Timer
    from textual.widget import Widget
    from textual.widgets import Input, TextArea

ResultT = TypeVar("ResultT")


_Piece: TypeAlias = "tuple[int, int, Segment]"
"""Its column, its line, and what is written there."""
_GLANCE: Final = 4_096
"""An update of so many characters is seen as a whole, an eighth of a second at 30 kB/s, in whichever order it comes."""


class ExactUpdate(ChopsUpdate):
    """Textual crops from 0 on, not from `x1`: one cell at the right of 120 columns took 430 bytes, here it takes 70.

    Cells of one style that are far apart are written one after the other: a move of the cursor takes 7 bytes, a change
    of the colour 19. Twenty rows that change at once take 0.9 kB in place of 1.6.
    """

    def render_segments(self, console: Console) -> str:
        colours = _colours(console)
        pieces = list(self._pieces())
        in_order = _written(pieces, colours)
        if len(in_order) > _GLANCE or any(segment.control for _, _, segment in pieces):
            return in_order
        styles: dict[Style | None, list[_Piece]] = {}
        for piece in pieces:
            styles.setdefault(piece[2].style, []).append(piece)
        return min(in_order, _written(chain.from_iterable(styles.values()), colours), key=len)

    def _pieces(self) -> Iterator[_Piece]:
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                at = max(x, x1)
                yield from _placed(at, y, strip.crop(at - x, min(end, x2) - x))


class ExactLayout(LayoutUpdate):
    """A whole screen without a full style before each piece: 30 rows at 120x40 take 8 kB in place of 11."""

    def render_segments(self, console: Console) -> str:
        lines = (_placed(self.region.x, y, chain(*line)) for y, line in enumerate(self.strips, self.region.y))
        return _written(chain(*lines), _colours(console))


def _colours(console: Console) -> ColorSystem:
    return COLOR_SYSTEMS[console.color_system] if console.color_system else ColorSystem.TRUECOLOR


def _placed(x: int, y: int, segments: Iterable[Segment]) -> Iterator[_Piece]:
    for segment in segments:
        yield x, y, segment
        x += segment.cell_length


def _written(pieces: Iterable[_Piece], colours: ColorSystem) -> str:
    pen = Pen(colours)
    parts: list[str] = []
    cursor = (-1, -1)
    for x, y, segment in pieces:
        if cursor != (x, y):
            parts.append(Control.move_to(x, y).segment.text)
        parts.extend(pen.write((segment,)))
        cursor = (x + segment.cell_length, y)
    return "".join((*parts, RESET))


class ExactCompositor(Compositor):
    """Makes all updates exact."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return update and ExactUpdate(update.chops, update.spans, update.chop_ends)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        update = super().render_full_update(simplify)
        return ExactLayout(update.strips, update.region)


class Lasting(MessagePump):
    """A widget, screen or application that survives errors of its handlers and timers: each is reported.

    Textual would end the application. The failed handler is not repeated; a handler that draws has error
    boundaries of its own, see look/damage.py. A widget that cannot be created ends the application.
    """

    async def _dispatch_message(self, message: Message) -> None:
        if isinstance(message, (events.Load, events.Compose, events.Mount)):
            await super()._dispatch_message(message)
        else:
            await self.survive(partial(super()._dispatch_message, message), type(message).__name__)

    def set_timer(self, delay: float, callback: Callable[..., Any] | None = None, **kwargs: Any) -> Timer:
        return super().set_timer(delay, callback and partial(self.survive, callback), **kwargs)

    def set_interval(self, interval: float, callback: Callable[..., Any] | None = None, **kwargs: Any) -> Timer:
        return super().set_interval(interval, callback and partial(self.survive, callback), **kwargs)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        return super().call_after_refresh(self.survive, partial(callback, *args, **kwargs), "callback")

    def call_next(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().call_next(self.survive, partial(callback, *args, **kwargs), "callback")

    async def survive(self, call: Callable[..., Any], what: str = "timer") -> None:
        """Call this; an exception is reported, and ends nothing else."""
        try:
            await invoke(call)
        except Exception as error:  # noqa: BLE001 - what the docstring of the class says
            tell(Damage(f"not handled: {what} of {type(self).__name__}", error))


class PacedScreen(Lasting, Screen[ResultT]):
    """A screen that sends only what changes, and no faster than the terminal reads.

    A frame waits until the previous one is written, and then shows the current state: over a slow link, outdated frames
    are skipped.
    """

    def __init__(self, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(name, id, classes)
        self._compositor = ExactCompositor()

    def render(self) -> RenderableType:
        """A sheet shows the screen right below it.

        Textual takes that from a list that each screen shortens while it draws itself; a screen whose picture it has
        kept does not, and below two sheets the wrong one was drawn.
        """
        stack, background = self.app.screen_stack, self.styles.background
        below = stack.index(self) - 1 if self in stack else -1
        return BackgroundScreen(stack[below], background) if below >= 0 and background.a < 1 else super().render()

    def _on_timer_update(self) -> None:
        writer: WriterThread | None = getattr(self.app._driver, "_writer_thread", None)  # noqa: SLF001
        if writer is None or writer._queue.empty():  # noqa: SLF001
            super()._on_timer_update()

    def _compositor_refresh(self) -> None:
        """Textual keeps the changed regions of a screen below a sheet: after one whole repaint each change is another.

        The sheet gets a message in place of a call of its `refresh`, which would drop changes of its own widgets. Each
        screen keeps the lines of those below it, so that all sheets above this screen must draw theirs again: below two
        of them the clock stood still.
        """
        top = self.app.screen
        if self is top:
            super()._compositor_refresh()
            return
        if regions := self._compositor._dirty_regions:  # noqa: SLF001
            stack = self.app.screen_stack
            for above in stack[stack.index(self) + 1 :]:
                above._set_dirty(*regions)  # noqa: SLF001
            top.post_message(messages.Update(top))
            regions.clear()
        self._dirty_widgets.clear()


def forget_click(app: App[Any]) -> None:
    """Let the next click be a single one: on another screen it is no double click with the one before."""
    app._click_chain_last_time = None  # noqa: SLF001


def handler_is_hidden() -> bool:
    """Return whether what runs now handles a message of a widget that is hidden since the message was sent."""
    pump = active_message_pump.get(None)
    return isinstance(pump, DOMNode) and not all(node.display for node in pump.ancestors_with_self)


class ExactScreen(PacedScreen[Any]):
    """The screen that `App.get_default_screen` returns."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Like Textual's, without its repaint of the whole screen, which sent 17 kB before the first letter of a filter."""

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """Find the widget, unless it is hidden already: it stands on the terminal until the next layout."""
        widget, region = super().get_widget_at(x, y)
        if all(node.display for node in widget.ancestors_with_self):
            return widget, region
        return self, self.region


class _Components(dict[str, "RenderStyles"]):
    """The styles of a widget's component classes, each computed when it is first asked for."""

    def __init__(self, stylesheet: Stylesheet, node: DOMNode, names: frozenset[str]) -> None:
        super().__init__()
        self.stylesheet, self.node, self.names = stylesheet, node, names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __missing__(self, name: str) -> RenderStyles:
        part = DOMNode(classes=name)
        part._attach(self.node)  # noqa: SLF001
        self.stylesheet.apply(part)
        self[name] = part.styles
        return part.styles


class FrugalStylesheet(Stylesheet):
    """Computes only the styles that are used, and parses each sheet once: a fifth of the time of a start."""

    parsed: ClassVar[dict[frozenset[tuple[str, str]], dict[tuple[Any, ...], list[RuleSet]]]] = {}
    """By the variables of a theme, and the sheet."""

    def reparse(self) -> None:
        self.parse()

    def _parse_rules(
        self,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        """The tie breaker is how far the class of the sheet is from that of the widget: a factor in each rule's own."""
        if self.known_for is not self._variables:
            self.known_for = self._variables
            self.known = self.parsed.setdefault(frozenset(self._variables.items()), {})
        sheet = (css, read_from, is_default_rules, scope)
        rules = self.known.get((*sheet, tie_breaker))
        if rules is None:
            plain = self.known.get(sheet)
            if plain is None:
                plain = self.known[sheet] = super()._parse_rules(css, read_from, is_default_rules, 1, scope)
            rules = [replace(rule, tie_breaker=rule.tie_breaker * tie_breaker) for rule in plain]
            self.known[*sheet, tie_breaker] = rules
        return rules

    known_for: dict[str, str] | None = None
    known: dict[tuple[Any, ...], list[RuleSet]]

    def _process_component_classes(self, node: DOMNode) -> None:
        """Like Textual's, for those that were used. The others change nothing that is drawn."""
        names = node._get_component_classes()  # noqa: SLF001
        if not names:
            return
        before = node._component_styles  # noqa: SLF001
        node._component_styles = now = _Components(self, node, names)  # noqa: SLF001
        if not isinstance(before, _Components) or any(now[name] != styles for name, styles in before.items()):
            node.refresh()


class CrashKeepingApp(Lasting, App[ResultT]):
    """A bug that ends it is one sentence, printed by launch; a traceback only for debugging."""

    crash: Exception | None = None
    shows_tracebacks = False

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.stylesheet = FrugalStylesheet(variables=self.get_css_variables())

    def refresh(self, *, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """A layout paints what moves. Textual asks for one after a sheet, and sent the whole screen a second time."""
        return super().refresh(repaint=repaint and not layout, layout=layout, recompose=recompose)

    def _handle_exception(self, error: Exception) -> None:
        if isinstance(error, WorkerFailed):  # of a read or a preparation, of which no other waits
            tell(
                Damage(
                    "not handled: work beside the screen", error.error if isinstance(error.error, Exception) else error
                )
            )
            return
        self.crash = self.crash or error  # others follow from the first one
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        if self.shows_tracebacks:
            super()._print_error_renderables()


def write_raw(app: App[Any], sequence: str) -> None:
    """Send a sequence that is not drawn; nothing before the application has a terminal."""
    if app._driver is not None and sequence:  # noqa: SLF001
        app._driver.write(sequence)  # noqa: SLF001


def show_cursor(field: Input | TextArea) -> None:
    """Let the cursor of a field stop blinking, visible; `cursor_blink = False` hides it."""
    field._pause_blink(visible=True)  # noqa: SLF001


def drawn(screen: Screen[Any]) -> list[Strip]:
    """Return the lines on the terminal."""
    return screen._compositor.render_strips()  # noqa: SLF001
