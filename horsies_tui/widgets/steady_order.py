"""The times at which rows of a list sorted here may change places: never while an operator works with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from horsies_tui.look.cells import RowT

_REST_S: Final = 2.0
"""How long the operator must not have pressed a key before rows may change their places."""
_ORDER_EVERY_S: Final = 5.0
"""Values that change with each read are sorted no more often than this."""


class SteadyOrder:
    """Times are those of one monotonic clock."""

    def __init__(self) -> None:
        self._sorted_at: float | None = None
        """None: the list must be sorted."""
        self._touched_at = 0.0

    def touch(self, moment: float) -> None:
        """The operator has moved the cursor."""
        self._touched_at = moment

    def renew(self) -> None:
        """Sort at once: the operator has chosen another order or another filter."""
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
        """The rows sorted, or in the places of those `before`.

        `busy`: rows are marked or a sheet is open; `moves`: the sort value changes with each read.
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
    """Rows with the ids `before` keep their places; new ones follow, sorted."""
    places = {row_id: place for place, row_id in enumerate(before)}
    known: list[RowT] = []
    new: list[RowT] = []
    for row in rows:
        (known if row.id in places else new).append(row)
    return (*sorted(known, key=lambda row: places[row.id]), *in_order(new))
