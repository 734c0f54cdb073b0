"""Makes any text safe for one line of a terminal, and cuts or pads it to a width."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs


def clean(text: str) -> str:
    """Control characters become blanks; characters that join or reorder others are removed, as terminals differ."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless(char) for char in text)


def _harmless(char: str) -> str:
    if "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return ""
    match unicodedata.category(char):
        case "Cf" | "Me":
            return ""
        case "Cc" | "Zl" | "Zp" | "Zs" | "Cs" | "Co" | "Cn":
            return " "
        case _:
            return char


def fit(text: str, width: int, glyphs: Glyphs, *, right: bool = False) -> str:
    """Exactly `width` places: padded, or cut with an ellipsis. `text` is clean."""
    text = cut(text, width, glyphs)
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding


def cut_middle(text: str, width: int, glyphs: Glyphs) -> str:
    """At most this wide, with its beginning and end: names of steps often differ only in their last characters."""
    if cell_len(text) <= width:
        return text
    end = ""
    while end != text and cell_len(text[-len(end) - 1 :]) <= (width - 1) // 2:
        end = text[-len(end) - 1 :]
    return set_cell_size(text, width - 1 - cell_len(end)) + glyphs.ellipsis + end if width > 0 else ""


def cut_start(text: str, width: int, glyphs: Glyphs) -> str:
    """At most this wide, with its end: ids differ there, and so do the names of pods of one deployment."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) >= width and text:
        text = text[1:]
    return glyphs.ellipsis + text if width > 0 else ""


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """At most this wide. If something is cut, the last place is an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + glyphs.ellipsis if width > 0 else ""
