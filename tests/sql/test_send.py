"""The rows of a send: single, repeated, in bulk, with a trace, and inside the caller's own transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from opentelemetry.sdk.trace import TracerProvider

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    PostgresConfig,
    QueueMode,
    RetryPolicy,
    TaskError,
    TaskHandle,
    TaskResult,
    TaskSendError,
    TaskSendErrorCode,
)
from horsies.domain.codec import load_args, load_kwargs
from horsies.domain.ids import enqueue_sha

UNREACHABLE = "postgresql://nobody@localhost:1/none"
NO_OPTIONS = '{"retry_policy":null,"good_until":null}'


def add(a: Any, b: Any = 2) -> TaskResult[Any, TaskError]:
    return TaskResult(ok=(a, b))


@pytest.fixture
def away() -> Iterator[Horsies]:
    """An application whose database is down."""
    made = Horsies(AppConfig(broker=PostgresConfig(database_url=UNREACHABLE)))
    yield made
    made.get_broker().close()


@pytest.fixture
def error(away: Horsies) -> TaskSendError:
    """The error of a send while the database is down."""
    return away.task("add", add).send(1, b=3).unwrap_err()


async def row_of(connection: asyncpg.Connection, handle: TaskHandle[Any]) -> asyncpg.Record:
    row = await connection.fetchrow("SELECT * FROM horsies_tasks WHERE id = $1", handle.task_id)
    assert row is not None
    return row


async def count(connection: asyncpg.Connection) -> int:
    found: int = await connection.fetchval("SELECT count(*) FROM horsies_tasks")
    return found


async def test_a_sent_task_is_the_documented_row(app: Horsies, connection: asyncpg.Connection) -> None:
    before = datetime.now(UTC)
    handle = app.task("add", add).send(1, b="zwölf").unwrap()
    row = await row_of(connection, handle)
    assert (row["task_name"], row["queue_name"], row["priority"], row["status"]) == ("add", "default", 100, "PENDING")
    assert (row["args"], row["kwargs"], row["task_options"]) == ("[1]", '{"b":"zwölf"}', NO_OPTIONS)
    assert (row["retry_count"], row["max_retries"], row["claimed"], row["good_until"]) == (0, 0, False, None)
    assert (row["unique_key"], row["is_workflow_task"]) == (None, False)
    assert before <= row["sent_at"] <= datetime.now(UTC)
    assert row["enqueue_sha"] == enqueue_sha(
        task_name="add",
        queue_name="default",
        priority=100,
        args_json=row["args"],
        kwargs_json=row["kwargs"],
        sent_at=row["sent_at"],
        task_options=row["task_options"],
    )


async def test_a_retry_policy_travels_with_its_task(app: Horsies, connection: asyncpg.Connection) -> None:
    policy = RetryPolicy.fixed([5, 10], auto_retry_for=["BUSY"])
    row = await row_of(connection, app.task("add", add, retry_policy=policy).send(1).unwrap())
    assert row["max_retries"] == 2
    assert row["task_options"] == (
        '{"retry_policy":{"max_retries":2,"intervals":[5,10],"backoff_strategy":"fixed","jitter":true,'
        '"auto_retry_for":["BUSY"]},"good_until":null}'
    )


@pytest.mark.parametrize("form", ["schedule", "schedule_async", "delay", "timedelta"])
async def test_a_delayed_task_is_due_by_the_clock_of_the_database(
    app: Horsies, connection: asyncpg.Connection, form: str
) -> None:
    task = app.task("add", add)
    earliest = await connection.fetchval("SELECT clock_timestamp()")
    match form:
        case "schedule":
            sent = task.schedule(3600, 1)
        case "schedule_async":
            sent = await task.schedule_async(3600, 1)
        case "delay":
            sent = task.with_options(delay=3600).send(1)
        case _:
            sent = await task.with_options(delay=timedelta(hours=1)).send_async(1)
    latest = await connection.fetchval("SELECT clock_timestamp()")
    row = await row_of(connection, sent.unwrap())
    assert earliest <= row["enqueued_at"] - timedelta(hours=1) <= latest
    assert row["enqueue_sha"] == enqueue_sha(
        task_name="add",
        queue_name="default",
        priority=100,
        args_json="[1]",
        kwargs_json=None,
        sent_at=row["sent_at"],
        enqueue_delay_seconds=3600,
        task_options=NO_OPTIONS,
    )


async def test_a_deadline_is_stored_in_utc_in_its_column_and_in_the_options(
    app: Horsies, connection: asyncpg.Connection
) -> None:
    deadline = datetime.fromisoformat("2126-11-18T08:31:17+02:00")
    row = await row_of(connection, app.task("add", add).with_options(good_until=deadline).send(1).unwrap())
    assert row["good_until"] == deadline
    assert row["task_options"] == '{"retry_policy":null,"good_until":"2126-11-18T06:31:17+00:00"}'


def test_a_send_without_a_database_says_that_it_can_be_repeated(error: TaskSendError) -> None:
    assert (error.code, error.retryable) == (TaskSendErrorCode.ENQUEUE_FAILED, True)
    assert "localhost:1" in error.message
    assert error.task_id is not None
    assert error.payload is not None
    assert (error.payload.task_name, error.payload.args_json, error.payload.kwargs_json) == ("add", "[1]", '{"b":3}')
    assert error.exception is not None


async def test_a_repeated_send_stores_the_same_task_once(
    app: Horsies, error: TaskSendError, connection: asyncpg.Connection
) -> None:
    task = app.task("add", add)
    for sent in (task.retry_send(error), await task.retry_send_async(error), task.retry_send(error)):
        assert sent.unwrap().task_id == error.task_id
    assert await count(connection) == 1
    row = await row_of(connection, task.retry_send(error).unwrap())
    assert error.payload is not None
    assert (row["sent_at"], row["enqueue_sha"]) == (error.payload.sent_at, error.payload.enqueue_sha)
    assert (row["args"], row["kwargs"]) == ("[1]", '{"b":3}')


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_repeated_schedule_counts_its_delay_from_the_repetition(
    app: Horsies, away: Horsies, connection: asyncpg.Connection, awaited: bool
) -> None:
    error = (await away.task("add", add).schedule_async(3600, 1)).unwrap_err()
    task = app.task("add", add)
    earliest = await connection.fetchval("SELECT clock_timestamp()")
    sent = await task.retry_schedule_async(error) if awaited else task.retry_schedule(error)
    row = await row_of(connection, sent.unwrap())
    assert row["id"] == error.task_id
    assert row["enqueued_at"] >= earliest + timedelta(seconds=3600)


async def test_a_unique_key_survives_the_repetition(
    app: Horsies, away: Horsies, connection: asyncpg.Connection
) -> None:
    bound = away.task("add", add).with_options(unique_key="daily")
    error = bound.send(1).unwrap_err()
    row = await row_of(connection, app.task("add", add).retry_send(error).unwrap())
    assert row["unique_key"] == "daily"


async def test_the_same_id_with_something_else_is_a_mismatch(
    app: Horsies, error: TaskSendError, connection: asyncpg.Connection
) -> None:
    task = app.task("add", add)
    task.retry_send(error).unwrap()
    assert error.payload is not None
    other = replace(error, payload=replace(error.payload, args_json="[2]", enqueue_sha="f" * 64))
    mismatch = task.retry_send(other).unwrap_err()
    assert (mismatch.code, mismatch.retryable) == (TaskSendErrorCode.PAYLOAD_MISMATCH, False)
    assert mismatch.task_id == error.task_id
    assert await count(connection) == 1


async def test_a_connection_that_cannot_be_used_is_an_err(app: Horsies, database: str) -> None:
    task = app.task("add", add)
    mine = await asyncpg.connect(database)
    awaited_only = task.with_options(connection=mine).send(1).unwrap_err()
    assert "send_async" in awaited_only.message
    foreign = task.with_options(connection=object()).send(1).unwrap_err()
    assert "asyncpg, psycopg or psycopg2" in foreign.message
    await mine.close()
    closed = (await task.with_options(connection=mine).send_async(1)).unwrap_err()
    assert {awaited_only.retryable, foreign.retryable, closed.retryable} == {False}
    assert closed.code is TaskSendErrorCode.ENQUEUE_FAILED


async def test_a_send_may_have_a_queue_a_limit_and_a_due_time_of_its_own(
    database: str, connection: asyncpg.Connection
) -> None:
    queues = [CustomQueueConfig(name="mail", priority=3), CustomQueueConfig(name="bulk", priority=50)]
    broker = PostgresConfig(database_url=database)
    app = Horsies(AppConfig(broker=broker, queue_mode=QueueMode.CUSTOM, custom_queues=queues, default_queue="mail"))
    task, at = app.task("add", add), datetime.now(UTC) + timedelta(hours=2, microseconds=7)
    usual = await row_of(connection, task.send(1).unwrap())
    assert (usual["queue_name"], usual["priority"], usual["task_options"]) == ("mail", 3, NO_OPTIONS)
    own = await row_of(connection, task.with_options(queue="bulk", timeout_ms=1_500, at=at).send(1).unwrap())
    assert (own["queue_name"], own["priority"], own["enqueued_at"]) == ("bulk", 50, at)
    assert own["task_options"] == '{"retry_policy":null,"good_until":null,"timeout_ms":1500}'
    first = await row_of(connection, task.with_options(queue="bulk", priority=1, delay=0.25).send(1).unwrap())
    assert first["priority"] == 1
    waits = await connection.fetchval("SELECT enqueued_at - created_at FROM horsies_tasks WHERE id = $1", first["id"])
    assert timedelta(seconds=0.24) < waits < timedelta(seconds=10)
    app.get_broker().close()


async def test_a_failed_send_with_a_due_time_is_sent_again_for_the_same_time(
    app: Horsies, away: Horsies, connection: asyncpg.Connection
) -> None:
    at = datetime.now(UTC) + timedelta(hours=2)
    error = away.task("add", add).with_options(at=at).send(1).unwrap_err()
    assert (await row_of(connection, app.task("add", add).retry_send(error).unwrap()))["enqueued_at"] == at


async def test_many_calls_are_stored_in_their_order(app: Horsies, connection: asyncpg.Connection) -> None:
    task, other = app.task("add", add), app.task("other", lambda_like)
    calls = [task.to_send(n) if n % 2 else other.with_options(priority=7).to_send(n) for n in range(500)]
    handles = [result.unwrap() for result in app.send_many(calls)]
    rows = await connection.fetch("SELECT id, task_name, args, priority FROM horsies_tasks ORDER BY id")
    assert [row["id"] for row in rows] == [handle.task_id for handle in handles]
    assert [row["args"] for row in rows] == [f"[{n}]" for n in range(500)]
    assert {(row["task_name"], row["priority"]) for row in rows} == {("add", 100), ("other", 7)}


def lambda_like(n: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=n)


async def test_calls_that_cannot_be_sent_do_not_hold_up_the_others(
    app: Horsies, connection: asyncpg.Connection
) -> None:
    task: Any = app.task("add", add)
    results = await app.send_many_async(
        [
            task.to_send(1),
            task.to_send(),
            task.with_options(unique_key="k").to_send(2),
            task.to_send({1}),
            task.with_options(unique_key="k").to_send(3),
            task.with_options(delay=60).to_send(4),
        ]
    )
    assert [result.is_ok() for result in results] == [True, False, True, False, True, True]
    assert results[2].unwrap().task_id == results[4].unwrap().task_id
    stored = await connection.fetch("SELECT args FROM horsies_tasks ORDER BY id")
    assert [row["args"] for row in stored] == ["[1]", "[2]", "[4]"]


async def test_when_the_database_is_away_each_of_many_calls_can_be_repeated(
    app: Horsies, away: Horsies, connection: asyncpg.Connection
) -> None:
    task = away.task("add", add)
    errors = [result.unwrap_err() for result in await away.send_many_async([task.to_send(n) for n in range(3)])]
    assert {(error.code, error.retryable) for error in errors} == {(TaskSendErrorCode.ENQUEUE_FAILED, True)}
    here = app.task("add", add)
    assert [here.retry_send(error).unwrap().task_id for error in errors] == [error.task_id for error in errors]
    assert await count(connection) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.tuples(JSON, JSON), min_size=1, max_size=8))
def test_what_was_sent_is_what_runs(app: Horsies, database: str, values: list[tuple[Any, Any]]) -> None:
    task = app.tasks.get("add") or app.task("add", add)
    handles = [result.unwrap() for result in app.send_many([task.to_send(a, b=b) for a, b in values])]
    with psycopg.connect(database) as connected:
        ids = [handle.task_id for handle in handles]
        rows = connected.execute("SELECT args, kwargs FROM horsies_tasks WHERE id = ANY(%s) ORDER BY id", [ids])
        results = [task.run(load_args(args).unwrap(), load_kwargs(kwargs).unwrap()) for args, kwargs in rows]
    assert [result.ok_value for result in results] == values


async def options_of(connection: asyncpg.Connection, app: Horsies) -> list[str]:
    """The task_options of a send, of one with a deadline, and of one in a batch."""

    @app.task("work", retry_policy=RetryPolicy.fixed([60], auto_retry_for=["X"]))
    def work() -> TaskResult[None, TaskError]:
        return TaskResult(ok=None)

    sent = [(await work.send_async()).unwrap(), (await work.schedule_async(60)).unwrap()]
    sent += [one.unwrap() for one in await app.send_many_async([work.to_send()])]
    await app.get_broker().close_async()
    rows = await connection.fetch("SELECT id, task_options, max_retries FROM horsies_tasks")
    assert {row["max_retries"] for row in rows} == {1}
    options = {row["id"]: row["task_options"] for row in rows}
    return [options[handle.task_id] for handle in sent]


async def test_a_trace_stands_beside_the_retry_policy(connection: asyncpg.Connection, database: str) -> None:
    config = AppConfig(broker=PostgresConfig(database_url=database))
    plain = await options_of(connection, Horsies(config))
    assert len(set(plain)) == 1
    unrecorded = Horsies(config)
    unrecorded.trace()  # no provider is set anywhere: OpenTelemetry records nothing
    assert await options_of(connection, unrecorded) == plain
    recorded = Horsies(config)
    recorded.trace(TracerProvider())
    traced = await options_of(connection, recorded)
    parents = [json.loads(options)["trace"]["traceparent"] for options in traced]
    assert len(set(parents)) == 3
    for options, before in zip(traced, plain, strict=True):
        tree = json.loads(options)
        assert tree.pop("trace").keys() == {"traceparent"}
        assert tree == json.loads(before)


async def test_a_send_that_is_repeated_is_the_same_send(connection: asyncpg.Connection, database: str) -> None:
    """Its fingerprint covers the options, and with them the trace of the first try."""
    app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/none")))
    app.trace(TracerProvider())

    @app.task("work")
    def work() -> TaskResult[None, TaskError]:
        return TaskResult(ok=None)

    failed = (await work.send_async()).err_value
    await app.get_broker().close_async()
    there = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
    there.trace(TracerProvider())
    again = there.task("work", work._original_fn)
    for _ in range(2):
        assert (await again.retry_send_async(failed)).unwrap().task_id == failed.task_id
    (row,) = await connection.fetch("SELECT task_options FROM horsies_tasks")
    assert row["task_options"] == failed.payload.task_options
    assert "traceparent" in row["task_options"]
    await there.get_broker().close_async()
