"""Thin bars of several parts: how many places each part has, and its sign, which differs without colours, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from horsies_tui.look.glyphs import Glyphs

_SIGNS: Final = {
    Tone.COMPLETED: ("━", "="),
    Tone.FAILED: ("╳", "x"),
    Tone.CANCELLED: ("╌", "-"),
    Tone.RUNNING: ("┅", ">"),
    Tone.PENDING: ("─", "."),
}
"""In the order of the parts: what ended well, failed, was left out, runs, waits."""


def shares(counts: Sequence[int], places: int) -> list[int]:
    """Share the places among the counts: each that is not zero gets at least one, if there are enough."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    given = [max(count * places // total, min(count, 1)) for count in counts]
    for _ in range(sum(given), places):
        at = max(range(len(counts)), key=lambda each: counts[each] * places / total - given[each])
        given[at] += 1
    while sum(given) > places:
        at = max(range(len(counts)), key=lambda each: given[each])
        given[at] -= 1
    return given


def bar_parts(counts: Iterable[tuple[Tone, int]], places: int, glyphs: Glyphs) -> tuple[tuple[str, Tone], ...]:
    """The parts of the bar; without anything to show it looks as if all waited."""
    found = [*counts]
    given = shares([count for _, count in found], places)
    parts = [(tone, size) for (tone, _), size in zip(found, given, strict=True) if size]
    return tuple((_SIGNS[tone][glyphs.ascii] * size, tone) for tone, size in parts or [(Tone.PENDING, places)])
