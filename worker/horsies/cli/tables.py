"""Tables and sentences for people: as wide as the terminal, and safe against control characters in stored texts."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TextIO

from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Screen:
    """The capabilities of the output. `width` None: a pipe or a file, so nothing is cut."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> Screen:
        """COLUMNS takes precedence over the terminal's width, as in other tools."""
        terminal = stream.isatty()
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        utf = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")
        return cls(shutil.get_terminal_size().columns if terminal else None, terminal and not plain, utf)

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text and self.colour else text

    def glyph(self, unicode: str, ascii_only: str) -> str:
        return unicode if self.unicode else ascii_only

    @property
    def inside(self) -> Screen:
        """Two columns less, for indented text."""
        return self if self.width is None else replace(self, width=self.width - 2)


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """`least`: the minimum width, None if never cut. `rank`: the highest is dropped first if needed; 0 stays."""

    title: str
    right: bool = False
    least: int | None = None
    rank: int = 0


def say(text: str, *, stream: TextIO | None = None) -> None:
    """A line on stdout, or on `stream`; characters that its encoding lacks are replaced by question marks."""
    target = stream or sys.stdout
    encoding = getattr(target, "encoding", None) or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), file=target)


def width_of(text: str) -> int:
    """The number of columns that it takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int, screen: Screen) -> str:
    """At most this wide; omitted text is marked."""
    if width_of(text) <= width:
        return text
    end = screen.glyph("…", "~")
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return text + end if width > 0 else ""


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], screen: Screen) -> list[str]:
    """The lines, heading first. A column with a rank is left out if it is empty."""
    cells = [[_cleaned(cell) for cell in row] for row in rows]
    natural = [
        max([width_of(column.title), *(width_of(row[index].text) for row in cells)])
        for index, column in enumerate(columns)
    ]
    shown = [index for index, column in enumerate(columns) if not column.rank or any(row[index].text for row in cells)]
    widths = _fitted(columns, natural, shown, screen.width)
    heading = [Cell(column.title, "dim") for column in columns]
    return [_line(columns, row, widths, screen) for row in (heading, *cells)]


def _cleaned(cell: Cell | str) -> Cell:
    return Cell(clean(cell)) if isinstance(cell, str) else Cell(clean(cell.text), cell.style)


def _fitted(columns: Sequence[Column], natural: Sequence[int], shown: list[int], width: int | None) -> dict[int, int]:
    """The width of each column that is shown."""
    if width is None:
        return {index: natural[index] for index in shown}
    least = {index: min(natural[index], columns[index].least or natural[index]) for index in shown}
    while _total(least.values()) > width:
        worst = max(least, key=lambda index: columns[index].rank)
        if not columns[worst].rank:
            break
        del least[worst]
    widths = {index: natural[index] for index in least}
    while _total(widths.values()) > width:
        widest = max(widths, key=lambda index: widths[index] - least[index])
        if widths[widest] == least[widest]:
            break
        widths[widest] -= 1
    return widths


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + _GAP * (len(each) - 1)


def _line(columns: Sequence[Column], cells: Sequence[Cell], widths: dict[int, int], screen: Screen) -> str:
    parts = []
    for index, width in widths.items():
        text = cut(cells[index].text, width, screen)
        padding = " " * (width - width_of(text))
        painted = screen.paint(text, cells[index].style)
        parts.append(padding + painted if columns[index].right else painted + padding)
    return (" " * _GAP).join(parts).rstrip()
