"""The door of every command to standard output and standard error, and tables as wide as the terminal.

Whatever a text was meant to be, `say` prints it as one line without control characters, and without the password of a
URL. Only colours that `Screen.paint` has put there become escape sequences: their mark cannot be guessed by data. A
test and ruff forbid `print` and `echo` elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TextIO

from horsies.domain.errors import render
from horsies.domain.masking import mask_urls
from horsies.domain.plain_text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from horsies.domain.errors import HorsiesError

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
_MARK: Final = f"\x1b{os.urandom(8).hex()}"
_MARKED: Final = re.compile(rf"{_MARK}\[([\d;]*)m")


@dataclass(frozen=True, slots=True)
class Screen:
    """The capabilities of the output. `width` None: a pipe or a file, so nothing is cut."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> Screen:
        """Return the capabilities of a stream. As in other tools, COLUMNS takes precedence over the real width."""
        terminal = stream.isatty()
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        utf = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")
        return cls(shutil.get_terminal_size().columns if terminal else None, terminal and not plain, utf)

    def paint(self, text: str, style: str) -> str:
        """Return the text with marks that `say` turns into colours."""
        return f"{_MARK}[{_STYLES[style]}m{text}{_MARK}[0m" if style and text and self.colour else text

    def adopt(self, drawing: str) -> str:
        """Accept the colours of a text that has no control characters of data: a chart, or a rendered error."""
        return drawing.replace("\x1b[", f"{_MARK}[")

    def glyph(self, unicode: str, ascii_only: str) -> str:
        return unicode if self.unicode else ascii_only

    @property
    def inside(self) -> Screen:
        """The screen without two columns, for indented text."""
        return self if self.width is None else replace(self, width=self.width - 2)


@dataclass(frozen=True, slots=True)
class TableCell:
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`least`: the minimum width, None if never cut. `rank`: the highest is dropped first if needed; 0 stays."""

    title: str
    right: bool = False
    least: int | None = None
    rank: int = 0


def say(*lines: str, stream: TextIO | None = None) -> None:
    """Print each text as one line on stdout, or on `stream`, and flush."""
    _put("".join(f"{visible(line)}\n" for line in lines), stream or sys.stdout)


def say_json(text: str) -> None:
    """Print JSON on stdout, its values unchanged: what a terminal would obey is escaped."""
    _put(f"{clean_json(text)}\n", sys.stdout)


def say_error(error: HorsiesError, change: Callable[[str], str] = str) -> None:
    """Print an error on stderr, with its notes and its help below it; `change` completes the commands in a line."""
    screen = Screen.of(sys.stderr)
    colour = screen.colour or bool(os.environ.get("HORSIES_FORCE_COLOR"))
    say(*map(change, screen.adopt(render(error, colour=colour)).split("\n")), stream=sys.stderr)


def ask(prompt: str) -> str:
    """Print a prompt on stderr and return the line that is typed; the empty text if there is none."""
    _put(f"{visible(prompt)} ", sys.stderr)
    _wait_for_input()
    return sys.stdin.readline()


def _wait_for_input() -> None:
    """Wait until a line can be read. A ctrl+c right before a blocking read would take effect only after that line."""
    import select  # noqa: PLC0415 - only commands that ask need these
    import signal  # noqa: PLC0415
    import socket  # noqa: PLC0415
    import threading  # noqa: PLC0415

    try:
        sys.stdin.fileno()
    except OSError:
        return  # a text in place of a terminal
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread handles signals
    woken, waker = socket.socketpair()
    with woken, waker:
        waker.setblocking(False)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
                woken.recv(1)
        finally:
            signal.set_wakeup_fd(before)


def rewrite(line: str, *, stream: TextIO) -> None:
    """Print a line in place of the one in which the cursor is; the next one may begin in it."""
    _put(f"\r{visible(line)}\r", stream)


def visible(line: str) -> str:
    """Return the line as a terminal gets it. Its colours are those of `Screen.paint`."""
    parts = _MARKED.split(line)  # texts and, between them, the numbers of colours
    texts, colours = parts[::2], parts[1::2]
    shown = [clean(mask_urls(text)) for text in texts]
    return "".join(text + (f"\x1b[{colours[at]}m" if at < len(colours) else "") for at, text in enumerate(shown))


def _put(text: str, stream: TextIO) -> None:
    """Write a text; characters that the encoding of the stream lacks are replaced by question marks."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def width_of(text: str) -> int:
    """Return the number of columns that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int, screen: Screen) -> str:
    """Cut to this width; omitted text is marked."""
    if width_of(text) <= width:
        return text
    end = screen.glyph("…", "~")
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return text + end if width > 0 else ""


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[TableCell | str]], screen: Screen) -> list[str]:
    """Return the lines, heading first. A column with a rank is left out if it is empty."""
    cells = [[_cleaned(cell) for cell in row] for row in rows]
    natural = [
        max([width_of(column.title), *(width_of(row[index].text) for row in cells)])
        for index, column in enumerate(columns)
    ]
    shown = [index for index, column in enumerate(columns) if not column.rank or any(row[index].text for row in cells)]
    widths = _fitted(columns, natural, shown, screen.width)
    heading = [TableCell(column.title, "dim") for column in columns]
    return [_line(columns, row, widths, screen) for row in (heading, *cells)]


def _cleaned(cell: TableCell | str) -> TableCell:
    """Mask a cell before it is cut, because half a URL may not look like one."""
    text, style = (cell, "") if isinstance(cell, str) else (cell.text, cell.style)
    return TableCell(clean(mask_urls(text)), style)


def _fitted(
    columns: Sequence[TableColumn], natural: Sequence[int], shown: list[int], width: int | None
) -> dict[int, int]:
    """Return the width of each column that is shown."""
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


def _line(columns: Sequence[TableColumn], cells: Sequence[TableCell], widths: dict[int, int], screen: Screen) -> str:
    parts = []
    for index, width in widths.items():
        text = cut(cells[index].text, width, screen)
        padding = " " * (width - width_of(text))
        painted = screen.paint(text, cells[index].style)
        parts.append(padding + painted if columns[index].right else painted + padding)
    return (" " * _GAP).join(parts).rstrip()
