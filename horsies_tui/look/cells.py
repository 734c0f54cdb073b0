"""The columns of a list: how each formats a cell of a row, and how they divide the width of the table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from rich.cells import cell_len

from horsies.domain.plain_text import clean
from horsies_tui.look.damage import report
from horsies_tui.look.glyphs import UNICODE, Glyphs
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.views import Usual

GAP: Final = 1
"""Blanks between two columns."""
GUTTER: Final = 3
"""Width before the first column, for cursor, mark and a blank."""
ID_WIDTH: Final = 36
SHORT_ID: Final = 9
"""Width of a short id: an ellipsis and its last eight characters. The first ones are the time, alike within a minute.
"""


class HasId(Protocol):
    """A row of a list. The cursor and the marks refer to its id."""

    @property
    def id(self) -> str: ...


RowT = TypeVar("RowT", bound=HasId)


@dataclass(frozen=True, slots=True)
class Look:
    """The context of a cell besides its row."""

    now: datetime
    """The database's time."""
    glyphs: Glyphs = UNICODE
    recovery: RecoveryConfig | None = None
    """Thresholds above which a heartbeat is late; None for the defaults."""
    usual: Mapping[str, Usual] = field(default_factory=dict)
    """Usual run times by task name."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of one cell. A `tone` of None is the normal colour. `brief` replaces a text that does not fit."""

    text: str
    tone: Tone | None = None
    brief: str | None = None
    tones: tuple[Tone | None, ...] = ()
    """Tones of the last characters, one each, for a bar or a strip of signs; each character is one cell wide."""


EMPTY: Final = Cell("")
DAMAGED: Final = Cell("damaged", Tone.BAD, "!")
"""Replacement for a cell that cannot be drawn."""


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """A column, and the rule for its width.

    A column with `grow` 0 has one of three widths: `least`, `ideal` if there is room, `whole` if no other column needs
    it. One with `grow` takes what its longest text needs, down to `least`; if the texts need more than there is, they
    share it by `grow`. `ideal` is then what it may count on before a column of a later `priority` is shown.
    """

    key: str
    title: str
    cell: Callable[[RowT, Look], Cell]
    least: int = 1
    ideal: int = 0
    """The ideal width; 0 means `least`."""
    grow: int = 0
    whole: int = 0
    priority: int = 0
    """Order in which columns appear as the table grows; 0 means always. A column appears only if all before it have
    their ideal width.
    """
    right: bool = False
    """True for numbers, which are right-aligned."""
    brief: str | None = None
    """Title for a column that is narrower than `title`."""
    keep_end: bool = False
    """True to cut a text at its beginning: ids and names of pods differ at their ends."""

    @property
    def usual(self) -> int:
        return max(self.ideal, self.least)

    def drawn(self, row: RowT, look: Look, kind: str = "") -> Cell:
        """Return the cell of this row. `kind` is the kind of the rows, for the report of a damaged one."""
        try:
            cell = self.cell(row, look)
            if not isinstance(cell.text, str):
                raise TypeError(f"the text of a cell is {type(cell.text).__name__}")
            return cell
        except Exception as error:  # noqa: BLE001 - see look/damage.py; a call of `drawn` there takes too long for cells
            report(self.title or self.key, error, kind, row.id)
            return DAMAGED

    def need(self, row: RowT, look: Look, kind: str = "") -> int:
        """Return the width of this row's text."""
        text = self.drawn(row, look, kind).text
        return len(text) if text.isascii() else cell_len(clean(look.glyphs.text(text)))


@dataclass(frozen=True, slots=True)
class PlacedColumn(Generic[RowT]):
    """A column with its position and width."""

    column: Column[RowT]
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class ColumnSet(Generic[RowT]):
    """The columns of a list in their order. The table's width alone decides which of them are shown."""

    columns: tuple[Column[RowT], ...]
    recedes: Callable[[RowT], bool] | None = None
    """Returns whether a row is drawn in grey, so that the others stand out."""
    hidden: frozenset[str] = frozenset()
    """Keys of columns that the operator has hidden. The other columns share their width; no further column appears."""
    kind: str = ""
    """The kind of the rows as operators call it, like `task`, for the report of a damaged one."""

    def without(self, hidden: frozenset[str]) -> ColumnSet[RowT]:
        return replace(self, hidden=hidden)

    def keys_at(self, width: int) -> tuple[str, ...]:
        """Return the columns that an operator can choose from at this table width."""
        return tuple(column.key for column in self._shown_at(width))

    def cells(self, row: RowT, columns: Iterable[PlacedColumn[RowT]], look: Look) -> list[Cell]:
        """Return the cells of this row in these columns."""
        return [placed.column.drawn(row, look, self.kind) for placed in columns]

    def measure(self, rows: Iterable[RowT], look: Look) -> dict[str, int]:
        """Return the width that the texts of these rows need, by the key of the column."""
        texts = [column for column in self.columns if column.grow]
        needs = {column.key: cell_len(column.title) for column in texts}
        for row in rows:
            for column in texts:
                needs[column.key] = max(needs[column.key], column.need(row, look, self.kind))
        return needs

    def place(self, width: int, needs: Mapping[str, int] | None = None) -> tuple[PlacedColumn[RowT], ...]:
        """Return the columns at this table width, for texts of these widths. Longer texts are cut."""
        shown = [column for column in self._shown_at(width) if column.key not in self.hidden]
        placed: list[PlacedColumn[RowT]] = []
        x = GUTTER
        for column, wanted in zip(shown, _widths(shown, _room(width, len(shown)), needs or {}), strict=True):
            if x >= width:
                break
            placed.append(PlacedColumn(column, x, min(wanted, width - x)))
            x += wanted + GAP
        return tuple(placed)

    def _shown_at(self, width: int) -> list[Column[RowT]]:
        shown = [column for column in self.columns if not column.priority]
        for column in sorted((column for column in self.columns if column.priority), key=lambda each: each.priority):
            if sum(each.usual for each in (*shown, column)) > _room(width, len(shown) + 1):
                break
            shown.append(column)
        return [column for column in self.columns if column in shown]


def _room(width: int, columns: int) -> int:
    """Return the width that a line leaves for so many columns."""
    return width - GUTTER - GAP * (columns - 1)


def _widths(columns: Sequence[Column[RowT]], room: int, needs: Mapping[str, int]) -> list[int]:
    """Return the width of each column. If their least widths fit, the sum is at most `room`."""
    widths = [column.least for column in columns]
    need = [max(needs.get(column.key, column.usual), column.least) for column in columns]
    _share(columns, widths, [min(column.usual, wanted) for column, wanted in zip(columns, need, strict=True)], room)
    _raise(columns, widths, [0 if column.grow else column.usual for column in columns], room)
    _share(columns, widths, need, room)
    _raise(columns, widths, [column.whole for column in columns], room)
    if columns and columns[-1].grow:
        widths[-1] += max(room - sum(widths), 0)
    return widths


def _raise(columns: Sequence[Column[RowT]], widths: list[int], wanted: Sequence[int], room: int) -> None:
    """Give columns the wanted width, from the left, ids last: either the whole difference or nothing."""
    for at in sorted(range(len(columns)), key=lambda at: columns[at].keep_end):
        if sum(widths) - widths[at] + wanted[at] <= room:
            widths[at] = max(widths[at], wanted[at])


def _share(columns: Sequence[Column[RowT]], widths: list[int], wanted: Sequence[int], room: int) -> None:
    """Grow the columns to the wanted widths; if there is not enough room, each in proportion."""
    while (left := room - sum(widths)) > 0:
        short = [at for at, column in enumerate(columns) if column.grow and widths[at] < wanted[at]]
        if not short:
            break
        parts = sum(columns[at].grow for at in short)
        for at in short:
            given = max(left * columns[at].grow // parts, 1)
            widths[at] += min(given, wanted[at] - widths[at], room - sum(widths))
