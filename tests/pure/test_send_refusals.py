"""Sends that cannot become a task never reach the database; blocking and async drivers do the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from task_apps import make_app, make_custom_app

from horsies import Err, SendFailedError, TaskError, TaskResult, TaskSendError, TaskSendErrorCode, TaskSendPayload
from horsies.domain.result import UnwrapError
from horsies.store.loop_thread import CallSteps, drive_awaited, drive_blocking
from horsies.task import TaskSendOptions
from horsies.task.options import (
    LONGEST_DELAY_S,
    UnsendableError,
    checked_deadline,
    checked_delay,
    checked_unique_key,
)

MOMENT = datetime(2026, 11, 18, 6, 31, 17, tzinfo=UTC)
PAYLOAD = TaskSendPayload("add", "default", 100, "[1]", None, MOMENT, None, None, None, "0" * 64)
DELAYED = TaskSendPayload("add", "default", 100, "[1]", None, MOMENT, None, 5, None, "0" * 64)


def add(a: int, b: int = 2) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


def refused(result: Any, code: TaskSendErrorCode = TaskSendErrorCode.VALIDATION_FAILED) -> TaskSendError:
    assert isinstance(result, Err)
    error: TaskSendError = result.err_value
    assert (error.code, error.retryable, error.task_id, error.payload) == (code, False, None, None)
    return error


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "the arguments do not fit add(a, b=2): missing a required argument: 'a'"),
        ((1, 2, 3), {}, "the arguments do not fit add(a, b=2): too many positional arguments"),
        ((1,), {"a": 2}, "multiple values for argument 'a'"),
        ((1,), {"c": 3}, "got an unexpected keyword argument 'c'"),
        ((1,), {"connection": object()}, "write .with_options(connection=...).send(...)"),
        ((1,), {"b": Decimal(1)}, "kwargs.b: Decimal is not JSON"),
        (([{"x": {1, 2}}],), {}, "args[0][0].x: set is not JSON"),
        ((float("nan"),), {}, "nan is not JSON"),
        (("\ud800",), {}, "lone surrogate"),
    ],
)
async def test_arguments_that_cannot_travel_are_refused(args: Any, kwargs: Any, text: str) -> None:
    task: Any = make_app().task("add", add)
    for result in (task.send(*args, **kwargs), await task.send_async(*args, **kwargs)):
        error = refused(result)
        assert text in error.message
        assert "task 'add' was not sent" in error.message


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"good_until": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"good_until": date(2030, 1, 1)}, "good_until is date, not a datetime"),
        ({"good_until": "2030-01-01"}, "good_until is str"),
        ({"good_until": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}, "outside the calendar"),
        ({"priority": 0}, "not between 1 (first) and 100"),
        ({"priority": 101}, "not between 1 (first) and 100"),
        ({"priority": True}, "not a whole number"),
        ({"priority": 1.0}, "not a whole number"),
        ({"delay": -1}, "not between 0 seconds and 100 years"),
        ({"delay": timedelta(days=36_601)}, "not between 0 seconds and 100 years"),
        ({"delay": float("nan")}, "not between 0 seconds and 100 years"),
        ({"delay": float("inf")}, "not between 0 seconds and 100 years"),
        ({"at": datetime(2030, 1, 1)}, "at=2030-01-01 00:00:00 has no time zone"),  # noqa: DTZ001
        ({"at": "tomorrow"}, "at is str, not a datetime"),
        ({"at": MOMENT, "delay": 5}, "both say when the task is due"),
        ({"at": MOMENT, "good_until": MOMENT}, "when its good_until"),
        ({"timeout_ms": 0}, "timeout_ms=0"),
        ({"timeout_ms": 1.5}, "timeout_ms=1.5"),
        ({"timeout_ms": True}, "timeout_ms=True"),
        ({"queue": "mail"}, "cannot specify queue_name in DEFAULT mode"),
        ({"delay": 10**5000}, "limit"),
        ({"priority": 10**5000}, "limit"),
        ({"delay": "5"}, "not a number of seconds"),
        ({"delay": True}, "not a number of seconds"),
        ({"unique_key": ""}, "unique_key"),
        ({"unique_key": 7}, "unique_key"),
        ({"unique_key": "k" * 256}, "has 256 characters"),
        (
            {"unique_key": "nul\0"},
            "unique_key 'nul\\x00' has characters that cannot be printed or stored; use a digest of the text",
        ),
        ({"unique_key": "\udc80"}, "cannot be printed or stored"),
        ({"unique_key": "k\nDELETE FROM app_users; --"}, "cannot be printed or stored"),
        ({"unique_key": "k\u2028"}, "cannot be printed or stored"),
        ({"unique_key": " "}, "the unique_key is empty"),
    ],
)
async def test_options_that_make_no_sense_are_an_err_of_the_send(options: dict[str, Any], text: str) -> None:
    bound = make_app().task("add", add).with_options(**options)
    assert text in refused(bound.send(1)).message
    assert text in refused(await bound.send_async(1)).message


def test_the_queue_of_one_send_must_be_one_of_the_application() -> None:
    task = make_custom_app().task("add", add, queue_name="mail")
    assert "choose one of mail, reports" in refused(task.with_options(queue="post").send(1)).message


async def test_a_negative_delay_is_refused_by_every_schedule() -> None:
    task = make_app().task("add", add)
    for result in (
        task.schedule(-1, 1),
        await task.schedule_async(-1, 1),
        task.with_options(priority=1).schedule(-1, 1),
        await task.with_options(priority=1).schedule_async(-1, 1),
    ):
        assert "delay=-1" in refused(result).message


async def test_nothing_is_sent_while_sends_are_suppressed() -> None:
    app = make_app()
    task = app.task("add", add)
    app.suppress_sends()
    error = TaskSendError(TaskSendErrorCode.ENQUEUE_FAILED, "x", retryable=True, task_id="t", payload=PAYLOAD)
    wrong: Any = task
    for result in (
        task.send(1),
        wrong.send("too", "many", "arguments"),
        await task.send_async(1),
        task.schedule(5, 1),
        await task.schedule_async(5, 1),
        task.with_options(priority=1).send(1),
        task.retry_send(error),
        await task.retry_send_async(error),
        *app.send_many([task.to_send(1), task.to_send(2)]),
        *await app.send_many_async([task.to_send(1)]),
    ):
        refused(result, TaskSendErrorCode.SEND_SUPPRESSED)


def failed(**changes: Any) -> TaskSendError:
    fields: dict[str, Any] = {
        "code": TaskSendErrorCode.ENQUEUE_FAILED,
        "message": "x",
        "retryable": True,
        "task_id": "t",
        "payload": PAYLOAD,
    }
    return TaskSendError(**(fields | changes))


@pytest.mark.parametrize(
    ("error", "method", "text"),
    [
        (failed(code=TaskSendErrorCode.VALIDATION_FAILED), "retry_send", "call send() again"),
        (failed(code=TaskSendErrorCode.PAYLOAD_MISMATCH), "retry_send", "call send() again"),
        (failed(payload=None), "retry_send", "call send() again"),
        (failed(task_id=None), "retry_send", "call send() again"),
        (failed(payload=DELAYED), "retry_send", "use retry_schedule()"),
        (failed(), "retry_schedule", "use retry_send()"),
    ],
)
async def test_only_a_failed_enqueue_of_the_same_kind_can_be_sent_again(
    error: TaskSendError, method: str, text: str
) -> None:
    task = make_app().task("add", add)
    assert text in refused(getattr(task, method)(error)).message
    assert text in refused(await getattr(task, f"{method}_async")(error)).message


def test_a_failed_send_of_another_task_is_not_sent_by_this_one() -> None:
    task = make_app().task("other", add)
    assert refused(task.retry_send(failed())).message == "the error is of task 'add', this is 'other'"


def test_calls_that_cannot_be_sent_keep_their_places() -> None:
    app = make_app()
    task: Any = app.task("add", add)
    results = app.send_many(
        [task.to_send(), task.with_options(priority=0).to_send(1), task.with_options(connection=object()).to_send(1)]
    )
    texts = [refused(result).message for result in results]
    assert ["missing a required" in texts[0], "priority=0" in texts[1], "send_many(calls, connection" in texts[2]] == [
        True
    ] * 3
    assert app.send_many([]) == []


def test_a_text_of_an_error_shows_the_reason_and_no_argument() -> None:
    task: Any = make_app().task("add", add)
    result = task.send(1, c="secret")
    error = refused(result)
    assert "secret" not in f"{error!r} {error} {result!r}"
    why = "task 'add' was not sent: the arguments do not fit add(a, b=2): got an unexpected keyword argument 'c'"
    assert repr(error) == (f"TaskSendError(code=VALIDATION_FAILED, retryable=False, task_id=None, message={why!r})")
    with pytest.raises(UnwrapError, match="got an unexpected keyword argument 'c'"):
        result.unwrap()


def test_a_text_of_an_error_masks_passwords() -> None:
    error = TaskSendError(TaskSendErrorCode.ENQUEUE_FAILED, "postgresql://u:horse@db/x is away", retryable=True)
    assert "horse" not in f"{error!r} {SendFailedError(error)}"


def test_the_later_delay_counts() -> None:
    assert TaskSendOptions(delay=5, priority=2).delayed(7) == TaskSendOptions(delay=7, priority=2)


@given(st.datetimes(timezones=st.timezones()))
def test_a_deadline_is_the_same_moment_in_utc_or_refused(moment: datetime) -> None:
    try:
        checked = checked_deadline(moment)
    except UnsendableError:
        assert moment.year in {1, 9999}
        return
    assert checked is not None
    assert checked.tzinfo is UTC
    assert checked.timestamp() == moment.timestamp()


@given(st.one_of(st.integers(), st.floats(), st.timedeltas(), st.none(), st.text(), st.booleans()))
def test_a_delay_is_seconds_to_the_microsecond_or_refused(delay: Any) -> None:
    try:
        checked = checked_delay(delay)
    except UnsendableError:
        return
    if checked is None:
        assert delay is None
    else:
        assert 0 <= checked <= LONGEST_DELAY_S
        assert type(checked) is (int if checked == int(checked) else float)
        assert abs(checked - (delay.total_seconds() if isinstance(delay, timedelta) else delay)) < 1e-6


@given(st.text(alphabet=st.characters(), max_size=300))
def test_a_unique_key_is_what_a_column_can_hold_or_refused(key: str) -> None:
    try:
        checked = checked_unique_key(key)
    except UnsendableError:
        return
    assert checked == key
    assert 1 <= len(key) <= 255
    assert "\0" not in key
    key.encode()


DRIVERS: dict[str, Callable[[CallSteps[Any]], Any]] = {
    "blocking": drive_blocking,
    "awaited": lambda steps: asyncio.run(drive_awaited(steps)),
}
both = pytest.mark.parametrize("drive", DRIVERS.values(), ids=DRIVERS)


def double(number: int) -> int:
    return 10 // number * 2


async def double_async(number: int) -> int:
    await asyncio.sleep(0)
    return double(number)


def doubling(*numbers: int) -> CallSteps[list[int]]:
    doubled = [0] * len(numbers)
    for place, number in enumerate(numbers):
        doubled[place] = yield double, double_async, (number,)
    return doubled


@both
def test_each_answer_is_given_to_the_steps_and_their_result_is_returned(drive: Callable[..., Any]) -> None:
    assert drive(doubling()) == []
    assert drive(doubling(1, 2, 5)) == [20, 10, 4]


@both
def test_what_a_call_raises_is_raised_in_the_steps_which_may_go_on(drive: Callable[..., Any]) -> None:
    def careful() -> CallSteps[list[int]]:
        with suppress(ZeroDivisionError):
            yield from doubling(0)
        return (yield from doubling(1))

    assert drive(careful()) == [20]
    with pytest.raises(ZeroDivisionError):
        drive(doubling(1, 0))


@both
@pytest.mark.parametrize("ending", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_of_a_call_ends_the_blocks_around_it(
    drive: Callable[..., Any], ending: type[BaseException]
) -> None:
    ended: list[type[BaseException]] = []

    @contextmanager
    def span() -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            ended.append(type(error))
            raise

    def interrupted() -> Any:
        raise ending

    async def interrupted_async() -> Any:
        raise ending

    def steps() -> CallSteps[None]:
        with span():
            yield interrupted, interrupted_async, ()

    with pytest.raises(ending):
        drive(steps())
    assert ended == [ending]
