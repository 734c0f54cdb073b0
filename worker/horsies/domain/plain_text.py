"""The gate for text that a terminal shows: only `clean` makes a PlainText, and no control character passes it.

Names, messages and arguments come from users and from the database. Written by hand: libraries that remove escape
sequences leave C1 controls, marks that reverse the order of a line, and line feeds that forge lines of a log.
"""

from __future__ import annotations

import unicodedata
from typing import NewType, cast

PlainText = NewType("PlainText", str)
"""One line of text without control characters, escape sequences and characters that reorder or join others."""


def clean(text: str) -> PlainText:
    """Control characters become blanks; characters that join or reorder others are removed, as terminals differ."""
    if text.isascii() and text.isprintable():
        return cast("PlainText", text)
    return PlainText("".join(_harmless(char) for char in text))


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
