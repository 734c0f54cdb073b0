"""The search in a story, which covers its lines, and in the payload also folded parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from horsies_tui.look.units import number
from horsies_tui.story.tree import Found, find

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from horsies_tui.story.lines import Document
    from horsies_tui.story.payload import Payload


class Hit(NamedTuple):
    """A match. `line` is the key of a line, or a match in a tree, whose parts are then unfolded."""

    section: str
    line: Hashable | Found


class TextSearch:
    """The searched text, its matches, and the current match."""

    def __init__(self) -> None:
        self.needle = ""
        self._hits: list[Hit] = []
        self._at = 0

    def begin(self, needle: str) -> None:
        self.needle, self._hits, self._at = needle, [], -1

    def forget(self) -> None:
        """Drop the matches before another search for the same text."""
        self._hits = []

    def take(self, found: Iterable[Hit]) -> None:
        """Set the matches; the number of the current one stays the same."""
        self._hits = list(found)
        self._at = min(self._at, len(self._hits) - 1)

    def step(self, step: int) -> Hit | None:
        """Return the next match (-1: previous), wrapping around."""
        if not self._hits:
            return None
        self._at = (self._at + step) % len(self._hits)
        return self._hits[self._at]

    @property
    def is_new(self) -> bool:
        """True if no match has been visited yet."""
        return self._at < 0

    @property
    def pattern(self) -> re.Pattern[str] | None:
        return pattern(self.needle) if self.needle else None

    @property
    def words(self) -> str:
        if not self.needle:
            return ""
        if not self._hits:
            return f"{self.needle} not found"
        return f"{self.needle}: {number(self._at + 1)} of {number(len(self._hits))}"


def pattern(needle: str) -> re.Pattern[str]:
    """Return a pattern that matches the text literally, ignoring case."""
    return re.compile(re.escape(needle), re.IGNORECASE)


def find_in_payload(payload: Payload, needle: str) -> dict[str, list[Found]]:
    """Return the matches by section; may run in a thread."""
    return {part.tree.section: find(part.tree.value, needle) for part in payload.parts()}


def hits(document: Document, found: Mapping[str, Sequence[Found]], needle: str) -> Iterator[Hit]:
    """Yield all matches from top to bottom. If sections are side by side, the left one is first."""
    sought = pattern(needle)
    for band in document:
        for section in band.sections:
            if section.key in found:
                yield from (Hit(section.key, each) for each in found[section.key])
            else:
                yield from (Hit(section.key, line.key) for line in section.lines if sought.search(line.text))
