"""Lines of a story: pieces of text that name their tone, and what `enter` does on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rich.cells import cell_len, chop_cells

from horsies_tui.look.text import clean, cut

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.tones import Tone


class Span(NamedTuple):
    """Clean text in one tone; None is the usual text."""

    text: str
    tone: Tone | None = None


Spans: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """`enter` folds or unfolds this part of a section."""

    section: str
    part: Hashable


@dataclass(frozen=True, slots=True)
class OpenTask:
    """`enter` opens this task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class OpenWorkflow:
    """`enter` opens the graph of this workflow, on this node of it or on its first."""

    workflow_id: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ShowTasks:
    """`enter` goes to the list with this filter."""

    filter: str


@dataclass(frozen=True, slots=True)
class ShowWorkers:
    """The workers that this filter finds."""

    filter: str


Target: TypeAlias = Fold | OpenTask | OpenWorkflow | ShowTasks | ShowWorkers


@dataclass(frozen=True, slots=True)
class Line:
    """`key` tells a line from the others of its section, whatever comes and goes around it."""

    key: Hashable
    spans: Spans
    target: Target | None = None
    is_open: bool = False
    """Of a line that folds."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part. `more` stands in the title line, at its right end."""

    key: str
    title: str
    lines: tuple[Line, ...]
    more: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """Sections beside each other, each with its share of the width."""

    sections: tuple[Section, ...]


Document: TypeAlias = tuple[Band, ...]


def words(text: str, tone: Tone | None, glyphs: Glyphs) -> Span:
    """Text from anywhere, harmless, and in ASCII where that is all there is."""
    return Span(clean(glyphs.text(text)), tone)


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_len(span.text) for span in spans)


def cut_spans(spans: Spans, width: int, glyphs: Glyphs) -> Spans:
    """At most so wide, with an ellipsis where something is left out."""
    if width_of(spans) <= width:
        return spans
    kept: list[Span] = []
    for span in spans:
        room = width - width_of(kept)
        # A piece that fits exactly is cut too: the ellipsis for what comes after needs its last place.
        if cell_len(span.text) >= room:
            kept.append(Span(cut(span.text + " ", room, glyphs), span.tone))
            break
        kept.append(span)
    return tuple(kept)


def flow(items: Iterable[Spans], width: int, glyphs: Glyphs, *, gap: int = 3) -> list[Spans]:
    """Items side by side on as few lines as they need; one that is wider than a line is cut."""
    lines: list[Spans] = []
    for item in items:
        if lines and width_of(lines[-1]) + gap + width_of(item) <= width:
            lines[-1] = (*lines[-1], Span(" " * gap), *item)
        else:
            lines.append(cut_spans(item, width, glyphs))
    return lines


def wrapped(text: str, width: int, tone: Tone | None, glyphs: Glyphs) -> Iterator[Spans]:
    """A text of any length in lines of that width."""
    for line in text.splitlines() or [""]:
        for piece in chopped(clean(glyphs.text(line)), width):
            yield (Span(piece, tone),)


def chopped(text: str, width: int) -> Sequence[str]:
    """A clean line in pieces that each fit; never none."""
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), max(width, 1))] or [""]
    return chop_cells(text, max(width, 2)) or [""]
