"""`current_task()` in the code of a task, in what a task starts, and outside."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horsies import AppConfig, CurrentTask, Horsies, PostgresConfig, RetryPolicy, TaskError, TaskResult, current_task
from horsies.task.current import Run, begin_run, end_run, forget_runs, moment
from horsies.testing import inline
from horsies.testing.here import RunHere
from horsies.workflow.context import WorkflowMeta, meta_in

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
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


def run_of(task_id: str, **fields: Any) -> Run:
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
    first, second = run_of("a"), run_of("b")
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
    run = run_of("a")
    context = contextvars.Context()
    context.run(begin_run, run)
    end_run(run)
    run.current = None  # type: ignore[attr-defined]  # as a worker's run after its end
    with pytest.raises(RuntimeError, match=NO_TASK + "the task that has started this code has ended"):
        context.run(current_task)


def test_the_logger_adds_the_fields_of_the_task_to_those_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    place = WorkflowMeta("w1", 3, "mail", "paid")
    task = run_of("a", workflow=place).describe()
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
