"""The menus of the task list (order, groups, states), and the prompt for a time to go to."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.query import values
from horsies.query.problems import UnreadableValue
from horsies.query.values import Present
from horsies.views import Sort, StatisticsSort
from horsies_tui.look.units import date_and_time
from horsies_tui.tasks.statistics import ORDER_WORDS
from horsies_tui.tasks.task_list_texts import SORT_WORDS
from horsies_tui.widgets.counts_line import ORDER
from horsies_tui.widgets.menus import Item, PickOne, state_menu
from horsies_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from datetime import tzinfo

    from horsies.query import TaskFilter
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
    from horsies_tui.widgets.menus import PickSome

NO_GROUPS: Final = "rows"
STATISTICS: Final = "statistics"

_SORTS: Final = (
    Item(Sort.NEWEST, SORT_WORDS[Sort.NEWEST], "n", "by time sent"),
    Item(Sort.OLDEST, SORT_WORDS[Sort.OLDEST], "o", "by time sent"),
    Item(Sort.WAITING, SORT_WORDS[Sort.WAITING], "w", "waiting tasks, by priority and time"),
    Item(Sort.RUNNING, SORT_WORDS[Sort.RUNNING], "r", "running tasks, by start time"),
    Item(Sort.FINISHED, SORT_WORDS[Sort.FINISHED], "f", "ended tasks, by end time"),
)
_GROUPINGS: Final = (
    Item("error_code", "error code", "e", "of unsuccessful tasks"),
    Item(STATISTICS, "statistics", "s", "failures, waits and durations by task name"),
    Item("task_name", "task name", "n"),
    Item("queue_name", "queue", "u"),
    Item("worker", "worker", "w", "current or last"),
    Item(NO_GROUPS, "no groups", "o", "single rows"),
)
_ORDER_LETTERS: Final = {
    StatisticsSort.WORST: "h",
    StatisticsSort.ENDED: "e",
    StatisticsSort.FAILED: "f",
    StatisticsSort.SHARE: "s",
    StatisticsSort.RETRIES: "t",
    StatisticsSort.WAIT: "w",
    StatisticsSort.RUN: "r",
    StatisticsSort.BUSY: "b",
    StatisticsSort.NAME: "n",
}
_STATE_LETTERS: Final = dict(zip(ORDER, "rcptfixnd", strict=True))
_STATE_HELP: Final = {
    "PENDING": "due, or due later (status:scheduled)",
    "RETRY": "waits for its retry",
    "INTERRUPTED": "stopped at a shutdown, waits for you",
}


def sort_menu(current: Sort, glyphs: Glyphs) -> PickOne:
    return PickOne("Order", _SORTS, current, glyphs)


def order_menu(current: StatisticsSort, glyphs: Glyphs) -> PickOne:
    return PickOne(
        "Order", [Item(sort, words, _ORDER_LETTERS[sort]) for sort, words in ORDER_WORDS.items()], current, glyphs
    )


def group_menu(need: TaskNeed, glyphs: Glyphs) -> PickOne:
    return PickOne("Group by", _GROUPINGS, grouping(need), glyphs)


def grouping(need: TaskNeed) -> str:
    """Return the id of the selected item in the menu of groups."""
    return STATISTICS if need.statistics is not None else need.group_by or NO_GROUPS


def next_grouping(need: TaskNeed) -> str:
    """Return the next grouping in the order of the menu, skipping single rows."""
    ids = [item.id for item in _GROUPINGS if item.id != NO_GROUPS]
    return ids[(ids.index(grouping(need)) + 1) % len(ids)]


def task_states_menu(current: TaskFilter, snapshot: TaskSnapshot, glyphs: Glyphs) -> PickSome:
    return state_menu(_STATE_LETTERS, snapshot.counts, current, glyphs, _STATE_HELP)


def time_prompt(now: datetime, zone: tzinfo | None, glyphs: Glyphs) -> Prompt[datetime]:
    return Prompt(
        "Go to a time",
        "14:05, 2h ago, 2026-11-17 14:05",
        lambda text: read_moment(text, now, zone),
        lambda moment: date_and_time(moment, zone),
        glyphs,
    )


class NoMoment(HorsiesError):  # noqa: N818 - shown beside what is being typed
    """The text is not a time. The message gives examples."""

    default_code = ErrorCode.CLI_INVALID_ARGS


def read_moment(text: str, now: datetime, zone: tzinfo | None = UTC) -> datetime:
    """Parse a time as in a filter, and also `2h ago` and `2 d`."""
    text = re.sub(r"\s*ago$", "", text.strip().lower())
    is_time = re.match("[0-9]+[:-]", text)
    try:
        moment = values.read_moment(text if is_time else text.replace(" ", ""), Present(now, zone))
    except UnreadableValue as error:
        raise NoMoment(error.message if is_time else "write 14:05, 2h30m, or 2026-11-17 14:05") from error
    return moment.at or now - (moment.ago or timedelta())
