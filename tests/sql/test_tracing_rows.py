"""What tracing adds to the rows of tasks: a key beside the retry policy, and nothing where nothing is recorded."""

from __future__ import annotations

import json

import asyncpg
from opentelemetry.sdk.trace import TracerProvider

from horsies import AppConfig, Horsies, PostgresConfig, RetryPolicy, TaskError, TaskResult


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
