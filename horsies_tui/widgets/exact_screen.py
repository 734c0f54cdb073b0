"""A screen that sends only the changed part of a line; Textual 8.2 sends it from the left edge of the widget on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor
from textual.reactive import Reactive

from horsies_tui.widgets.paced_screen import PacedScreen
from horsies_tui.widgets.pen import RESET, Pen

if TYPE_CHECKING:
    from rich.console import Console
    from textual.widget import Widget


class ExactUpdate(ChopsUpdate):
    """Textual crops from 0 on, not from `x1`: one cell at the right of 120 columns took 430 bytes, here it takes 70."""

    def render_segments(self, console: Console) -> str:
        pen = Pen(COLOR_SYSTEMS[console.color_system] if console.color_system else ColorSystem.TRUECOLOR)
        parts: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                start = max(x, x1)
                parts.append(Control.move_to(start, y).segment.text)
                parts.extend(pen.write(strip.crop(start - x, min(end, x2) - x)))
        return "".join((*parts, RESET))


class ExactCompositor(Compositor):
    """Makes all partial updates exact."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return update and ExactUpdate(update.chops, update.spans, update.chop_ends)


class ExactScreen(PacedScreen[Any]):
    """The screen that `App.get_default_screen` returns."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Like Textual's, without its repaint of the whole screen, which sent 17 kB before the first letter of a filter."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._compositor = ExactCompositor()
