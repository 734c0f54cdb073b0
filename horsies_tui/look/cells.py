"""The columns of a list: how each makes a cell of a row, and which of them are shown at which width."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from horsies.config.recovery import RecoveryConfig
from horsies_tui.look.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from horsies_tui.look.tones import Tone

REST: Final = 0
"""As a width: what the other columns leave. Only the last column of a layout may use it."""
GAP: Final = 1
"""Between two columns; a layout that needs more adds it to the width of the left one."""
GUTTER: Final = 3
"""Before the first column: cursor, mark, blank."""


class HasId(Protocol):
    """A row of a list. Cursor and marks refer to its id."""

    @property
    def id(self) -> str: ...


RowT = TypeVar("RowT", bound=HasId)


@dataclass(frozen=True, slots=True)
class Look:
    """What cells depend on besides their row."""

    now: datetime
    """The database's time."""
    glyphs: Glyphs = UNICODE
    recovery: RecoveryConfig = field(default_factory=RecoveryConfig)
    """The thresholds from which on a heartbeat is late."""


@dataclass(frozen=True, slots=True)
class Cell:
    """`tone` None is the normal colour. If the text does not fit, `brief` is shown in place of a cut text."""

    text: str
    tone: Tone | None = None
    brief: str | None = None


EMPTY: Final = Cell("")


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """`brief` is the title if the column is narrower than `title`. Numbers are right-aligned."""

    key: str
    title: str
    cell: Callable[[RowT, Look], Cell]
    right: bool = False
    brief: str | None = None


@dataclass(frozen=True, slots=True)
class Placed(Generic[RowT]):
    """A column at its place on the line."""

    column: Column[RowT]
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class ColumnSet(Generic[RowT]):
    """Columns, and for each breakpoint their order and widths.

    `layouts`: from this table width on, column key → width. Widths depend on nothing else, so that nothing moves when
    rows change.
    """

    columns: tuple[Column[RowT], ...]
    layouts: Mapping[int, Mapping[str, int]]
    hidden: frozenset[str] = frozenset()
    """Keys that the operator has hidden; the last column gets their room."""

    def without(self, hidden: frozenset[str]) -> ColumnSet[RowT]:
        return replace(self, hidden=hidden)

    def keys_at(self, width: int) -> tuple[str, ...]:
        """The columns that an operator may choose from at this table width."""
        return tuple(self._layout(width))

    def place(self, width: int) -> tuple[Placed[RowT], ...]:
        """The columns at this table width. What exceeds it is cut or left out."""
        by_key = {column.key: column for column in self.columns}
        placed: list[Placed[RowT]] = []
        x = GUTTER
        for key, wanted in self._layout(width).items():
            room = width - x
            if room <= 0:
                break
            if key not in self.hidden:
                placed.append(Placed(by_key[key], x, min(wanted or room, room)))
                x += wanted + GAP
        return tuple(placed)

    def _layout(self, width: int) -> Mapping[str, int]:
        """The widest layout that fits, or the narrowest one."""
        fitting = [least for least in self.layouts if least <= width]
        return self.layouts[max(fitting) if fitting else min(self.layouts)]
