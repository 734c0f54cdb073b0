"""The layout of a document: positions of its lines, movement of the cursor, and drawing of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from horsies_tui.look.lines import Piece, filled, span_pieces, words
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Band

if TYPE_CHECKING:
    import re
    from collections.abc import Hashable, Iterable, Iterator

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line as Pieces
    from horsies_tui.story.lines import Document, Line, Section


MARGIN = 1
"""Width of the margin before each column, in which the cursor is drawn."""
SIDE_BY_SIDE: Final = 110
"""Least width for two columns: half of less is too narrow for a traceback or a path."""
BETWEEN: Final = 2


def widths(width: int) -> tuple[int, ...]:
    """Return the widths of the columns of a band with two sections."""
    if width < SIDE_BY_SIDE:
        return (width,)
    left = (width - BETWEEN) // 2
    return (left, width - BETWEEN - left)


def side_by_side(sections: tuple[Section, ...], columns: tuple[int, ...]) -> Iterator[Band]:
    """Yield one band of two columns, or a band for each section."""
    if len(columns) > 1:
        yield Band(sections)
    else:
        yield from (Band((section,)) for section in sections)


class Place(NamedTuple):
    """The identity of a line, which stays valid when other lines are added or removed."""

    section: str
    line: Hashable


class Placed(NamedTuple):
    """A line and its column. `line` is None for the section's title."""

    x: int
    width: int
    section: Section
    line: Line | None

    @property
    def place(self) -> Place:
        return Place(self.section.key, None if self.line is None else self.line.key)


@dataclass(frozen=True, slots=True)
class PageSpot:
    """The position on the page of a place."""

    y: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class StoryPage:
    """All rows of a document at one width. It is rebuilt for each change, without copying the lines."""

    rows: tuple[tuple[Placed, ...], ...] = ()
    spots: dict[Place, PageSpot] = field(default_factory=dict)

    def spot(self, place: Place | None) -> PageSpot | None:
        """Return the position of the place; if it is gone, of the first line of its section, or of the page."""
        if place is not None and place in self.spots:
            return self.spots[place]
        return next(
            (spot for known, spot in self.spots.items() if place and known.section == place.section), self.first
        )

    @property
    def first(self) -> PageSpot | None:
        return next(iter(self.spots.values()), None)

    def near(self, y: int, x: int, step: int) -> PageSpot | None:
        """Return the first line from `y` on in the direction of `step`, in the column that contains `x`."""
        while 0 <= y < len(self.rows):
            for placed in self.rows[y]:
                if placed.line is not None and placed.x <= x < placed.x + placed.width:
                    return PageSpot(y, placed)
            y += step
        return None

    def beside(self, spot: PageSpot, step: int) -> PageSpot | None:
        """Return the line in the column to the right (-1: left) at the same height or above."""
        columns = sorted({placed.x for placed in self.rows[spot.y]} | {spot.placed.x})
        index = columns.index(spot.placed.x) + step
        if not 0 <= index < len(columns):
            return None
        return self.near(spot.y, columns[index], -1)

    def part(self, spot: PageSpot, step: int) -> PageSpot | None:
        """Return the first line of the next (-1: previous) section."""
        keys = list(dict.fromkeys(place.section for place in self.spots))
        index = keys.index(spot.placed.section.key) + step
        if not 0 <= index < len(keys):
            return None
        return next(known for place, known in self.spots.items() if place.section == keys[index])


def lay_out(document: Document, width: int) -> StoryPage:
    """Lay out a document. `width` is that of the whole page, including the margins."""
    rows: list[tuple[Placed, ...]] = []
    for band in document:
        columns = list(_columns(band.sections, width))
        height = max(len(section.lines) for _, _, section in columns)
        rows.append(tuple(Placed(x, room, section, None) for x, room, section in columns))
        for at in range(height):
            beside = [(x, room, section) for x, room, section in columns if at < len(section.lines)]
            rows.append(tuple(Placed(x, room, section, section.lines[at]) for x, room, section in beside))
    return StoryPage(tuple(rows), _spots(rows))


def text_width(width: int) -> int:
    """Return the width for which a document must be made."""
    return max(width - MARGIN, 1)


def _columns(sections: tuple[Section, ...], width: int) -> Iterator[tuple[int, int, Section]]:
    if len(sections) == 1:
        yield 0, width, sections[0]
        return
    assert text_width(width) >= SIDE_BY_SIDE
    x = 0
    for room, section in zip(widths(text_width(width)), sections, strict=True):
        yield x, room + MARGIN, section
        x += room + BETWEEN


def _spots(rows: Iterable[tuple[Placed, ...]]) -> dict[Place, PageSpot]:
    """Return the spots in reading order: a whole section before the section to its right."""
    by_section: dict[str, dict[Place, PageSpot]] = {}
    for y, row in enumerate(rows):
        for placed in row:
            found = by_section.setdefault(placed.section.key, {})
            if placed.line is not None:
                found[placed.place] = PageSpot(y, placed)
    return {place: spot for spots in by_section.values() for place, spot in spots.items()}


CURSOR: Final = "story--cursor"


def row_pieces(
    row: tuple[Placed, ...], cursor: Place | None, sought: re.Pattern[str] | None, width: int, glyphs: Glyphs
) -> Pieces:
    """Return one row of the page, which is `width` columns wide."""
    pieces: list[Piece] = []
    x = 0
    for placed in row:
        if placed.x > x:
            pieces.append(Piece(" " * (placed.x - x), placed.x - x))
        pieces += _placed(placed, placed.place == cursor, sought, glyphs)
        x = placed.x + placed.width
    return filled(pieces, width)


def _placed(placed: Placed, under_cursor: bool, sought: re.Pattern[str] | None, glyphs: Glyphs) -> Iterator[Piece]:
    if placed.line is None:
        yield Piece(" " * MARGIN, MARGIN)
        yield from _title(placed.section, placed.width - MARGIN, glyphs)
        return
    over = (CURSOR,) if under_cursor else ()
    yield Piece(glyphs.cursor if under_cursor else " ", MARGIN, (Tone.ACCENT, *over))
    yield from span_pieces(placed.line.spans, placed.width - MARGIN, glyphs, over, sought)


def _title(section: Section, width: int, glyphs: Glyphs) -> Iterator[Piece]:
    """Yield the title line: `── timeline ─────────── attempt 2, runner web-1 ──`."""
    title = words(f" {section.title} ", Tone.STRONG, glyphs)
    more = words(f" {section.more} " if section.more else "", Tone.MUTED, glyphs)
    room = width - 2 - cell_len(title.text) - (cell_len(more.text) + 2 if section.more else 0)
    if room < 0:
        more, room = more._replace(text=""), max(width - 2 - cell_len(title.text), 0)
    rule = words(glyphs.rule * 2, Tone.MUTED, glyphs)
    line = (rule, title, rule._replace(text=glyphs.rule * room), more, *([rule] if more.text else []))
    yield from span_pieces(line, width, glyphs)
