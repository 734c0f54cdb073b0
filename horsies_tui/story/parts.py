"""Splits a value into parts, which are created when they are shown, and formats parts and damaged fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain.codec.read import Labelled
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies_tui.look.damage import damaged_words
from horsies_tui.look.lines import Span, chopped, cut_spans, words
from horsies_tui.look.tones import Tone
from horsies_tui.story.frames import Frame, Heading, LibraryFrames, Outside, Traceback, code_spans
from horsies_tui.story.lines import Band, Line, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from horsies_tui.look.glyphs import Glyphs


CHUNK: Final = 100
"""Number of items per group of a long list, so that a list of 100,000 unfolds to few enough lines to draw."""
WIDEST_LABEL: Final = 24
_PREVIEW: Final = 200
_PADDING: Final = 4
_TRACEBACK: Final = "traceback"
"""The field that is folded at first, showing only its last line, which has the error message."""


class StoryPart(NamedTuple):
    """A value with its label, which is None for a line of a text."""

    label: str | None
    value: Any


@dataclass(frozen=True, slots=True)
class Chunk:
    """A group of the parts of a long value. The parts are created when they are shown."""

    start: int
    values: Sequence[Any]
    labels: Sequence[str] | None
    """Labels of the values; None for the numbered values of a list."""

    @property
    def parts(self) -> Sequence[StoryPart]:
        if self.labels is not None:
            return list(map(StoryPart, self.labels, self.values))
        return [
            StoryPart(None if isinstance(value, Raw) else str(number), value)
            for number, value in enumerate(self.values, self.start)
        ]


class Raw(str):
    """A line of a text that is shown without quotes."""

    __slots__ = ()


class Code(Raw):
    """A line of source code."""

    __slots__ = ()


def folds(value: Any, width: int) -> bool:
    """Return whether a value does not fit on its line and can be unfolded."""
    match value:
        case Labelled():
            return folds(value.data, width)
        case Raw() | Outside():
            return False
        case Frame():
            return bool(value.source)
        case Traceback() | LibraryFrames():
            return True
        case str():
            return "\n" in value.rstrip("\n") or len(value) > max(width - WIDEST_LABEL, 40)
        case _:
            return isinstance(value, Chunk | dict | list) and value not in ({}, [])


def parts_of(value: Any, width: int) -> Sequence[StoryPart]:
    """Return the parts of an unfolded value."""
    if not folds(value, width):
        return ()
    match value:
        case Labelled():
            return parts_of(value.data, width)
        case Chunk():
            return value.parts
        case Traceback():
            return [StoryPart(None, part) for part in value.parts]
        case LibraryFrames():
            return [StoryPart(None, frame) for frame in value.frames]
        case Frame():
            return [StoryPart(None, Code(line)) for line in value.source]
        case dict():
            return _chunked(list(value.values()), list(map(str, value)))
        case list():
            return _chunked(value, None)
        case _:
            return _chunked([Raw(line) for line in _text_lines(value, width)], None)


def _chunked(values: Sequence[Any], labels: Sequence[str] | None) -> Sequence[StoryPart]:
    whole = Chunk(0, values, labels)
    if len(values) <= CHUNK:
        return whole.parts
    starts = range(0, len(values), CHUNK)
    chunks = [Chunk(at, values[at : at + CHUNK], labels and labels[at : at + CHUNK]) for at in starts]
    return [StoryPart(f"{chunk.start}…{chunk.start + len(chunk.values) - 1}", chunk) for chunk in chunks]


def _text_lines(text: str, width: int) -> Iterator[str]:
    """Split a text into lines of this width, without losing a character."""
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        *pieces, last = chopped(body, max(width - _PADDING, 20))
        yield from pieces
        yield last + line[len(body) :]


def behind_open(part: StoryPart, glyphs: Glyphs) -> list[Span]:
    """Return the text after the label of an unfolded part."""
    match part.value:
        case Labelled():
            return [Span(clean(glyphs.text(part.value.label)), Tone.MUTED)]
        case str():
            return [Span(counted(len(part.value.splitlines()), "line") if "\n" in part.value else "", Tone.MUTED)]
        case Traceback():
            return [Span(counted(len(part.value.text.splitlines()), "line"), Tone.MUTED)]
        case Frame() | LibraryFrames():
            return behind(part, 0, glyphs)
        case _:
            return []


def behind(part: StoryPart, room: int, glyphs: Glyphs) -> list[Span]:
    """Return the text after the label of a part that is folded or cannot be unfolded."""
    value = part.value
    match value:
        case Traceback():
            return behind(StoryPart(_TRACEBACK, value.text), room, glyphs)
        case Raw() | Frame() | LibraryFrames() | Outside():
            return _behind_line(value, glyphs)
        case str() if "\n" in value.rstrip("\n"):
            lines = value.rstrip().splitlines() or value.splitlines()  # rstrip leaves nothing of white space
            said = lines[-1] if part.label == _TRACEBACK else lines[0]
            return [Span(f"({counted(len(lines), 'line')}) ", Tone.MUTED), Span(clean(glyphs.text(said[:_PREVIEW])))]
        case Chunk():
            return [Span(f"{len(value.values)} values", Tone.MUTED)]
        case Labelled(label=label) if isinstance(value.data, dict | list):
            return [
                Span(clean(glyphs.text(label)) + " ", Tone.MUTED),
                *behind(StoryPart(None, value.data), room, glyphs),
            ]
        case list() if len(value) > 1:
            return [Span(f"[{len(value)}] ", Tone.MUTED), Span(clean(glyphs.text(preview(value, room))), Tone.MUTED)]
        case dict() | list() if value:
            return [Span(clean(glyphs.text(preview(value, room))), Tone.MUTED)]
        case str():
            return [Span(clean(glyphs.text(scalar(value[: max(room, 1)]))), Tone.STRING)]
        case dict() | list():
            return [Span(scalar(value))]
        case _:
            return [Span(clean(glyphs.text(scalar(value))), Tone.NUMBER)]


def _behind_line(value: Raw | Frame | LibraryFrames | Outside, glyphs: Glyphs) -> list[Span]:
    """Return the line of a text or a traceback, which has no label."""
    match value:
        case Code():
            return [*code_spans(clean(glyphs.text(value)))]
        case Raw():
            return [Span(clean(glyphs.text(value)))]
        case Frame():
            return [Span(clean(glyphs.text(span.text)), span.tone) for span in value.spans]
        case LibraryFrames():
            return [Span(clean(glyphs.text(value.text)), Tone.MUTED)]
        case Outside():
            return [Span(clean(glyphs.text(value)), Tone.MUTED if isinstance(value, Heading) else Tone.FAILED)]


def preview(value: Any, room: int) -> str:
    """Return the beginning of a value on one line, as much as fits."""
    text = ""
    waiting: list[Any] = [value]
    while waiting and len(text) <= room:
        item = waiting.pop()
        match item:
            case Raw():
                text += item
            case Traceback():
                text += scalar(item.text[:_PREVIEW])
            case str():
                text += scalar(item[:_PREVIEW])
            case Labelled():
                waiting.append(item.data)
            case dict() if item:
                waiting += reversed([Raw("{"), *_listed((f"{key}: ", each) for key, each in item.items()), Raw("}")])
            case list() if item:
                waiting += reversed([Raw("["), *_listed(("", each) for each in item), Raw("]")])
            case _:
                text += scalar(item)
    return text


def _listed(items: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    for number, (label, item) in enumerate(islice(items, _PREVIEW)):
        yield Raw(f", {label}" if number else label)
        yield item


def scalar(value: Any) -> str:
    match value:
        case Frame() | LibraryFrames():
            return value.text
        case datetime() | date() | time():
            return value.isoformat()
        case Labelled():
            return f"{value.label} {scalar(value.data)}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value for copying, as JSON without type names and with texts in full."""
    match value:
        case Labelled():
            return plain(value.data)
        case Chunk():
            return [plain(part.value) for part in value.parts]
        case Traceback() | LibraryFrames() | Frame():
            return value.text
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return value


_MOST: Final = 20


def damage(record: object, width: int, glyphs: Glyphs) -> Iterator[Band]:
    """Yield a section with the damaged fields, each with its stored and its shown value, if there are any."""
    found = damaged_words(record)
    if found:
        lines = [_line(name, stored, width, glyphs) for name, stored in [*found.items()][:_MOST]]
        yield Band((Section("damaged", f"damaged {len(found)}", tuple(lines), more="as stored"),))


def _line(name: str, stored: str, width: int, glyphs: Glyphs) -> Line:
    label = words(f"{name}  ", Tone.MUTED, glyphs)
    return Line(name, cut_spans((label, words(stored, Tone.BAD, glyphs)), width, glyphs))
