"""`progress` and `track` in the process of a task: what is kept of each report, and for which run."""

from __future__ import annotations

import asyncio
import contextvars
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest

from horsies import progress, track
from horsies.domain.progress_pace import LONGEST_UNIT, MOST, Pace, Reading
from horsies.run.progress_table import RECORD_BYTES, ProgressTable
from horsies.task.current import Report, begin_run, end_run, forget_runs


class OneRun:
    """A run at one place of a table, as `Run` has it."""

    def __init__(self, table: ProgressTable, place: int, number: int) -> None:
        self.report: Report | None = None
        self.tracked = False
        self._table, self._place, self._number = table, place, number

    def open_report(self) -> Report:
        self.report = report = self._table.writer(self._place, self._number)
        return report

    @property
    def reading(self) -> Reading | None:
        return self._table.read(self._place, self._number)


@pytest.fixture
def table() -> Iterator[ProgressTable]:
    with tempfile.TemporaryFile() as memory:
        memory.truncate(9 * RECORD_BYTES)
        table = ProgressTable(memory.fileno())
    yield table
    forget_runs()


@pytest.fixture
def run(table: ProgressTable) -> Iterator[OneRun]:
    """A run whose user code is this test."""
    run = OneRun(table, 0, 5)
    contextvars.Context().run(begin_run, run)
    yield run
    end_run(run)


def test_the_last_report_of_a_run_is_kept_and_before_the_first_the_table_says_so(
    table: ProgressTable, run: OneRun
) -> None:
    assert not table.used
    assert run.reading is None
    progress(3_400, 10_000, "rows")
    assert table.used
    assert run.reading == (3_400, 10_000, "rows")
    progress(0.5)
    assert run.reading == (0.5, None, None)
    assert table.read(0, 6) is None, "another job at this place has not reported"


@pytest.mark.parametrize(
    ("report", "kept"),
    [
        ((3, 0), (3, None, None)),
        ((3, -1), (3, None, None)),
        ((3, float("nan")), (3, None, None)),
        ((3, float("inf")), (3, None, None)),
        ((3, "ten"), (3, None, None)),
        ((3, 10**400), (3, None, None)),
        ((-3, 10), (0, 10, None)),
        ((12, 10), (12, 10, None)),
        ((1e300, 1e308), (MOST, MOST, None)),
        ((True, Decimal("2.5")), (1, 2.5, None)),
        ((3, 10, "r\x1b[31mo\nw\u202es\0"), (3, 10, "r[31mows")),
        ((3, 10, "r" * 10_000), (3, 10, "r" * LONGEST_UNIT)),
        ((3, 10, "\U0001f40e" * 10_000), (3, 10, "\U0001f40e" * 10)),
        ((3, 10, "\ud800rows"), (3, 10, "?rows")),
        ((3, 10, b"rows"), (3, 10, None)),
        ((3, 10, ["rows"]), (3, 10, None)),
    ],
)
def test_odd_values_are_kept_as_far_as_they_make_sense(run: OneRun, report: tuple[Any, ...], kept: Any) -> None:
    progress(*report)
    assert run.reading == kept


class Unruly:
    """Fails whatever is asked of it."""

    def __float__(self) -> float:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("done", [float("nan"), float("inf"), 10**400, "3", b"3", None, [3], Unruly()])
def test_what_is_no_number_is_no_report(run: OneRun, done: Any) -> None:
    progress(done, 10, "rows")
    assert run.reading is None
    progress(1, Unruly(), Unruly())  # type: ignore[arg-type]
    assert run.reading == (1, None, None)


def test_outside_of_a_task_nothing_happens_and_items_are_the_same() -> None:
    progress(1, 2, "rows")
    assert list(track([1, 2, 3])) == [1, 2, 3]


def test_a_loop_counts_what_it_has_done(run: OneRun) -> None:
    seen = [(row, run.reading) for row in track("abcd", unit="rows")]
    assert seen == [(row, (done, 4, "rows")) for done, row in enumerate("abcd")]
    assert run.reading == (4, 4, "rows")
    for row in track((row for row in "abcd"), total=8):
        assert run.reading == ("abcd".index(row), 8, None)
    for _ in track(iter(range(10))):
        break
    assert run.reading == (0, 10, None)
    for _ in track(row for row in "abcd"):
        pass
    assert run.reading == (4, None, None)


def test_a_loop_in_a_loop_leaves_the_count_to_the_outer_one(run: OneRun) -> None:
    for file in track(["a", "b"], unit="files"):
        assert list(track([file] * 3)) == [file] * 3
        assert run.reading == ("ab".index(file), 2, "files")
    list(track("abc"))
    assert run.reading == (3, 3, None)


def test_a_length_that_fails_is_none_and_an_error_of_the_items_passes(run: OneRun) -> None:
    class Rows:
        def __len__(self) -> int:
            raise OSError

        def __iter__(self) -> Iterator[int]:
            yield 1
            raise KeyError

    with pytest.raises(KeyError):
        list(track(Rows()))
    assert run.reading == (1, None, None)


async def test_asynchronous_loops_of_many_tasks_count_for_their_own_runs(table: ProgressTable) -> None:
    together = asyncio.Barrier(8)

    async def rows(number: int) -> AsyncIterator[int]:
        for row in range(number):
            await together.wait()
            yield row

    async def task(number: int) -> Reading | None:
        run = OneRun(table, number, 70 + number)
        begin_run(run)
        async for _ in track(rows(5), total=5, unit=f"rows of {number}"):
            await asyncio.sleep(0)
        inner = asyncio.create_task(asyncio.to_thread(progress, number, 10, "from a thread"))
        await inner
        end_run(run)
        return run.reading

    found = await asyncio.gather(*map(task, range(8)))
    assert found == [(number, 10, "from a thread") for number in range(8)]


def test_a_thread_reports_for_the_only_run_and_for_none_of_several(table: ProgressTable, run: OneRun) -> None:
    def in_a_thread(done: int) -> None:
        thread = threading.Thread(target=progress, args=(done, 10))
        thread.start()
        thread.join()

    in_a_thread(3)
    assert run.reading == (3, 10, None)
    other = OneRun(table, 1, 6)
    contextvars.Context().run(begin_run, other)
    in_a_thread(4)
    assert (run.reading, other.reading) == ((3, 10, None), None)
    end_run(other)


def test_what_a_run_has_left_behind_reports_nothing_once_it_has_ended(table: ProgressTable) -> None:
    run, context = OneRun(table, 0, 5), contextvars.Context()
    context.run(begin_run, run)
    rows = context.run(lambda: iter(track([1, 2, 3])))
    context.run(next, rows)
    end_run(run)
    after = OneRun(table, 0, 6)
    after.open_report()(1, 2, "rows")
    context.run(next, rows)
    context.run(progress, 9, 10, "late")
    assert after.reading == (1, 2, "rows")
    silent = OneRun(table, 0, 7)
    context.run(begin_run, silent)
    end_run(silent)
    assert context.run(progress, 1) is None
    assert silent.reading is None


def test_a_forked_process_does_not_report_for_its_parent(run: OneRun) -> None:
    progress(1, 10)
    if (pid := os.fork()) == 0:
        forget_runs()
        progress(5, 10)
        os._exit(0)
    os.waitpid(pid, 0)
    assert run.reading == (1, 10, None)


def test_the_pace_is_that_of_late_and_starts_anew_with_another_count() -> None:
    pace = Pace(Reading(0, 1_000, "rows"), 0.0)
    assert (pace.rate, pace.gap_s) == (None, None)
    for second in range(1, 61):
        pace.moved(Reading(100 * second, None, "rows"), float(second))
    assert pace.rate == pytest.approx(100)
    assert pace.gap_s == pytest.approx(1)
    for second in range(61, 121):
        pace.moved(Reading(6_000 + 10 * (second - 60), None, "rows"), float(second))
    assert pace.rate is not None
    assert 10 < pace.rate < 15
    pace.moved(Reading(7_000, None, "rows"), 720.0)  # after ten minutes of nothing
    assert pace.rate == pytest.approx(400 / 600, rel=0.01)
    assert pace.gap_s == pytest.approx(600, rel=0.01)
    pace.moved(Reading(5, None, "rows"), 721.0)
    assert pace.rate is None
    pace.moved(Reading(10, None, "files"), 722.0)
    assert pace.rate is None
