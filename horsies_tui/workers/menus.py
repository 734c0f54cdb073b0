"""The menus of the workers screen: order and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.widgets.menus import Item, PickOne, PickSome
from horsies_tui.workers.columns import WORKER_COLUMNS
from horsies_tui.workers.order import SORT_WORDS, WorkerSort

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs

_LETTERS: Final = {
    WorkerSort.TROUBLE: ("t", "gone with tasks, late, draining, alive"),
    WorkerSort.NAME: ("n", "by host and process"),
    WorkerSort.LOAD: ("l", "by the share of its processes that run a task"),
    WorkerSort.TASKS: ("k", "by what it holds, claimed or running"),
    WorkerSort.CPU: ("c", "of its own process"),
    WorkerSort.MEMORY: ("m", "its own and that of its children"),
    WorkerSort.YOUNGEST: ("y", "by its start"),
    WorkerSort.SILENT: ("s", "by its last sign of life"),
}
_SORTS: Final = tuple(Item(sort, SORT_WORDS[sort], *_LETTERS[sort]) for sort in WorkerSort)


def sort_menu(current: WorkerSort, glyphs: Glyphs) -> PickOne:
    return PickOne("Order", _SORTS, current, glyphs)


def column_menu(width: int, hidden: frozenset[str], glyphs: Glyphs) -> PickSome:
    """The columns that fit into a table of this width."""
    titles = {column.key: column.title for column in WORKER_COLUMNS.columns}
    items = [Item(key, titles[key]) for key in WORKER_COLUMNS.keys_at(width)]
    return PickSome("Columns", items, [item.id for item in items if item.id not in hidden], glyphs)
