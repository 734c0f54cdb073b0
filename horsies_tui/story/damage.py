"""The section of a story that lists what is damaged in its row, each with what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.damage import damaged_words
from horsies_tui.look.lines import cut_spans, words
from horsies_tui.look.tones import Tone
from horsies_tui.story.lines import Band, Line, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies_tui.look.glyphs import Glyphs

_MOST: Final = 20


def damage(record: object, width: int, glyphs: Glyphs) -> Iterator[Band]:
    """Yield a section with the damaged fields, what is stored in each and what is shown for it; or nothing."""
    found = damaged_words(record)
    if found:
        lines = [_line(name, stored, width, glyphs) for name, stored in [*found.items()][:_MOST]]
        yield Band((Section("damaged", f"damaged {len(found)}", tuple(lines), more="as stored"),))


def _line(name: str, stored: str, width: int, glyphs: Glyphs) -> Line:
    label = words(f"{name}  ", Tone.MUTED, glyphs)
    return Line(name, cut_spans((label, words(stored, Tone.BAD, glyphs)), width, glyphs))
