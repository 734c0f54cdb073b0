"""`progress`, `track` and `current_task()` in the process of a task: what is kept of a report, and for which run."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from task_apps import make_app

from horsies import (
    CurrentTask,
    RetryPolicy,
    TaskError,
    TaskResult,
    current_task,
    progress,
    track,
)
from horsies.domain.progress_pace import LONGEST_UNIT, MOST, Pace, Reading
from horsies.run.progress_table import RECORD_BYTES, ProgressTable
from horsies.task.current import Report, Run, begin_run, end_run, forget_runs, moment
from horsies.testing import inline
from horsies.testing.here import RunHere
from horsies.workflow.context import WorkflowMeta, meta_in


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


app = make_app()
heard: list[CurrentTask] = []
NO_TASK = "current_task\\(\\) was called outside of a task: "


@app.task("hear")
def hear() -> TaskResult[None, TaskError]:
    heard.append(current_task())
    return TaskResult(ok=None)


@app.task("hear_async")
async def hear_async() -> TaskResult[None, TaskError]:
    heard.append(current_task())
    await asyncio.gather(asyncio.create_task(_hear()), asyncio.to_thread(lambda: heard.append(current_task())))
    return TaskResult(ok=None)


async def _hear() -> None:
    heard.append(current_task())


@app.task("flaky", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["AGAIN"], jitter=False))
def flaky() -> TaskResult[None, TaskError]:
    heard.append(current_task())
    return TaskResult(err=TaskError(error_code="AGAIN", message="no"))


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    heard.clear()
    yield
    forget_runs()


def run_here(task_id: str, **fields: Any) -> Run:
    known = {"name": "mail", "attempt": 1, "queue": "q", "sent_at": None, "deadline": None, "workflow": None}
    return RunHere(CurrentTask(id=task_id, **(known | fields)))


def test_inside_inline_a_task_knows_what_its_send_said() -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    with inline(app):
        handle = hear.with_options(good_until=until).send().unwrap()
    (task,) = heard
    assert (task.id, task.name, task.attempt, task.queue) == (handle.task_id, "hear", 1, "default")
    assert (task.deadline, task.workflow) == (until, None)
    assert task.sent_at is not None
    assert abs(task.sent_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert current_task(None) is None


def test_each_run_has_its_attempt() -> None:
    with inline(app):
        flaky.send().unwrap().get()
    assert [task.attempt for task in heard] == [1, 2]


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_coroutines_and_threads_that_a_task_starts_know_it_too(in_a_loop: bool) -> None:
    async def send() -> None:
        (await hear_async.send_async()).unwrap()

    with inline(app):
        if in_a_loop:
            asyncio.run(send())
        else:
            hear_async.send().unwrap()
    assert [task.name for task in heard] == ["hear_async"] * 3
    assert len({task.id for task in heard}) == 1


def test_outside_of_a_task_it_says_why_or_returns_the_default() -> None:
    with pytest.raises(RuntimeError, match=NO_TASK + "no task runs in this process"):
        current_task()
    assert current_task(None) is None
    assert current_task("nothing") == "nothing"


def test_a_thread_without_the_context_knows_the_only_task_and_none_of_several() -> None:
    first, second = run_here("a"), run_here("b")
    contextvars.Context().run(begin_run, first)
    asked: list[object] = []
    _in_a_thread(lambda: asked.append(current_task().id))
    contextvars.Context().run(begin_run, second)
    with pytest.raises(RuntimeError, match=NO_TASK + "2 tasks run in this process, and this thread has the context"):
        current_task()
    end_run(first)
    _in_a_thread(lambda: asked.append(current_task().id))
    assert asked == ["a", "b"]


def test_code_that_a_task_has_left_behind_is_told_that_it_has_ended() -> None:
    run = run_here("a")
    context = contextvars.Context()
    context.run(begin_run, run)
    end_run(run)
    run.current = None  # type: ignore[attr-defined]  # as a worker's run after its end
    with pytest.raises(RuntimeError, match=NO_TASK + "the task that has started this code has ended"):
        context.run(current_task)


def test_the_logger_adds_the_fields_of_the_task_to_those_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    place = WorkflowMeta("w1", 3, "mail", "paid")
    task = run_here("a", workflow=place).describe()
    assert task is not None
    task.logger.info("sent %d", 7, extra={"order": 7, "id": "not this"})
    (record,) = caplog.records
    wanted = {"task": "mail", "id": "a", "queue": "q", "attempt": 1, "workflow": "w1", "node": "paid", "order": 7}
    assert {name: vars(record)[name] for name in wanted} == wanted
    assert (record.getMessage(), record.name) == ("sent 7", "horsies.task")


def test_the_place_in_a_workflow_is_read_from_the_stored_arguments() -> None:
    stored = '{"a":1,"__horsies_workflow_meta__":{"workflow_id":"w","task_index":2,"task_name":"n"}}'
    assert meta_in(stored) == WorkflowMeta("w", 2, "n")
    assert meta_in(stored.replace('"n"}', '"n","node_id":"paid"}')) == WorkflowMeta("w", 2, "n", "paid")
    for text in (None, '{"a":1}', "__horsies_workflow_meta__ {", '["__horsies_workflow_meta__"]'):
        assert meta_in(text) is None


def test_a_time_that_python_cannot_express_is_none() -> None:
    assert moment(0.0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert [moment(time) for time in (None, float("inf"), float("-inf"), -1e13, 1e18)] == [None] * 5


def _in_a_thread(work: Any) -> None:
    thread = threading.Thread(target=contextvars.Context().run, args=(work,))
    thread.start()
    thread.join()
