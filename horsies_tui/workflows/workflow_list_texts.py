"""The texts of the workflow list: counts, and why it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.query import Term, WorkflowFilter
from horsies.query.values import Choice
from horsies.views import WorkflowSort
from horsies_tui.feed.status import not_connected
from horsies_tui.look.bars import Extent
from horsies_tui.look.units import count, moment_text
from horsies_tui.widgets.counts_line import CountsText, of_rows
from horsies_tui.widgets.menus import Item, PickOne, state_menu

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from horsies.views import WorkflowCounts
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.widgets.menus import PickSome
    from horsies_tui.workflows.feed import WorkflowsSnapshot

FLOW_ORDER: Final = ("RUNNING", "PAUSED", "PENDING", "FAILED", "CANCELLED", "COMPLETED")
_LETTERS: Final = dict(zip(FLOW_ORDER, "rupfnd", strict=True))
_TEACHES: Final = (
    "There are no workflows here yet.\n"
    "A workflow is a graph of tasks: app.workflow(name, tasks=[…]) makes one,\n"
    "and start() sends it; this list then shows it. horsies demo has some."
)


_ALL_ROWS: Final = (WorkflowSort.NEWEST, WorkflowSort.OLDEST)
"""The orders of all rows; the others have only those of some states."""
SORT_WORDS: Final = {
    WorkflowSort.NEWEST: "newest first",
    WorkflowSort.OLDEST: "oldest first",
    WorkflowSort.OPEN: "longest open",
    WorkflowSort.ENDED: "ended last",
}
_SORTS: Final = (
    Item(WorkflowSort.NEWEST, SORT_WORDS[WorkflowSort.NEWEST], "n", "by time sent"),
    Item(WorkflowSort.OLDEST, SORT_WORDS[WorkflowSort.OLDEST], "o", "by time sent"),
    Item(WorkflowSort.OPEN, SORT_WORDS[WorkflowSort.OPEN], "l", "only those that have not ended, the oldest first"),
    Item(WorkflowSort.ENDED, SORT_WORDS[WorkflowSort.ENDED], "e", "only ended workflows, by their end"),
)


def sort_menu(current: WorkflowSort, glyphs: Glyphs) -> PickOne:
    return PickOne("Order", _SORTS, current, glyphs)


def of_flow_states(current: WorkflowFilter, wanted: frozenset[str]) -> WorkflowFilter:
    """The filter with exactly these states; none or all means any."""
    others = tuple(term for term in current.terms if term.key != "status")
    if wanted in (frozenset(), current.language.every_state):
        return WorkflowFilter(others)
    chosen = tuple(Choice(state.lower()) for state in FLOW_ORDER if state in wanted)
    return WorkflowFilter((Term("status", chosen), *others))


def flow_states_menu(current: WorkflowFilter, snapshot: WorkflowsSnapshot, glyphs: Glyphs) -> PickSome:
    return state_menu(_LETTERS, snapshot.counts, current, glyphs)


def flow_tally(snapshot: WorkflowsSnapshot, zone: tzinfo | None, *, frozen: bool, up: bool) -> CountsText:
    counts = _counts(snapshot)
    since = None if counts is None else counts.reached
    return CountsText(
        counts=counts,
        counting=up,
        filtered=bool(snapshot.filter_text),
        since="" if since is None else moment_text(since, snapshot.now or since, zone),
        shown=len(snapshot.rows),
        words=tuple(_order_and_reach(snapshot)),
        loud="FROZEN" if frozen else "",
    )


def _counts(snapshot: WorkflowsSnapshot) -> WorkflowCounts | None:
    """Return how many match, by state; of a list that shows all of them, those that it shows."""
    if snapshot.counts is None or not snapshot.at_end or snapshot.loading or snapshot.sort not in _ALL_ROWS:
        return snapshot.counts
    return of_rows(snapshot.counts, (row.status for row in snapshot.rows))


def _order_and_reach(snapshot: WorkflowsSnapshot) -> Iterator[str]:
    if snapshot.sort is not WorkflowSort.NEWEST:
        yield SORT_WORDS[snapshot.sort]
    if snapshot.searched is not None:
        yield _searched(snapshot)


def extent_of(snapshot: WorkflowsSnapshot) -> Extent:
    """Return the position of the rows in the whole list, whose first ones they are."""
    total = None if snapshot.counts is None else snapshot.counts.total
    if snapshot.at_end:
        return Extent()
    return Extent(0, None if total is None else total.number, total is None or total.at_least)


def empty_flows(snapshot: WorkflowsSnapshot, usual: str, status: LinkStatus, now: datetime) -> str:
    """Shown in place of rows: the filter, how far it was searched, the next step. `usual` is the initial filter."""
    if snapshot.now is None or snapshot.loading:
        if not status.is_up:
            return not_connected(status, now)
        if snapshot.error is not None:
            lacks = [lack for lack in status.lacks if lack not in snapshot.error]
            return "\n".join(("Nothing to show:", snapshot.error, *lacks))
        return "Reading…"
    if snapshot.sort not in _ALL_ROWS:
        return f"No workflow in this sort order ({SORT_WORDS[snapshot.sort]}). s changes it."
    if snapshot.filter_text in ("", usual):
        return _TEACHES
    in_table = None if snapshot.counts is None else snapshot.counts.in_table
    far = f"S{_searched(snapshot)[1:]}." if snapshot.searched is not None else "Searched all rows."
    if snapshot.searched is None and in_table:
        far = f"Searched all of about {count(in_table)} workflows."
    return f"No workflow matches. {far} esc clears the filter."


def _searched(snapshot: WorkflowsSnapshot) -> str:
    if snapshot.searched is None:
        return ""
    return f"searched {'up' if snapshot.sort.is_ascending else 'back'} to {snapshot.searched:%Y-%m-%d %H:%MZ}"
