"""Spans of sends and runs across real processes: one trace from the send to the finish, links to what came before."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked_commands import Program
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from test_worker import HERE, PATIENCE_S, Table, Worker, options

from horsies import AppConfig, Horsies, PostgresConfig, RetryPolicy, TaskError, TaskResult

Span = dict[str, Any]


class Producer:
    """A program of its own that sends what the worker runs, and records its spans in memory."""

    def __init__(self, database: str) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.app = app = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
        app.trace(provider)

        @app.task("inside")
        def inside() -> TaskResult[str, TaskError]: ...

        @app.task("inside_async")
        async def inside_async() -> TaskResult[str, TaskError]: ...

        @app.task("refuse")
        def refuse() -> TaskResult[None, TaskError]: ...

        @app.task("flaky", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["TRY_AGAIN"], jitter=False))
        def flaky(count_file: str, failures: int) -> TaskResult[int, TaskError]: ...

        self.inside, self.inside_async, self.refuse, self.flaky = inside, inside_async, refuse, flaky

    def spans(self) -> list[Span]:
        return [json.loads(span.to_json()) for span in self.exporter.get_finished_spans()]


@pytest.fixture
def producer(database: str) -> Producer:
    return Producer(database)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return tmp_path / "spans"


@pytest.fixture
def start(start: Callable[..., Worker], recorded: Path) -> Callable[..., Worker]:
    return partial(start, app="trace_app:app", TEST_SPANS=str(recorded))


def spans_in(file: Path) -> list[Span]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def runs_of(file: Path, task_id: str, number: int = 1) -> list[Span]:
    """The spans of the runs of this task, once there are so many: each is written before its outcome is sent."""
    async with asyncio.timeout(20):
        while len(found := [one for one in spans_in(file) if id_in(one) == task_id]) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


def id_in(span: Span) -> str | None:
    return span["attributes"].get("messaging.message.id")


def where(span: Span) -> tuple[str, str]:
    return span["context"]["trace_id"], span["context"]["span_id"]


def ids(links: list[Span]) -> set[str]:
    return {link["context"]["span_id"] for link in links}


async def test_a_trace_goes_from_the_send_through_the_child_into_user_code(
    start: Callable[..., Worker], producer: Producer, recorded: Path
) -> None:
    start()
    for name in ("inside", "inside_async"):
        await is_one_trace(producer, recorded, name)
    await producer.app.get_broker().close_async()


async def is_one_trace(producer: Producer, recorded: Path, name: str) -> None:
    handle = (await getattr(producer, name).send_async()).unwrap()
    current = (await handle.get_async(20_000)).unwrap()
    send = producer.spans()[-1]
    (run,) = await runs_of(recorded, handle.task_id)
    *_, inner = [one for one in spans_in(recorded) if one["name"] == "inner"]
    assert (send["name"], send["kind"], send["parent_id"]) == ("send default", "SpanKind.PRODUCER", None)
    assert send["attributes"] == {
        "messaging.system": "horsies",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": handle.task_id,
        "horsies.task.name": name,
    }
    assert (run["name"], run["kind"], run["parent_id"]) == ("process default", "SpanKind.CONSUMER", where(send)[1])
    assert run["attributes"] == {
        "messaging.system": "horsies",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": handle.task_id,
        "horsies.task.name": name,
        "horsies.task.attempt": 1,
    }
    assert run["status"]["status_code"] == "UNSET"
    assert f"0x{current}" == where(run)[1] == inner["parent_id"]
    assert {where(one)[0] for one in (send, run, inner)} == {where(send)[0]}


async def test_failures_retries_and_rows_without_a_trace(
    table: Table, start: Callable[..., Worker], producer: Producer, recorded: Path, tmp_path: Path
) -> None:
    """A failure is an error of its span; a retry belongs to the same send, and links to the run before it."""
    start()
    handle = (await producer.refuse.send_async()).unwrap()
    await handle.get_async(20_000)
    (run,) = await runs_of(recorded, handle.task_id)
    assert run["status"] == {"status_code": "ERROR", "description": "no"}
    assert run["attributes"]["error.type"] == "CARD_DECLINED"
    handle = (await producer.flaky.send_async(str(tmp_path / "runs"), 1)).unwrap()
    await handle.get_async(20_000)
    first, second = await runs_of(recorded, handle.task_id, 2)
    send = producer.spans()[-1]
    assert (first["parent_id"], second["parent_id"]) == (where(send)[1], where(send)[1])
    assert (first["links"], ids(second["links"])) == ([], {where(first)[1]})
    assert [run["attributes"]["horsies.task.attempt"] for run in (first, second)] == [1, 2]
    row = await table.row(handle.task_id)
    assert json.loads(row["task_options"])["retry_policy"]["auto_retry_for"] == ["TRY_AGAIN"]
    await producer.app.get_broker().close_async()
    # Rows without a trace begin one, and damaged ones run all the same.
    plain = await table.send("inside")
    damaged = [
        await table.send("inside", task_options=text)
        for text in ('{"trace":', '{"trace":7}', '{"trace":{"traceparent":"nonsense","links":[3,"x"]}}')
    ]
    for task_id in (plain, *damaged):
        assert (await table.done(task_id))["status"] == "COMPLETED"
        (run,) = await runs_of(recorded, task_id)
        assert (run["parent_id"], run["links"]) == (None, [])


async def test_a_batch_is_one_span_and_a_refused_send_is_its_error(producer: Producer) -> None:
    calls = [producer.refuse.to_send(), producer.inside.to_send()]
    sent = await producer.app.send_many_async(calls)
    assert all(one.is_ok() for one in sent)
    assert (await producer.flaky.send_async("x", "no number")).is_err()  # type: ignore[arg-type]
    batch, refused = producer.spans()
    assert batch["attributes"]["messaging.batch.message_count"] == 2
    assert refused["status"]["status_code"] == "ERROR"
    assert refused["attributes"]["error.type"] == "VALIDATION_FAILED"
    await producer.app.get_broker().close_async()


async def test_an_exporter_that_raises_fails_no_task(table: Table, start: Callable[..., Worker]) -> None:
    start(TEST_EXPORTER="broken")
    for name in ("inside", "inside_async"):
        assert (await table.done(await table.send(name)))["status"] == "COMPLETED"


async def test_a_workflow_is_one_trace_and_nodes_link_to_what_they_waited_for(
    database: str, table: Table, start: Callable[..., Worker], recorded: Path
) -> None:
    start("--processes", "2")
    started: Program[bytes] = Program(
        "from trace_app import traced_workflow;"
        " handle = traced_workflow().start().unwrap(); handle.get(timeout_ms=20_000).unwrap()",
        cwd=HERE,
        env={**os.environ, "HORSIES_DATABASE_URL": database, "TEST_SPANS": str(recorded)},
    )
    assert await asyncio.to_thread(started.wait, PATIENCE_S) == 0
    rows = await table.connection.fetch(
        "SELECT node.task_id, workflow.name, node.node_id FROM horsies_workflow_tasks node"
        " JOIN horsies_workflows workflow ON workflow.id = node.workflow_id WHERE NOT node.is_subworkflow"
    )
    assert len(rows) == 7  # first, side, last, three items, the child's one
    runs = {row["node_id"]: (await runs_of(recorded, row["task_id"]))[0] for row in rows}
    (send,) = [one for one in spans_in(recorded) if one["kind"] == "SpanKind.PRODUCER"]
    assert send["name"] == "send traced"
    assert send["attributes"]["messaging.message.id"] == send["attributes"]["horsies.workflow.id"]
    assert {where(run)[0] for run in runs.values()} == {where(send)[0]}
    assert {run["parent_id"] for run in runs.values()} == {where(send)[1]}
    assert ids(runs["last"]["links"]) == {where(runs["first"])[1], where(runs["side"])[1]}
    assert ids(runs["first"]["links"]) == set()


def test_the_options_of_a_retry_are_those_that_other_programs_read() -> None:
    assert json.loads(options(["X"])).keys() == {"retry_policy", "good_until"}
