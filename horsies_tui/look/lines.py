"""The console's text: lines of comparable pieces, so that unchanged ones are not sent again."""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rich.cells import cell_len, chop_cells

from horsies.domain.plain_text import clean
from horsies_tui.look.cells import GAP, GUTTER
from horsies_tui.look.glyphs import cut, cut_start, fit
from horsies_tui.look.tones import TONES, Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from horsies_tui.look.cells import Cell, Look, PlacedColumn, RowT
    from horsies_tui.look.glyphs import Glyphs

TITLE: Final = "row-table--title"
SORTED: Final = "row-table--sorted"
CURSOR: Final = "row-table--cursor"
STRUCK: Final = "row-table--struck"
FOUND: Final = "story--found"

DAMAGE_SIGN: Final = "!"
"""Sign before a row with a value that cannot be right."""

_EVEN: Final = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")
"""ASCII, rules, blocks and braille dots: characters that are one cell wide on every terminal."""
_WORDS: Final = re.compile(r"\S+|\s+")
_APART: Final = 8
"""Distance of two differing parts of a line from which on sending each alone is shorter."""


class Piece(NamedTuple):
    """Text of a known width with the component classes that style it; later ones take precedence."""

    text: str
    width: int
    classes: tuple[str, ...] = ()


Line: TypeAlias = tuple[Piece, ...]


def piece(text: str, *classes: str) -> Piece:
    """Return a piece as wide as its clean text."""
    return Piece(text, cell_len(text), classes)


def filled(pieces: Iterable[Piece], width: int, *classes: str) -> Line:
    """Return a line of these pieces, padded with blanks."""
    line = tuple(pieces)
    room = width - sum(piece.width for piece in line)
    return (*line, Piece(" " * room, room, classes)) if room > 0 else line


class Span(NamedTuple):
    """Clean text in one tone; None is the normal colour."""

    text: str
    tone: Tone | None = None


Spans: TypeAlias = tuple[Span, ...]


def beside(parts: Iterable[Sequence[Line]], width: int, gap: int = 2) -> list[Line]:
    """Join parts of equal height side by side."""
    between = Piece(" " * gap, gap)
    rows = zip(*parts, strict=True)
    return [
        filled((piece for number, part in enumerate(row) for piece in ((between, *part) if number else part)), width)
        for row in rows
    ]


def row_line(
    row: RowT,
    columns: Sequence[PlacedColumn[RowT]],
    look: Look,
    width: int,
    *,
    cursor: bool,
    marked: bool,
    struck: bool,
    recedes: bool = False,
) -> Line:
    """Return a row, `width` cells wide; a receding one is grey."""
    cells = [placed.column.drawn(row, look) for placed in columns]
    state = RowState(cursor, marked, struck, recedes)
    return cells_line(cells, columns, look.glyphs, width, state)


class RowState(NamedTuple):
    """The style of a row besides its cells."""

    cursor: bool
    marked: bool
    struck: bool
    recedes: bool
    damaged: bool = False


def cells_line(
    cells: Iterable[Cell], columns: Sequence[PlacedColumn[RowT]], glyphs: Glyphs, width: int, state: RowState
) -> Line:
    """Return the row with these cells."""
    cursor, marked, struck, recedes, damaged = state
    here = (CURSOR,) if cursor else ()
    over = ((STRUCK,) if struck else ()) + here
    signs = (glyphs.cursor if cursor else " ") + (glyphs.mark if marked else " ")
    room = GUTTER - len(DAMAGE_SIGN) if damaged else GUTTER
    pieces = [Piece(signs.ljust(room), room, (Tone.ACCENT, *here))]
    if damaged:
        pieces.append(Piece(DAMAGE_SIGN, len(DAMAGE_SIGN), (Tone.BAD, *here)))
    for placed, cell in zip(columns, cells, strict=True):
        text = _cell_text(cell, placed, glyphs)
        tone = Tone.MUTED if recedes else cell.tone
        if cell.tones and not recedes:
            pieces += _strip(placed, text, cell.tones, width, over)
        else:
            pieces.append(_piece(placed, text, width, (tone, *over) if tone else over))
    line = filled(pieces, width, *over)
    return tuple(piece for whole in line for piece in _stroke(whole)) if struck else line


def title_line(
    columns: Sequence[PlacedColumn[RowT]], glyphs: Glyphs, width: int, at_end: str = "", *, sorted_by: str = ""
) -> Line:
    """Return the line above the rows.

    `at_end` is written at its end if the titles leave room, if necessary without its blanks. `sorted_by` is the key of
    the sorted column.
    """
    pieces = [Piece(" " * GUTTER, GUTTER, (TITLE,))]
    for placed in columns:
        column = placed.column
        title = column.brief if column.brief and cell_len(column.title) > placed.width else column.title
        text = fit(glyphs.text(title), placed.width, glyphs, right=column.right)
        pieces.append(_piece(placed, text, width, (TITLE, SORTED) if column.key == sorted_by else (TITLE,)))
    line = filled(pieces, width, TITLE)
    said = sum(piece.width for piece in line) - len(line[-1].text) + len(line[-1].text.rstrip())
    for words in (at_end, at_end.replace(" ", "")):
        if words and line[-1].width > cell_len(words) and said + 2 + cell_len(words) < width:
            room = line[-1].width - cell_len(words) - 1
            return (*line[:-1], line[-1]._replace(text=line[-1].text[:room], width=room), piece(f"{words} ", TITLE))
    return line


def words_line(words: str, glyphs: Glyphs, width: int) -> Line:
    """Return a text in place of rows."""
    return (Piece(fit(" " * GUTTER + clean(glyphs.text(words)), width, glyphs), width, (Tone.MUTED,)),)


def damaged_lines(words: str, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Return a block of this size for a part that could not be drawn."""
    line = filled((piece(cut(glyphs.text(words), width, glyphs), Tone.BAD),), width)
    return [line, *[blank_line(width)] * (height - 1)][:height]


def blank_line(width: int) -> Line:
    return (Piece(" " * width, width),)


def changed_spans(before: Line, after: Line) -> Iterator[tuple[int, int]]:
    """Return the differing parts of two lines of the same width, as x and width; adjacent ones are joined."""
    if [piece.width for piece in before] != [piece.width for piece in after]:
        yield from _changed_as_a_whole(before, after)
        return
    x = start = end = 0
    for old, new in zip(before, after, strict=True):
        if old != new:
            first, last = _changed_places(old, new)
            if x + first > end:
                if start < end:
                    yield start, end - start
                start = x + first
            end = x + last
        x += new.width
    if start < end:
        yield start, end - start


def _changed_as_a_whole(before: Line, after: Line) -> Iterator[tuple[int, int]]:
    """Return the differing parts of lines with different pieces, for example of a chart that has moved on."""
    old, new = ([(char, piece.classes) for piece in line for char in piece.text] for line in (before, after))
    places = [x for x, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
    if len(old) != len(new) or not places or not all(_EVEN.fullmatch(piece.text) for piece in (*before, *after)):
        yield 0, sum(piece.width for piece in after)
        return
    first = places[0]
    for here, following in pairwise((*places, len(new) + _APART)):
        if following - here > _APART:
            yield first, here + 1 - first
            first = following


def _changed_places(old: Piece, new: Piece) -> tuple[int, int]:
    """Return the differing cells of two pieces: of a ticking age, its last digit. Blanks look the same in all tones."""
    if old.classes != new.classes:
        texts = [piece.text.rstrip() for piece in (old, new) if _EVEN.fullmatch(piece.text)]
        alike = len(texts) == 2 and TONES.issuperset((*old.classes, *new.classes))
        return 0, max(map(len, texts)) if alike else new.width
    return changed_part(old.text, new.text) or (0, new.width)


def changed_part(old: str, new: str) -> tuple[int, int] | None:
    """Return the differing cells of two texts of one length; None if any character is not exactly one cell wide."""
    if len(old) != len(new) or not (_EVEN.fullmatch(old) and _EVEN.fullmatch(new)):
        return None
    first = next((at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other), 0)
    last = next((at for at in range(len(new), first, -1) if old[at - 1] != new[at - 1]), first)
    return first, last


def _cell_text(cell: Cell, placed: PlacedColumn[RowT], glyphs: Glyphs) -> str:
    width = placed.width
    text: str = clean(glyphs.text(cell.text))
    if cell_len(text) > width:
        if placed.column.keep_end:
            text = cut_start(text, width, glyphs)
        elif cell.brief is not None:
            text = clean(glyphs.text(cell.brief))
    return fit(text, width, glyphs, right=placed.column.right)


def _piece(placed: PlacedColumn[RowT], text: str, width: int, classes: tuple[str, ...]) -> Piece:
    """Return a piece with the gap after it: pieces of one style are sent together."""
    gap = min(GAP, width - placed.x - placed.width)
    return Piece(text + " " * gap, placed.width + gap, classes)


def _strip(
    placed: PlacedColumn[RowT], text: str, tones: Sequence[Tone | None], width: int, over: tuple[str, ...]
) -> Iterator[Piece]:
    """Return a piece for each cell, including blanks, so that only a changed sign is sent."""
    for left, char in zip(range(len(text), 0, -1), text, strict=True):
        tone = tones[-left] if left <= len(tones) else None
        yield Piece(char, 1, (tone, *over) if tone else over)
    gap = min(GAP, width - placed.x - placed.width)
    yield Piece(" " * gap, gap, over)


def _stroke(piece: Piece) -> Iterator[Piece]:
    """Strike through words only; through blanks it would be a rule across the screen."""
    plain = tuple(name for name in piece.classes if name != STRUCK)
    words = piece.text.strip()
    before = len(piece.text) - len(piece.text.lstrip()) if words else piece.width
    after = len(piece.text) - before - len(words) if words else 0
    if before:
        yield Piece(" " * before, before, plain)
    if words:
        yield Piece(words, piece.width - before - after, piece.classes)
    if after:
        yield Piece(" " * after, after, plain)


# Texts in several tones: they are cut and wrapped as a whole, and become pieces when they are drawn.


def words(text: str, tone: Tone | None, glyphs: Glyphs) -> Span:
    """Return any text without control characters, and in ASCII if only that can be shown."""
    return Span(clean(glyphs.text(text)), tone)


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_len(span.text) for span in spans)


def cut_spans(spans: Spans, width: int, glyphs: Glyphs) -> Spans:
    """Cut the spans to fit this width, with an ellipsis if something is cut."""
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


def wrap_spans(spans: Iterable[Span], width: int) -> list[Spans]:
    """Wrap clean text at this width, between words, and inside a word that is longer than a line."""
    width = max(width, 2)
    lines: list[list[Span]] = [[]]
    room = width
    for span in spans:
        for word in _WORDS.findall(span.text):
            breaks = room < width and cell_len(word) > room
            parts = [""] if breaks and word.isspace() else chopped(word, width)
            for number, part in enumerate(parts):
                if number or breaks:
                    lines.append([])
                    room = width
                    breaks = False
                lines[-1].append(Span(part, span.tone))
                room -= cell_len(part)
    return [_joined(line) for line in lines]


def _joined(line: Sequence[Span]) -> Spans:
    """Merge neighbours of one tone into one span."""
    runs = groupby(line, key=lambda span: span.tone)
    return tuple(Span("".join(span.text for span in run), tone) for tone, run in runs)


def flow(items: Iterable[Spans], width: int, glyphs: Glyphs, *, gap: int = 3) -> list[Spans]:
    """Return items side by side on as few lines as possible; an item wider than a line is wrapped."""
    lines: list[Spans] = []
    for item in items:
        if lines and width_of(lines[-1]) + gap + width_of(item) <= width:
            lines[-1] = (*lines[-1], Span(" " * gap), *item)
        else:
            lines += [item] if width_of(item) <= width else wrap_spans(item, width)
    return lines


def wrapped(text: str, width: int, tone: Tone | None, glyphs: Glyphs) -> Iterator[Spans]:
    """Return a text of any length as lines of this width."""
    for line in text.splitlines() or [""]:
        yield from wrap_spans((words(line, tone, glyphs),), width)


def chopped(text: str, width: int) -> Sequence[str]:
    """Split a clean line into pieces that fit; at least one piece."""
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), max(width, 1))] or [""]
    return chop_cells(text, max(width, 2)) or [text]  # none for a text that takes no place


def span_pieces(
    spans: Spans, width: int, glyphs: Glyphs, over: tuple[str, ...] = (), sought: re.Pattern[str] | None = None
) -> Iterator[Piece]:
    """Return pieces of exactly `width` cells; matches are highlighted, also across pieces."""
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
            yield piece(text[begin:end], *tones, *((FOUND,) if found else ()))
        at += len(span.text)
    left = width - width_of(spans)
    if left > 0:
        yield Piece(" " * left, left, over)
