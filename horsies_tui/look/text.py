"""Cuts or pads a line of text to a width in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs


def fit(text: str, width: int, glyphs: Glyphs, *, right: bool = False) -> str:
    """Exactly `width` places: padded, or cut with an ellipsis. `text` is clean."""
    text = cut(text, width, glyphs)
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding


def cut_middle(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut to this width in the middle: names of steps often differ only in their last characters."""
    if cell_len(text) <= width:
        return text
    end = ""
    while end != text and cell_len(text[-len(end) - 1 :]) <= (width - 1) // 2:
        end = text[-len(end) - 1 :]
    return set_cell_size(text, width - 1 - cell_len(end)) + glyphs.ellipsis + end if width > 0 else ""


def cut_start(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut to this width at the beginning: ids differ at their end, and so do the pods of one deployment."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) >= width and text:
        text = text[1:]
    return glyphs.ellipsis + text if width > 0 else ""


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut to this width at the end. If something is cut, the last character is an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + glyphs.ellipsis if width > 0 else ""
