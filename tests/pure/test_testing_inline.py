"""Inline mode: tasks of an application run in the test's own process, without a database."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest
from task_apps import make_app

from horsies import (
    OutcomeCode,
    RetrievalCode,
    RetryPolicy,
    TaskError,
    TaskResult,
    TaskStatus,
)
from horsies.testing import Ran, inline

app = make_app()
heard: list[object] = []
TWICE = RetryPolicy.fixed([60, 300], auto_retry_for=["TRY_AGAIN"], jitter=False)


@app.task("add")
def add(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


@app.task("hear")
def hear(what: list[str]) -> TaskResult[str, TaskError]:
    what.append("heard")
    heard.append(what)
    return TaskResult(ok="heard")


@app.task("add_async")
async def add_async(a: int, b: int) -> TaskResult[int, TaskError]:
    await asyncio.sleep(0)
    heard.append(asyncio.get_running_loop())
    return TaskResult(ok=a + b)


@app.task("loop_of_its_own")
def loop_of_its_own() -> TaskResult[int, TaskError]:
    async def seven() -> int:
        return 7

    heard.append(threading.get_ident())
    return TaskResult(ok=asyncio.run(seven()))


@app.task("flaky", retry_policy=TWICE)
def flaky(failures: int) -> TaskResult[int, TaskError]:
    heard.append("try")
    if heard.count("try") <= failures:
        return TaskResult(err=TaskError(error_code="TRY_AGAIN", message="not yet"))
    return TaskResult(ok=heard.count("try"))


@app.task("declined", retry_policy=TWICE)
def declined(data: dict[str, int] | None) -> TaskResult[int, TaskError]:
    return TaskResult(err=TaskError(error_code="TRY_AGAIN", data=data))


@app.task("declined_at_last", retry_policy=TWICE)
def declined_at_last() -> TaskResult[int, TaskError]:
    """Fails on its last try, with an error that is never retried."""
    heard.append("try")
    return TaskResult(err=TaskError(error_code="TRY_AGAIN" if len(heard) < 3 else "CARD_DECLINED"))


@app.task("broken")
def broken() -> TaskResult[int, TaskError]:
    raise LookupError("no such order")


@app.task("impatient")
def impatient() -> TaskResult[int, TaskError]:
    raise KeyboardInterrupt


@app.task("parent")
def parent() -> TaskResult[str, TaskError]:
    heard.append("parent begins")
    child.send()
    heard.append("parent ends")
    return TaskResult(ok="")


@app.task("child")
def child() -> TaskResult[str, TaskError]:
    heard.append("child")
    return TaskResult(ok="from the child")


@app.task("asks")
def asks() -> TaskResult[str, TaskError]:
    return child.send().unwrap().get()


@app.task("asks_itself")
def asks_itself() -> TaskResult[str, TaskError]:
    (me,) = heard[0].sent(asks_itself)  # type: ignore[attr-defined]
    return TaskResult(ok=str(app.get_broker().get_result(me.task_id).err.error_code))  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def _silence() -> None:
    heard.clear()


def test_a_send_runs_the_task_before_it_returns_and_the_handle_has_its_result() -> None:
    with inline(app) as queue:
        handle = add.send(1, 2).unwrap()
        (sent,) = queue.sent()
        assert (sent.status, sent.args, sent.task_name) == (TaskStatus.COMPLETED, [1, 2], "add")
        assert handle.get().unwrap() == 3
        info = handle.info(include_result=True, include_attempts=True).unwrap()
    assert info is not None
    assert (info.status, info.result, len(info.attempts or [])) == (TaskStatus.COMPLETED, TaskResult(ok=3), 1)


def test_arguments_are_copied_through_json_as_on_a_worker() -> None:
    mine = ["mine"]
    with inline(app):
        assert hear.send(mine).unwrap().get().unwrap() == "heard"
        refused = hear.send(object())  # type: ignore[arg-type]
    assert (mine, heard) == (["mine"], [["mine", "heard"]])
    assert refused.err_value.code == "VALIDATION_FAILED"


def test_with_raises_an_exception_comes_out_of_the_send_with_its_own_traceback() -> None:
    with inline(app, raises=True) as queue, pytest.raises(LookupError, match="no such order") as caught:
        broken.send()
    assert caught.traceback[-1].name == "broken"
    assert queue.sent(broken)[0].status is TaskStatus.FAILED


def test_ctrl_c_in_a_task_stops_the_test_and_not_only_the_task() -> None:
    with inline(app), pytest.raises(KeyboardInterrupt):
        impatient.send()


@pytest.mark.parametrize(
    ("data", "stored"),
    [
        (None, {"reason": "all retries are spent", "retry_count": 2, "max_retries": 2}),
        ({"limit": 5}, {"limit": 5}),
    ],
)
def test_the_last_error_says_that_the_retries_are_spent_unless_it_has_data(
    data: dict[str, int] | None, stored: dict[str, object]
) -> None:
    with inline(app):
        assert declined.send(data).unwrap().get().err_value.data == stored


def test_an_error_that_is_never_tried_again_says_nothing_of_retries() -> None:
    with inline(app):
        error = declined_at_last.send().unwrap().get().err_value
    assert (error.error_code, error.data, len(heard)) == ("CARD_DECLINED", None, 3)


def test_waiting_for_a_result_lets_the_time_pass_that_retries_need() -> None:
    with inline(app) as queue:
        handle = flaky.send(2).unwrap()
        (task,) = queue.sent(flaky)
        assert (task.status, task.retry_count, heard) == (TaskStatus.PENDING, 1, ["try"])
        timed_out = handle.get(timeout_ms=59_000)
        assert timed_out.err is not None
        assert timed_out.err.error_code is RetrievalCode.WAIT_TIMEOUT
        assert handle.get().unwrap() == 3
    assert [attempt.will_retry for attempt in task.attempts] == [True, True, False]
    first, second, third = (attempt.started_at for attempt in task.attempts)
    assert timedelta(seconds=60) <= second - first < timedelta(seconds=62)
    assert timedelta(seconds=300) <= third - second < timedelta(seconds=302)


def test_a_delayed_task_waits_for_time_to_pass() -> None:
    with inline(app) as queue:
        add.schedule(3600, 1, 2)
        child.with_options(delay=timedelta(seconds=7200)).send()
        assert queue.run(3599) == Ran()
        assert queue.run(1) == Ran(completed=1)
        assert [task.status.value for task in queue.sent()] == ["COMPLETED", "PENDING"]
        assert queue.run(86_400) == Ran(completed=1)


def test_a_task_past_its_good_until_expires() -> None:
    with inline(app, at_once=False) as queue:
        handle = add.with_options(good_until=datetime.now(UTC) + timedelta(minutes=5)).send(1, 2).unwrap()
        assert queue.run(600) == Ran(completed=1)  # it was due at once
        late = add.with_options(good_until=datetime.now(UTC) + timedelta(minutes=5)).send(3, 4).unwrap()
        assert queue.run() == Ran(expired=1)  # ten minutes have passed
        result = late.get()
    assert handle.get().unwrap() == 3
    assert result.err is not None
    assert result.err.error_code is OutcomeCode.TASK_EXPIRED


def test_what_a_task_sends_runs_after_it_has_ended() -> None:
    with inline(app):
        parent.send()
    assert heard == ["parent begins", "parent ends", "child"]


def test_a_task_that_waits_for_another_gets_its_result() -> None:
    with inline(app):
        assert asks.send().unwrap().get().unwrap() == "from the child"


def test_a_task_that_waits_for_itself_is_told_instead_of_hanging() -> None:
    with inline(app) as queue:
        heard.append(queue)
        assert asks_itself.send().unwrap().get().unwrap() == RetrievalCode.WAIT_TIMEOUT


def test_with_at_once_false_sends_are_only_recorded_until_the_test_runs_them() -> None:
    with inline(app, at_once=False) as queue:
        child.with_options(priority=1).send()
        add.send(1, b=2)
        add.send(3, b=4)
        assert [(task.args, task.kwargs) for task in queue.sent(add)] == [([1], {"b": 2}), ([3], {"b": 4})]
        assert heard == []
        assert queue.run() == Ran(completed=3)
        assert queue.run() == Ran()


def test_a_live_unique_key_gives_the_handle_of_the_task_that_has_it() -> None:
    with inline(app, at_once=False) as queue:
        first, second = (add.with_options(unique_key="daily").send(1, number).unwrap() for number in (1, 2))
        assert (second.task_id, len(queue.sent())) == (first.task_id, 1)
        assert (first.duplicate, second.duplicate, second.arguments_differ) == (False, True, True)
        assert not child.with_options(unique_key="daily").send().unwrap().duplicate
        queue.run()
        assert add.with_options(unique_key="daily").send(1, 3).unwrap().task_id != first.task_id


def test_a_repeated_send_of_the_same_task_does_not_run_it_twice() -> None:
    with inline(app, at_once=False) as queue:
        app.send_many([child.to_send(), add.to_send(1, 2)])
        request = queue.sent(child)[0].request
        broker = app.get_broker()
        again = broker.enqueue("child", task_id=request.task_id, enqueue_sha=request.enqueue_sha)
        other = broker.enqueue("child", task_id=request.task_id, enqueue_sha="another")
        assert (again.unwrap(), queue.run()) == (request.task_id, Ran(completed=2))
    assert other.is_err()


def test_a_name_that_the_application_does_not_know_waits_as_on_its_workers() -> None:
    with inline(app) as queue:
        app.get_broker().enqueue("not_ours", task_id="x", enqueue_sha="y").unwrap()
        assert (queue.run(86_400), queue.sent()[0].status) == (Ran(), TaskStatus.PENDING)


def test_afterwards_the_application_is_as_before() -> None:
    with inline(app):
        inside = app.get_broker()
        with inline(app):
            assert app.get_broker() is not inside
        assert app.get_broker() is inside
    assert app.get_broker() is not inside


def test_suppressed_sends_stay_suppressed() -> None:
    with inline(app) as queue:
        app.suppress_sends()
        try:
            assert add.send(1, 2).is_err()
        finally:
            app.suppress_sends(value=False)
        assert queue.sent() == []


async def test_what_only_a_database_can_tell_is_an_error_that_says_so() -> None:
    with inline(app):
        answer = await app.get_broker().get_worker_stats()
    assert "inside inline() there is no database" in answer.err_value.message


def test_an_async_task_runs_from_blocking_code() -> None:
    with inline(app):
        assert add_async.send(1, 2).unwrap().get().unwrap() == 3


async def test_an_async_task_runs_in_the_loop_of_the_test() -> None:
    with inline(app):
        handle = (await add_async.send_async(1, 2)).unwrap()
        assert (await handle.get_async()).unwrap() == 3
    assert heard == [asyncio.get_running_loop()]


async def test_a_plain_task_finds_no_running_loop_however_it_is_sent() -> None:
    with inline(app) as queue:
        handles = [loop_of_its_own.send().unwrap(), (await loop_of_its_own.send_async()).unwrap()]
        await loop_of_its_own.schedule_async(60)
        assert await queue.run_async(60) == Ran(completed=1)
        assert [handle.get().unwrap() for handle in handles] == [7, 7]
    assert threading.get_ident() not in heard


async def test_a_cancelled_test_leaves_its_task_unrun() -> None:
    with inline(app) as queue:
        sending = asyncio.create_task(add_async.send_async(1, 2))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert queue.sent()[0].status is TaskStatus.PENDING
        assert await queue.run_async() == Ran(completed=1)
