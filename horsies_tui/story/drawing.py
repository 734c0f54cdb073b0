"""Draws rows of a page as pieces that can be compared: cursor, section titles, search matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies_tui.look.lines import Piece, filled, span_pieces, words
from horsies_tui.look.tones import Tone
from horsies_tui.story.page import MARGIN

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line as Pieces
    from horsies_tui.story.lines import Section
    from horsies_tui.story.page import Place, Placed

CURSOR: Final = "story--cursor"


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
    """`── timeline ─────────── attempt 2, runner web-1 ──`"""
    title = words(f" {section.title} ", Tone.STRONG, glyphs)
    more = words(f" {section.more} " if section.more else "", Tone.MUTED, glyphs)
    room = width - 2 - cell_len(title.text) - (cell_len(more.text) + 2 if section.more else 0)
    if room < 0:
        more, room = more._replace(text=""), max(width - 2 - cell_len(title.text), 0)
    rule = words(glyphs.rule * 2, Tone.MUTED, glyphs)
    line = (rule, title, rule._replace(text=glyphs.rule * room), more, *([rule] if more.text else []))
    yield from span_pieces(line, width, glyphs)
