"""Splits a Python traceback into frames of the application and folded runs of library frames."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies.display.stack_lines import is_library, short_file
from horsies.domain.quantities import counted
from horsies_tui.look.lines import Span
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAME: Final = re.compile(r'  File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_MARKS: Final = re.compile(r"[\s~^]+")
_HALF: Final = 50
"""Characters that fit into half of the width, beside the arguments."""
_OF_PYTHON: Final = re.compile(r"Traceback \(most recent|During handling of the above|The above exception was")
_CODE: Final = re.compile(
    rf"""(?P<string>(?<!\w)[rbfu]{{0,2}}(?P<quote>["'])(?:\\.|(?!(?P=quote)).)*(?P=quote))|(?P<comment>\#.*)"""
    rf"""|(?P<number>\b\d[\d_.]*\b)|(?P<keyword>\b(?:{"|".join(keyword.kwlist)})\b)""",
    re.IGNORECASE,
)
_TONES: Final = {
    "string": Tone.STRING,
    "comment": Tone.MUTED,
    "number": Tone.NUMBER,
    "keyword": Tone.STRONG,
}


class Outside(str):
    """A line of a traceback outside its frames, such as the error message."""

    __slots__ = ()


class Heading(Outside):
    """Python's line before the frames."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One call with its place in the source, and the source lines in the traceback."""

    file: str
    line: str
    function: str
    source: tuple[str, ...]
    is_library: bool

    @property
    def place(self) -> str:
        return f"{short_file(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        return f"{self.place} {self.function}"

    @property
    def spans(self) -> list[Span]:
        tone = Tone.MUTED if self.is_library else Tone.STRONG
        return [Span(self.place, tone), Span(f"  {self.function}", Tone.MUTED if self.is_library else None)]


@dataclass(frozen=True, slots=True)
class LibraryFrames:
    """A run of successive calls within libraries."""

    frames: tuple[Frame, ...]

    @property
    def text(self) -> str:
        """Return `5 library frames  httpx, anyio`, with the packages in the order of the calls."""
        count = len(self.frames)
        packages = dict.fromkeys(short_file(frame.file).split("/")[0].removesuffix(".py") for frame in self.frames)
        return f"{counted(count, 'library frame')}  {', '.join(packages)}"


TracePart: TypeAlias = Frame | LibraryFrames | Outside


@dataclass(frozen=True, slots=True)
class Traceback:
    """A parsed traceback; `text` is the stored text."""

    text: str
    parts: tuple[TracePart, ...]


def traceback_of(text: str) -> Traceback | str:
    """Parse a traceback; return the text itself if it has no frames."""
    parts = tuple(_grouped(_parsed(text)))
    return Traceback(text, parts) if any(not isinstance(part, Outside) for part in parts) else text


def code_spans(line: str) -> Iterator[Span]:
    """Yield the spans of a clean line of Python, with syntax colours."""
    at = 0
    for found in _CODE.finditer(line):
        if found.start() > at:
            yield Span(line[at : found.start()])
        kind = next(name for name in _TONES if found[name])
        yield Span(found[0], _TONES[kind])
        at = found.end()
    yield Span(line[at:])


def _parsed(text: str) -> Iterator[Frame | Outside]:
    lines = text.rstrip("\n").split("\n")
    at = 0
    while at < len(lines):
        head = _FRAME.fullmatch(lines[at])
        at += 1
        if head is None:
            kind = Heading if _OF_PYTHON.match(lines[at - 1]) else Outside
            yield from map(kind, wrap(lines[at - 1], _HALF))
            continue
        begin = at
        while at < len(lines) and lines[at].startswith("    "):
            at += 1
        # Error marks refer to columns of the line above, and would be misplaced where that line is wrapped or cut.
        source = tuple(line[4:] for line in lines[begin:at] if not _MARKS.fullmatch(line))
        yield Frame(head["file"], head["line"], head["function"] or "", source, is_library(head["file"]))


def _grouped(parts: Iterator[Frame | Outside]) -> Iterator[TracePart]:
    for library, run in groupby(parts, key=lambda part: isinstance(part, Frame) and part.is_library):
        if library:
            yield LibraryFrames(tuple(part for part in run if isinstance(part, Frame)))
        else:
            yield from run
