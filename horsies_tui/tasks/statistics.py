"""The list of statistics by task name over a window. Enter filters the tasks by those behind a row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.views import NameStatistics, StatisticsSort
from horsies_tui.look.cells import Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, count, length, moment_text
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.steady_order import SteadyOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, tzinfo

    from horsies.views import TaskStatistics
    from horsies_tui.health.windows import Window
    from horsies_tui.look.glyphs import Glyphs

ORDER_WORDS: Final[Mapping[StatisticsSort, str]] = {
    StatisticsSort.WORST: "failures",
    StatisticsSort.ENDED: "number of tasks",
    StatisticsSort.FAILED: "number of failures",
    StatisticsSort.SHARE: "share of failures",
    StatisticsSort.RETRIES: "number of retries",
    StatisticsSort.WAIT: "wait",
    StatisticsSort.RUN: "duration",
    StatisticsSort.BUSY: "busy time",
    StatisticsSort.NAME: "name",
}
_BAR: Final = 10


class StatisticsList(RowTable[NameStatistics]):
    """The list. Rows keep their places while the operator works with it."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(STATISTICS_COLUMNS, glyphs=glyphs, id=id)
        self._sorted_by = StatisticsSort.WORST
        self._steady = SteadyOrder()

    def touch(self, moment: float) -> None:
        self._steady.touch(moment)

    def show_statistics(
        self, found: TaskStatistics | None, sort: StatisticsSort, *, moment: float, now: datetime, empty: str
    ) -> None:
        """Show the statistics, or None before they are read. `moment` is the monotonic time, for the steady order."""
        if found is None or sort is not self._sorted_by:
            self._sorted_by = sort
            self._steady.renew()
        rows: tuple[NameStatistics, ...] = () if found is None else found.sorted_by(sort)
        rows = self._steady.arranged(rows, self.rows, tuple, moment, busy=bool(self.marks), moves=True)
        self.show(rows, now=now, empty=empty)


def window_words(found: TaskStatistics | None, window: Window, zone: tzinfo | None) -> str:
    """Return the text that says which tasks are counted."""
    since = f", since {moment_text(found.since, found.now, zone)}" if found is not None else ""
    return f"ended in the last {window.name}{since}"


def no_statistics_words(found: TaskStatistics | None, window: Window, filter_text: str) -> str:
    if found is None:
        return "Reading…"
    matching = " that matches" if filter_text else ""
    return f"No task{matching} ended in the last {window.name}. ] widens the window, esc returns to the rows."


def _ended(row: NameStatistics, _look: Look) -> Cell:
    return Cell(count(row.tasks, at_least=row.partly), Tone.STRONG)


def _failed(row: NameStatistics, _look: Look) -> Cell:
    return Cell(count(row.failed, at_least=row.partly), Tone.FAILED if row.failed else Tone.MUTED)


def _share(row: NameStatistics, _look: Look) -> Cell:
    return Cell(f"{row.failed_share:.1%}", Tone.FAILED if row.failed else Tone.MUTED)


def _retries(row: NameStatistics, _look: Look) -> Cell:
    return Cell(count(row.retries, at_least=row.partly), Tone.RETRY if row.retries else Tone.MUTED)


def _seconds(of: Callable[[NameStatistics], float | None]) -> Callable[[NameStatistics, Look], Cell]:
    def cell(row: NameStatistics, _look: Look) -> Cell:
        value = of(row)
        return Cell("" if value is None else length(timedelta(seconds=value)))

    return cell


def _busy(row: NameStatistics, _look: Look) -> Cell:
    return Cell(f"{row.busy_share:.0%}")


def _bar(row: NameStatistics, look: Look) -> Cell:
    return Cell(look.glyphs.running * round(row.busy_share * _BAR), Tone.RUNNING)


def _over(row: NameStatistics, _look: Look) -> Cell:
    """Return the time over which a name was counted, if it is shorter than the window."""
    return Cell(f"{age(timedelta(seconds=row.over_s))} ago" if row.partly else "", Tone.MUTED)


STATISTICS_COLUMNS: Final = ColumnSet(
    (
        Column("name", "NAME", lambda row, _: Cell(row.name), 12, ideal=20, grow=1),
        Column("ended", "ENDED", _ended, 7, right=True),
        Column("failed", "FAILED", _failed, 7, right=True),
        Column("share", "SHARE", _share, 6, right=True),
        Column("retries", "RETRIES", _retries, 7, right=True, priority=5),
        Column("wait_p50", "WAIT P50", _seconds(lambda row: row.wait_p50), 8, right=True, priority=4),
        Column("wait_p95", "WAIT P95", _seconds(lambda row: row.wait_p95), 8, right=True, priority=2),
        Column("run_p50", "RUN P50", _seconds(lambda row: row.run_p50), 7, right=True, priority=3),
        Column("run_p95", "RUN P95", _seconds(lambda row: row.run_p95), 7, right=True, priority=1),
        Column("busy", "BUSY", _busy, 5, right=True),
        Column("busy_bar", "", _bar, _BAR, priority=7),
        Column("since", "SINCE", _over, 8, right=True, priority=6),
    )
)
