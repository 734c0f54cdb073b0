"""Lines of a story: pieces of text with a tone, and the action of `enter` on a line."""

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
    """Clean text in one tone; None is the normal colour."""

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
    """`enter` opens the graph of this workflow, on this node or on its first one."""

    workflow_id: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ShowTasks:
    """`enter` opens the task list with this filter."""

    filter: str


@dataclass(frozen=True, slots=True)
class ShowWorkers:
    """`enter` opens the workers screen with this filter."""

    filter: str


Target: TypeAlias = Fold | OpenTask | OpenWorkflow | ShowTasks | ShowWorkers


@dataclass(frozen=True, slots=True)
class Line:
    """`key` identifies the line within its section when other lines are added or removed."""

    key: Hashable
    spans: Spans
    target: Target | None = None
    is_open: bool = False
    """For a line that folds."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Section:
    """A part with a title. `more` stands at the right end of the title line."""

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
    """Any text without control characters, and in ASCII if only that can be shown."""
    return Span(clean(glyphs.text(text)), tone)


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_len(span.text) for span in spans)


def cut_spans(spans: Spans, width: int, glyphs: Glyphs) -> Spans:
    """At most this wide, with an ellipsis if something is cut."""
    if width_of(spans) <= width:
        return spans
    kept: list[Span] = []
    for span in spans:
        room = width - width_of(kept)
        # A piece that fits exactly is cut too: the ellipsis for what follows needs its last place.
        if cell_len(span.text) >= room:
            kept.append(Span(cut(span.text + " ", room, glyphs), span.tone))
            break
        kept.append(span)
    return tuple(kept)


def flow(items: Iterable[Spans], width: int, glyphs: Glyphs, *, gap: int = 3) -> list[Spans]:
    """Items side by side on as few lines as they need; an item wider than a line is cut."""
    lines: list[Spans] = []
    for item in items:
        if lines and width_of(lines[-1]) + gap + width_of(item) <= width:
            lines[-1] = (*lines[-1], Span(" " * gap), *item)
        else:
            lines.append(cut_spans(item, width, glyphs))
    return lines


def wrapped(text: str, width: int, tone: Tone | None, glyphs: Glyphs) -> Iterator[Spans]:
    """A text of any length in lines of this width."""
    for line in text.splitlines() or [""]:
        for piece in chopped(clean(glyphs.text(line)), width):
            yield (Span(piece, tone),)


def chopped(text: str, width: int) -> Sequence[str]:
    """A clean line in pieces that each fit; at least one piece."""
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), max(width, 1))] or [""]
    return chop_cells(text, max(width, 2)) or [""]
