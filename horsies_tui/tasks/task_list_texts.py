"""The texts of the task list: order, counts, selection, and the reason why it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.views import Sort
from horsies_tui.feed.status import not_connected
from horsies_tui.look.bars import Extent
from horsies_tui.look.units import count, moment_text, number
from horsies_tui.tasks.groups import GROUP_WORDS
from horsies_tui.tasks.snapshot import PAGE
from horsies_tui.tasks.statistics import ORDER_WORDS, window_words
from horsies_tui.widgets.counts_line import CountsText, of_rows

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from horsies.views import GroupBy, TaskCounts, TaskGroups
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot

_ALL_ROWS: Final = (Sort.NEWEST, Sort.OLDEST)
"""The sort orders that show tasks in all states."""
SORT_WORDS: Final = {
    Sort.NEWEST: "newest first",
    Sort.OLDEST: "oldest first",
    Sort.WAITING: "next to be claimed",
    Sort.RUNNING: "longest running",
    Sort.FINISHED: "ended last",
}


def tally(
    snapshot: TaskSnapshot, need: TaskNeed, glyphs: Glyphs, zone: tzinfo | None, *, frozen: bool, up: bool
) -> CountsText:
    words = []
    if need.statistics is not None:
        words += [window_words(snapshot.statistics, need.statistics, zone), f"sort: {ORDER_WORDS[need.order]}"]
    elif need.sort is not Sort.NEWEST:
        words.append(SORT_WORDS[need.sort])
    if need.group_by is not None:
        since = _since(snapshot, snapshot.groups, zone)
        words.append(f"by {GROUP_WORDS[need.group_by]}{f' since {since}' if since else ''}")
    elif snapshot.searched and need.in_rows:
        words.append(snapshot.searched)
    counts = _counts(snapshot) if need.in_rows else snapshot.counts
    return CountsText(
        counts=counts,
        counting=up,
        filtered=bool(need.filter.terms),
        since=_since(snapshot, counts, zone),
        shown=len(snapshot.rows) - len(snapshot.struck),
        words=tuple(words),
        loud=_loud(snapshot, need, glyphs, frozen=frozen),
    )


def _counts(snapshot: TaskSnapshot) -> TaskCounts | None:
    """Return the number of matches by state, from the rows if the list shows all matches."""
    whole = (
        len(snapshot.rows) <= PAGE
        and snapshot.at_start
        and snapshot.at_end
        and not (snapshot.loading or snapshot.unseen or snapshot.searched)
    )
    if snapshot.counts is None or not whole or snapshot.sort not in _ALL_ROWS:
        return snapshot.counts
    return of_rows(snapshot.counts, (row.state for row in snapshot.rows if row.id not in snapshot.struck))


def extent_of(snapshot: TaskSnapshot) -> Extent:
    """Return the position of the window in the whole list."""
    before = snapshot.unseen if snapshot.at_start else None
    if snapshot.at_start and snapshot.at_end:
        return Extent(before)
    total = None if snapshot.counts is None else snapshot.counts.total
    return Extent(before, None if total is None else total.number, total is None or total.at_least)


def _since(snapshot: TaskSnapshot, counted: TaskCounts | TaskGroups | None, zone: tzinfo | None) -> str:
    """Return how far back tasks were counted; empty if all were counted."""
    if counted is None or counted.reached is None:
        return ""
    return moment_text(counted.reached, snapshot.now or counted.reached, zone)


def _loud(snapshot: TaskSnapshot, need: TaskNeed, glyphs: Glyphs, *, frozen: bool) -> str:
    if frozen:
        return "FROZEN"
    if not need.in_rows:
        return ""
    if snapshot.unseen:
        more = "more than " if snapshot.more_unseen else "+"
        return f"{more}{number(snapshot.unseen)} newer {glyphs.up}"
    follows = need.follow and need.sort is Sort.NEWEST and (snapshot.rows or not snapshot.loading)
    return "FOLLOW" if follows else ""


def empty_words(snapshot: TaskSnapshot, status: LinkStatus, now: datetime) -> str:
    """Return the text of an empty list: the filter, how far was searched, and the next step."""
    if snapshot.now is None or snapshot.loading:
        if not status.is_up:
            return not_connected(status, now)
        if snapshot.error is not None:
            lacks = [lack for lack in status.lacks if lack not in snapshot.error]
            return "\n".join(("Nothing to show:", snapshot.error, *lacks))
        return f"Searching for tasks: {snapshot.searched}." if snapshot.searched else "Reading…"
    counts = _counts(snapshot)
    match = 0 if counts is None else counts.total.number
    nothing_matches = snapshot.filter_text and counts is not None and not match
    if snapshot.sort not in _ALL_ROWS and not nothing_matches:
        others = f"; {counted(match, 'matches', 'match')} in other states" if match and snapshot.filter_text else ""
        return f"No task in this sort order ({SORT_WORDS[snapshot.sort]}){others}. s changes it."
    if snapshot.filter_text:
        some = f"{counted(match, 'matches', 'match')}, none of them in the rows searched."
        return f"{some if match else 'No task matches.'} {_searched(snapshot)} esc clears the filter."
    return "No tasks yet.\nThis list shows them as soon as they are sent. horsies demo sends some."


def no_groups_words(snapshot: TaskSnapshot, by: GroupBy) -> str:
    if snapshot.groups is None:
        return "Counting…"
    ended = " was unsuccessful" if by == "error_code" and not snapshot.filter_text else " matches"
    return f"No task{ended}. e changes the grouping, esc returns to the rows."


def _searched(snapshot: TaskSnapshot) -> str:
    in_table = None if snapshot.counts is None else snapshot.counts.in_table
    if snapshot.searched:
        return f"S{snapshot.searched[1:]}; end continues."
    if not (snapshot.at_start and snapshot.at_end):
        return "Only part of the rows was searched; home starts at the first row."
    return f"Searched all of about {count(in_table)} rows." if in_table else "Searched all rows."
