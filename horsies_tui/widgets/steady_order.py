"""Decides when rows of a list that the console sorts may change places: never while the operator works with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from horsies_tui.look.cells import RowT

_REST_S: Final = 2.0
"""How long after the last key rows may change places."""
_ORDER_EVERY_S: Final = 5.0
"""Least time between two sorts by a value that changes with each read."""


class SteadyOrder:
    """The order of a list. All times are those of one monotonic clock."""

    def __init__(self) -> None:
        self._sorted_at: float | None = None
        """Time of the last sort; None if the list must be sorted."""
        self._touched_at = 0.0

    def touch(self, moment: float) -> None:
        """Note that the operator has moved the cursor."""
        self._touched_at = moment

    def renew(self) -> None:
        """Sort on the next read, because the operator has chosen another order or filter."""
        self._sorted_at = None

    def arranged(
        self,
        rows: Iterable[RowT],
        before: Sequence[RowT],
        in_order: Callable[[Iterable[RowT]], tuple[RowT, ...]],
        moment: float,
        *,
        busy: bool,
        moves: bool,
    ) -> tuple[RowT, ...]:
        """Return the rows sorted, or in the order of those `before`.

        The list is `busy` if rows are marked or a sheet is open; it `moves` if its sort value changes with each read.
        """
        if self._keeps(moment, busy=busy, moves=moves):
            return _as_before(rows, [row.id for row in before], in_order)
        found = in_order(rows)
        if found:
            self._sorted_at = moment
        return found

    def _keeps(self, moment: float, *, busy: bool, moves: bool) -> bool:
        if self._sorted_at is None:
            return False
        at_rest = moment - self._touched_at >= _REST_S and not busy
        due = not moves or moment - self._sorted_at >= _ORDER_EVERY_S
        return not (at_rest and due)


def _as_before(
    rows: Iterable[RowT], before: Sequence[str], in_order: Callable[[Iterable[RowT]], tuple[RowT, ...]]
) -> tuple[RowT, ...]:
    """Return the rows in the order of the ids `before`, followed by the new ones, sorted."""
    places = {row_id: place for place, row_id in enumerate(before)}
    known: list[RowT] = []
    new: list[RowT] = []
    for row in rows:
        (known if row.id in places else new).append(row)
    return (*sorted(known, key=lambda row: places[row.id]), *in_order(new))
