"""What a failed send tells the caller: in the log, by an Err that is dropped unread, or as an exception."""

from __future__ import annotations

import gc
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from task_apps import make_app

from horsies import Err, Ok, SendFailedError, TaskError, TaskResult, TaskSendErrorCode, is_err, is_ok
from horsies.domain.result import UnseenErr

REASON = "task 'add' was not sent: the arguments do not fit add(a, b=2): missing a required argument: 'a'"
FAILED = f"{REASON} [VALIDATION_FAILED], at {__file__}:"
DROPPED = "the result of a failed send was dropped unread; check is_err(result), or use send_or_raise(): "


def add(a: int, b: int = 2) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


@pytest.fixture
def task() -> Any:
    return make_app().task("add", add)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The records of the logger since the last call; each is a warning."""
    caplog.set_level(logging.INFO, "horsies")
    gc.freeze()  # what all modules and tests have made: 0.3 s to go through

    def messages() -> list[str]:
        gc.collect()
        records = [record for record in caplog.records if record.name == "horsies"]
        assert {record.levelno for record in records} <= {logging.WARNING}
        texts = [record.getMessage() for record in records]
        caplog.clear()
        return texts

    return messages


async def test_each_failed_send_is_logged_with_its_reason_its_code_and_its_line(
    task: Any, told: Callable[[], list[str]]
) -> None:
    kept = [task.send(), await task.send_async(), task.with_options(priority=5).send(), task.schedule(5)]
    texts = told()
    assert len(texts) == len(kept)
    assert all(text.startswith(FAILED) for text in texts)
    assert [is_err(result) for result in kept] == [True] * 4


def test_an_error_that_is_dropped_unread_says_so(task: Any, told: Callable[[], list[str]]) -> None:
    task.send()
    failed, dropped = told()
    assert dropped == DROPPED + failed


LOOKS: list[Callable[[Any], object]] = [
    lambda result: result.is_err(),
    lambda result: result.err_value,
    lambda result: result.unwrap_or(None),
    lambda result: isinstance(result, Err),
    lambda result: isinstance(result, Ok),
    is_ok,
    is_err,
    repr,
    hash,
    lambda result: result == Err(1),
    lambda result: [*filter(None, (result.ok(),))],
]


@pytest.mark.parametrize("look", LOOKS)
def test_an_error_that_was_looked_at_is_dropped_in_silence(
    look: Callable[[Any], object], task: Any, told: Callable[[], list[str]]
) -> None:
    result = task.send()
    look(result)
    del result
    assert len(told()) == 1


def test_an_unseen_error_is_an_err_in_every_other_way(task: Any) -> None:
    result = task.send()
    assert isinstance(result, UnseenErr)
    plain = Err(result.err_value)
    assert (result, hash(result), repr(result)) == (plain, hash(plain), repr(plain))
    assert type(pickle.loads(pickle.dumps(UnseenErr("why", print)))) is Err


def test_of_a_batch_equal_reasons_are_one_record(task: Any, told: Callable[[], list[str]]) -> None:
    app = make_app()
    task = app.task("add", add)
    results = app.send_many([task.to_send(), task.to_send(), task.to_send(b=1), task.to_send(1, 2, 3)])
    first, second = told()
    assert first.startswith(f"{REASON} [VALIDATION_FAILED], 3 times, at {__file__}:")
    assert "too many positional arguments" in second
    del results
    (dropped,) = told()
    assert dropped.startswith(f"{DROPPED}4 of 4 calls of a send_many, at {__file__}:")


async def test_send_or_raise_raises_and_does_not_log(task: Any, told: Callable[[], list[str]]) -> None:
    for send in (task.send_or_raise, task.with_options(priority=5).send_or_raise):
        with pytest.raises(SendFailedError) as raised:
            send()
        assert str(raised.value) == f"{REASON} [VALIDATION_FAILED]"
        assert raised.value.error.code is TaskSendErrorCode.VALIDATION_FAILED
    for send in (task.send_or_raise_async, task.with_options(priority=5).send_or_raise_async):
        with pytest.raises(SendFailedError):
            await send()
    assert told() == []


async def test_an_application_may_want_exceptions_everywhere(told: Callable[[], list[str]]) -> None:
    app = make_app(raise_send_errors=True)
    task: Any = app.task("add", add)
    for send in (task.send, task.with_options(priority=5).send):
        with pytest.raises(SendFailedError):
            send()
    with pytest.raises(SendFailedError):
        await task.send_async()
    with pytest.raises(SendFailedError, match="2 of 2 calls failed; the first: task 'add'") as raised:
        app.send_many([task.to_send(), task.to_send(1, 2, 3)])
    assert [is_err(result) for result in raised.value.results] == [True, True]
    assert told() == []


def test_a_script_without_any_logging_shows_why_on_stderr() -> None:
    script = (
        "from horsies import *\n"
        "app = Horsies(AppConfig(broker=PostgresConfig(database_url='postgresql://u@localhost:1/x')))\n"
        "@app.task('add')\n"
        "def add(a: int) -> TaskResult[int, TaskError]:\n"
        "    return TaskResult(ok=a)\n"
        "add.send('one')\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    failed, dropped = ran.stderr.splitlines()
    assert failed.startswith("task 'add' was not sent: the arguments do not fit add(a): a is str, not int")
    assert failed.endswith("[VALIDATION_FAILED], at <string>:6")
    assert dropped == DROPPED + failed
