"""The base of sheets above a screen: help, errors, the picker, the preview of an operation."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

from horsies_tui.actions import Scope, bindings
from horsies_tui.textual_internals import PacedScreen

ResultT = TypeVar("ResultT")


class Sheet(ModalScreen[ResultT], PacedScreen[ResultT]):
    """A sheet, which `esc` and `q` close with None. Subclasses compose one child with the id `sheet`."""

    BINDINGS = bindings(Scope.SHEET)

    DEFAULT_CSS = """
    Sheet {
        align: center middle;
        & > #sheet {
            width: 90%;
            max-width: 110;
            height: auto;
            max-height: 90%;
            padding: 0 1;
            border: round $primary;
            background: $surface;
        }
        &.-narrow > #sheet { width: 100%; max-height: 100%; }
    }
    """

    def action_close(self) -> None:
        self.dismiss(None)
