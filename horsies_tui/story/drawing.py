"""Draws rows of a page as pieces that can be compared: cursor, section titles, search matches."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies_tui.look.lines import Piece
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import cut_spans, width_of, words
from horsies_tui.story.page import MARGIN

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line as Pieces
    from horsies_tui.story.lines import Section, Spans
    from horsies_tui.story.page import Place, Placed

CURSOR: Final = "story--cursor"
FOUND: Final = "story--found"


def row_pieces(
    row: tuple[Placed, ...], cursor: Place | None, sought: re.Pattern[str] | None, width: int, glyphs: Glyphs
) -> Pieces:
    """One row of the page, `width` places wide."""
    pieces: list[Piece] = []
    x = 0
    for placed in row:
        if placed.x > x:
            pieces.append(Piece(" " * (placed.x - x), placed.x - x))
        pieces += _placed(placed, placed.place == cursor, sought, glyphs)
        x = placed.x + placed.width
    if x < width:
        pieces.append(Piece(" " * (width - x), width - x))
    return tuple(pieces)


def span_pieces(
    spans: Spans, width: int, glyphs: Glyphs, over: tuple[str, ...] = (), sought: re.Pattern[str] | None = None
) -> Iterator[Piece]:
    """Exactly `width` places; matches are highlighted, also across pieces."""
    spans = cut_spans(spans, width, glyphs)
    text = "".join(span.text for span in spans)
    hits = [] if sought is None else [found.span() for found in sought.finditer(text) if found.group()]
    at = 0
    for span in spans:
        tones = (span.tone, *over) if span.tone else over
        bounds = {at, at + len(span.text)}
        bounds |= {bound for hit in hits for bound in hit if at < bound < at + len(span.text)}
        edges = sorted(bounds)
        for begin, end in pairwise(edges):
            found = any(first <= begin < last for first, last in hits)
            yield _piece(text[begin:end], (*tones, FOUND) if found else tones)
        at += len(span.text)
    left = width - width_of(spans)
    if left > 0:
        yield Piece(" " * left, left, over)


def _placed(placed: Placed, under_cursor: bool, sought: re.Pattern[str] | None, glyphs: Glyphs) -> Iterator[Piece]:
    if placed.line is None:
        yield Piece(" " * MARGIN, MARGIN)
        yield from _title(placed.section, placed.width - MARGIN, glyphs)
        return
    over = (CURSOR,) if under_cursor else ()
    yield Piece(glyphs.cursor if under_cursor else " ", MARGIN, (Tone.ACCENT, *over))
    yield from span_pieces(placed.line.spans, placed.width - MARGIN, glyphs, over, sought)


def _title(section: Section, width: int, glyphs: Glyphs) -> Iterator[Piece]:
    """`── timeline ─────────── attempt 2, runner web-1 ──`"""
    title = words(f" {section.title} ", Tone.STRONG, glyphs)
    more = words(f" {section.more} " if section.more else "", Tone.MUTED, glyphs)
    room = width - 2 - cell_len(title.text) - (cell_len(more.text) + 2 if section.more else 0)
    if room < 0:
        more, room = more._replace(text=""), max(width - 2 - cell_len(title.text), 0)
    rule = words(glyphs.rule * 2, Tone.MUTED, glyphs)
    line = (rule, title, rule._replace(text=glyphs.rule * room), more, *([rule] if more.text else []))
    yield from span_pieces(line, width, glyphs)


def _piece(text: str, classes: tuple[str, ...]) -> Piece:
    return Piece(text, cell_len(text), classes)
