"""Optimised paths of sending agree with the general ones; what a failed send tells the caller."""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import pickle
import subprocess
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from codec_models import Colour, Level, OldStyleColour, Order, Parcel
from hypothesis import example, given, settings, strategies as st
from task_apps import make_app

from horsies import (
    AppConfig,
    Err,
    Horsies,
    MapNode,
    Ok,
    PostgresConfig,
    SendFailedError,
    TaskError,
    TaskResult,
    TaskSendErrorCode,
    is_err,
    is_ok,
)
from horsies.domain.codec import CodecError, dump_args, dump_kwargs, dump_value
from horsies.domain.codec.json_text import plain_json, to_json
from horsies.domain.codec.write import MAX_INTEGER_BITS, to_tree
from horsies.domain.ids import canonical_time, enqueue_sha, new_task_id
from horsies.domain.result import UnseenErr
from horsies.domain.tags import RESERVED
from horsies.testing import inline

Pair = namedtuple("Pair", ["left", "right"])


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __repr__(self) -> str:
        return "something else"


class Sneaky(dict[str, Any]):
    def items(self) -> Any:
        return {"other": 1}.items()


SHARED: list[Any] = [1]
LIST_LOOP: list[Any] = [1]
LIST_LOOP.append(LIST_LOOP)
DICT_LOOP: dict[str, Any] = {}
DICT_LOOP["again"] = [DICT_LOOP]
LARGEST = 2**MAX_INTEGER_BITS - 1


def nested(value: Any, depth: int) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


lookalikes = [
    Colour.RED,
    OldStyleColour.RED,
    Level.LOW,
    Text("x"),
    Number(7),
    Pair(1, 2),
    Sneaky(a=2),
    OrderedDict(a=2),
]
tagged = [Order(number=1, placed=datetime(2026, 1, 2, tzinfo=UTC)), Parcel(1.5, date(2026, 1, 2)), date(2026, 1, 2)]
refused = [b"x", {1}, object, Ellipsis, LIST_LOOP, DICT_LOOP, LARGEST + 1, -LARGEST - 1, "x" * 5_000 + "\ud800"]
large = [LARGEST, -LARGEST, "x" * 5_000, "ä" * 5_000]
odd = st.sampled_from([*lookalikes, *tagged, *refused, *large, SHARED])
texts = st.text(st.characters(), max_size=6)  # lone surrogates and NUL too
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
keys = texts | st.sampled_from([*sorted(RESERVED), Colour.RED, OldStyleColour.RED, Text("x")]) | st.integers(0, 3)
values = st.recursive(
    scalars | odd,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.builds(nested, inner, st.integers(1, 110))
    ),
    max_leaves=8,
)


def walked(value: Any, name: str = "value") -> str:
    """The text by the general path."""
    return to_json(to_tree(value, name), name)


def outcome(write: Callable[..., str | None], *args: Any) -> tuple[str, str | None]:
    try:
        return "text", write(*args)
    except CodecError as error:
        return "refusal", f"{error.path} | {error}"


@settings(max_examples=400)
@given(values)
@example(float("nan"))
@example({"a": [float("inf")]})
@example(-0.0)
@example(1e-7)
@example("\ud800")
@example({"\ud800": 1})
@example({"__date__": 1})
@example([[], {}, ()])
@example(LIST_LOOP)
@example(DICT_LOOP)
@example([SHARED, SHARED])
@example(LARGEST + 1)
@example(nested(1, 100))
@example(nested(1, 101))
def test_a_value_has_one_text_or_one_refusal(value: Any) -> None:
    assert outcome(dump_value, value) == outcome(walked, value)


@settings(max_examples=200)
@given(st.lists(values, min_size=1, max_size=3), st.dictionaries(texts, values, min_size=1, max_size=3))
def test_arguments_have_one_text_or_one_refusal(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert outcome(dump_args, args) == outcome(walked, args, "args") == outcome(dump_args, tuple(args))
    assert outcome(dump_kwargs, kwargs) == outcome(walked, kwargs, "kwargs")


@pytest.mark.parametrize("digits", [5_000, 4_301, 4_216, 4_215, 4_214, 3_995])
@pytest.mark.parametrize("sign", [1, -1])
def test_long_integers_have_one_text_or_one_refusal(digits: int, sign: int) -> None:
    for value in (sign * 10 ** (digits - 1), [sign * 10 ** (digits - 1)], {"a": (sign * (10**digits - 1),)}):
        assert outcome(dump_value, value) == outcome(walked, value)


@pytest.mark.parametrize("value", [(5, "x"), {"a": [1, {"b": (None, True, 1.5)}]}, [], "ä\0\n", nested(1, 8)])
def test_plain_values_take_the_short_way(value: Any) -> None:
    assert plain_json(value) == walked(value)


@pytest.mark.parametrize(
    "value", [Level.LOW, Text("x"), {1: 2}, Pair(1, 2), "x" * 4_000, nested(1, 9), {"__date__": 1}]
)
def test_what_only_looks_plain_takes_the_long_way(value: Any) -> None:
    assert plain_json(value) is None


moments = st.datetimes(timezones=st.timezones(), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))  # noqa: DTZ001
maybe = st.none() | texts


@given(texts, texts, st.integers(), maybe, maybe, moments, st.none() | moments, st.none() | st.integers(), maybe)
def test_the_fingerprint_is_that_of_the_whole_json_array(
    task_name: str,
    queue_name: str,
    priority: int,
    args_json: str | None,
    kwargs_json: str | None,
    sent_at: datetime,
    good_until: datetime | None,
    delay: int | None,
    task_options: str | None,
) -> None:
    parts = [task_name, queue_name, priority, args_json, kwargs_json, canonical_time(sent_at)]
    parts += [good_until and canonical_time(good_until), delay, task_options]
    found = enqueue_sha(
        task_name=task_name,
        queue_name=queue_name,
        priority=priority,
        args_json=args_json,
        kwargs_json=kwargs_json,
        sent_at=sent_at,
        good_until=good_until,
        enqueue_delay_seconds=delay,
        task_options=task_options,
    )
    assert found == hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def randoms(count: int) -> list[str]:
    return [new_task_id()[-12:] for _ in range(count)]


def test_the_random_half_of_an_id_repeats_neither_here_nor_in_forked_children() -> None:
    drawn = randoms(1)  # the block that it came from must not be used by the children
    children = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, "\n".join(randoms(100)).encode())
            os._exit(0)
        os.close(writer)
        children.append((child, reader))
    drawn += randoms(2_000)
    for child, reader in children:
        os.waitpid(child, 0)
        with os.fdopen(reader) as pipe:
            drawn += pipe.read().split("\n")
    assert len(drawn) == 2_201
    assert len(set(drawn)) == len(drawn)


KEYS = [UUID(int=1), UUID(int=2)]


def named(key: UUID) -> TaskResult[UUID, TaskError]:
    return TaskResult(ok=key)


def test_a_handle_made_of_an_id_gives_a_value_of_the_declared_type() -> None:
    app = make_app()
    task: Any = app.task("named", named)
    with inline(app) as queue:
        sent = task.send_or_raise(KEYS[0])
        assert task.handle(sent.task_id).get().unwrap() == KEYS[0]
        assert queue.sent(task)[0].args == [KEYS[0]]


def test_values_of_a_map_have_the_declared_type() -> None:
    app = make_app()
    each = MapNode(app.task("named", named), KEYS, node_id="each")
    with inline(app):
        handle = app.workflow("flow", [each], output=each, definition_key="flow").start().unwrap()
        assert handle.get().unwrap() == handle.result_for(each).unwrap() == KEYS


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_the_url_for_other_libraries_names_their_driver(scheme: str) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=f"{scheme}://u:p@db:5432/shop")))
    assert app.database_url() == "postgresql://u:p@db:5432/shop"
    assert app.database_url("asyncpg") == "postgresql+asyncpg://u:p@db:5432/shop"


def test_the_place_of_an_error_of_an_import_is_the_users_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.environ` is frozen into the interpreter, and has no file below the installation."""
    (tmp_path / "needs_a_url.py").write_text('import os\n\nURL = os.environ["NO_SUCH_URL"]\n')
    monkeypatch.syspath_prepend(tmp_path)
    app = make_app()
    app.discover_tasks(["needs_a_url"])
    (error,) = app.check()
    assert error.location is not None
    assert (error.location.file, error.location.line) == (str(tmp_path / "needs_a_url.py"), 3)
    assert error.help_text == "correct the module; `python -c 'import needs_a_url'` shows where it fails"


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
