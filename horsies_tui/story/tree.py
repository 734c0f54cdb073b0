"""JSON as a tree of lines that fold. Only unfolded parts are laid out, even if the value is large."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from rich.cells import cell_len

from horsies.domain.plain_text import clean
from horsies_tui.look.lines import Span, cut_spans
from horsies_tui.look.tones import Tone
from horsies_tui.story.frames import Frame, LibraryFrames, Outside, Traceback
from horsies_tui.story.lines import Fold, Line
from horsies_tui.story.parts import (
    CHUNK,
    WIDEST_LABEL,
    Chunk,
    Raw,
    StoryPart,
    behind,
    behind_open,
    folds,
    parts_of,
    scalar,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies_tui.look.glyphs import Glyphs

Path: TypeAlias = tuple[int, ...]

_LINES_AT_FIRST: Final = 24
"""Most lines of parts that are unfolded at first, so that the following sections stay on the screen."""
_MOST_TEXT_LINES: Final = 6
"""Most lines of a text that is unfolded at first, such as an error message."""
_USUAL_WIDTH: Final = 72
_SHORT: Final = 40
"""Length up to which a text never folds."""
_MOST_FOUND: Final = 10_000


class Found(NamedTuple):
    """A search match: the path of a value, and the position of the character if it is in a text."""

    path: Path
    at: int = 0


class Tree:
    """A value and its unfolded parts. The value never changes, so that a thread can search it."""

    def __init__(self, section: str, value: Any, *, folded: bool = False) -> None:
        self.section = section
        self.value = value
        self.open: set[Path] = set()
        self._lines: tuple[Line, ...] | None = None
        self._laid_out_for: tuple[int, Glyphs] | None = None
        self._parts: dict[Path, Sequence[StoryPart]] = {}
        if not folded:
            self._unfold_small()

    def lines(self, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
        """Return the lines, which are cached until a part is folded or unfolded or the width changes."""
        if self._laid_out_for != (width, glyphs):
            self._laid_out_for = (width, glyphs)
            self._parts.clear()
            self._lines = None
        if self._lines is None:
            self._lines = tuple(self._lay_out(width, glyphs))
        return self._lines

    def toggle(self, path: Path) -> None:
        self.open ^= {path}
        self._lines = None

    @property
    def has_code(self) -> bool:
        """True if the first level of parts shows source code."""
        return any(isinstance(part.value, Traceback) for part in parts_of(self.value, 0))

    @property
    def width(self) -> int:
        """Return the width of the last layout."""
        return 0 if self._laid_out_for is None else self._laid_out_for[0]

    def part(self, path: Path) -> StoryPart:
        """Return the part at this path. Long texts are split into lines of the width."""
        part = StoryPart(None, self.value)
        for depth, index in enumerate(path):
            part = parts_of(part.value, self.width - 2 * depth)[index]
        return part

    def reveal(self, found: Found) -> Path:
        """Unfold the parts around a match, and return the path of its line."""
        path, at = found
        self.open |= {path[:depth] for depth in range(len(path))}
        self._lines = None
        value = self.part(path).value
        while folds(value, self.width - 2 * len(path)) and isinstance(value, str | Chunk):
            # Continue into the lines of a text, to the line of the matching character.
            pieces = parts_of(value, self.width - 2 * len(path))
            self.open.add(path)
            index, at = _piece_at(pieces, at)
            path, value = (*path, index), pieces[index].value
        return path

    def _unfold_small(self) -> None:
        """Unfold one level after the other, as long as the lines fit."""
        left = _LINES_AT_FIRST
        waiting: deque[tuple[Path, StoryPart]] = deque([((), StoryPart(None, self.value))])
        while waiting:
            path, part = waiting.popleft()
            if isinstance(part.value, str):
                left -= self._unfold_text(path, part.value, left)
                continue
            parts = () if isinstance(part.value, Chunk | LibraryFrames) else parts_of(part.value, 0)
            # Keyword arguments are always unfolded, because readers look for them first.
            most = CHUNK if len(path) == 1 and isinstance(part.value, dict) else left
            if not parts or len(parts) > most:
                continue
            self.open.add(path)
            left -= len(parts)
            waiting.extend(((*path, index), child) for index, child in enumerate(parts))

    def _unfold_text(self, path: Path, text: str, most: int) -> int:
        """Unfold a text that does not fit on its line but needs few lines, and return the number of these lines."""
        lines = sum(len(line) // _USUAL_WIDTH + 1 for line in text.splitlines())
        if isinstance(text, Raw | Outside) or len(text) <= _SHORT or lines > min(most, _MOST_TEXT_LINES):
            return 0
        self.open.add(path)
        return lines

    def _lay_out(self, width: int, glyphs: Glyphs) -> Iterator[Line]:
        root = self._inside((), self.value, width)
        if not root:
            yield Line((), cut_spans(tuple(behind(StoryPart(None, self.value), width, glyphs)), width, glyphs))
            return
        # Not recursive, because a search may unfold a thousand levels.
        waiting = [(path, part, _label_width(root)) for path, part in reversed(_numbered((), root))]
        while waiting:
            path, part, label_width = waiting.pop()
            yield self._line(path, part, label_width, width, glyphs)
            if path in self.open:
                inside = self._inside(path, part.value, width)
                waiting += [(child, each, _label_width(inside)) for child, each in reversed(_numbered(path, inside))]

    def _inside(self, path: Path, value: Any, width: int) -> Sequence[StoryPart]:
        """Return the parts of a value, cached because splitting a long list or text takes milliseconds."""
        if path not in self._parts:
            self._parts[path] = parts_of(value, width - 2 * len(path))
        return self._parts[path]

    def _line(self, path: Path, part: StoryPart, label_width: int, width: int, glyphs: Glyphs) -> Line:
        can_fold = folds(part.value, width - 2 * len(path))
        is_open = can_fold and path in self.open
        sign = f"{glyphs.unfolded if is_open else glyphs.folded} " if can_fold else "  "
        spans = [Span("  " * (len(path) - 1) + sign)]
        if part.label is not None:
            label = clean(glyphs.text(part.label))
            spans.append(Span(label + " " * max(label_width - cell_len(label) + 1, 1), Tone.MUTED))
        room = width - sum(cell_len(span.text) for span in spans)
        spans += behind_open(part, glyphs) if is_open else behind(part, room, glyphs)
        target = Fold(self.section, path) if can_fold else None
        return Line(path, cut_spans(tuple(spans), width, glyphs), target, is_open)


def find(value: Any, needle: str) -> list[Found]:
    """Return all labels and values that contain this text, in the order of the lines; may run in a thread."""
    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    found: list[Found] = []
    waiting: list[tuple[Path, StoryPart]] = [((), StoryPart(None, value))]
    while waiting and len(found) < _MOST_FOUND:
        path, part = waiting.pop()
        if isinstance(part.value, str):
            inside_text = [Found(path, match.start()) for match in pattern.finditer(part.value)]
            found += inside_text or [Found(path)] * bool(pattern.search(part.label or ""))
            continue
        inside = parts_of(part.value, 0)
        text = part.label or ""
        if not inside or isinstance(part.value, Frame | LibraryFrames):
            text = f"{text} {scalar(part.value)}"
        if not isinstance(part.value, Chunk) and pattern.search(text):
            found.append(Found(path))
        waiting += reversed(_numbered(path, inside))
    return found[:_MOST_FOUND]


def _numbered(path: Path, parts: Sequence[StoryPart]) -> list[tuple[Path, StoryPart]]:
    return [((*path, index), part) for index, part in enumerate(parts)]


def _piece_at(pieces: Sequence[StoryPart], at: int) -> tuple[int, int]:
    """Return the index of the piece that contains the `at`-th character of a text, and the index within that piece."""
    for index, part in enumerate(pieces):
        length = sum(map(len, part.value.values)) if isinstance(part.value, Chunk) else len(part.value)
        if at < length:
            return index, at
        at -= length
    return len(pieces) - 1, 0


def _label_width(parts: Sequence[StoryPart]) -> int:
    widest = max((cell_len(part.label) for part in parts[:CHUNK] if part.label is not None), default=0)
    return min(widest, WIDEST_LABEL)
