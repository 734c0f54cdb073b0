"""Sends are stored once per id and once per live key, all or none, and do not affect others in the batch."""

from __future__ import annotations

import asyncio
import traceback
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from until import PRODUCERS, until

from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.domain.ids import new_task_id
from horsies.domain.result import Ok
from horsies.handle import BrokerErrorCode
from horsies.store.enqueue import Enqueued, EnqueueOutcome, EnqueueRequest, enqueue_many, enqueue_one, one

CREATED, SAME, MISMATCH, LIVE_DUPLICATE = EnqueueOutcome
# Of one request, the row of enqueue_conflicts.
NOTHING_FOUND = (None, None, None, None)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def request(task_id: str | None = None, **columns: Any) -> EnqueueRequest:
    asked = {"task_name": "demo.add", "enqueue_sha": "a" * 64, "sent_at": NOON, **columns}
    return EnqueueRequest(task_id=task_id or new_task_id(), **asked)


async def ids(connection: asyncpg.Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch("SELECT id FROM horsies_tasks ORDER BY id")]


async def test_every_column_is_stored_as_it_was_asked(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    asked = request(
        queue_name="mail",
        priority=7,
        args_json="[1]",
        kwargs_json='{"b":2}',
        task_options='{"retry_policy":{"max_retries":4},"good_until":null}',
        good_until=NOON + timedelta(days=1),
        enqueued_at=NOON + timedelta(hours=1),
        unique_key="order 7",
    )
    assert await broker.send_async(asked) == Ok(Enqueued(asked.task_id, CREATED))
    row = dict(await connection.fetchrow("SELECT * FROM horsies_tasks"))
    expected = {
        "id": asked.task_id,
        "task_name": "demo.add",
        "enqueue_sha": "a" * 64,
        "sent_at": NOON,
        "queue_name": "mail",
        "priority": 7,
        "args": "[1]",
        "kwargs": '{"b":2}',
        "task_options": asked.task_options,
        "good_until": NOON + timedelta(days=1),
        "enqueued_at": NOON + timedelta(hours=1),
        "unique_key": "order 7",
        "max_retries": 4,
        "status": "PENDING",
        "claimed": False,
        "retry_count": 0,
        "is_workflow_task": False,
    }
    assert {name: row[name] for name in expected} == expected
    assert all(
        value is None for name, value in row.items() if name not in expected | {"created_at": 0, "updated_at": 0}
    )


@pytest.mark.parametrize(
    ("options", "retries"),
    [
        (None, 0),
        ('{"retry_policy":null,"good_until":null}', 0),
        ('{"retry_policy":{"auto_retry_for":["X"]}}', 3),
        ('{"retry_policy":{"max_retries":9}}', 9),
    ],
)
async def test_the_number_of_retries_comes_from_the_options(
    broker: PostgresBroker, connection: asyncpg.Connection, options: str | None, retries: int
) -> None:
    assert (await broker.send_async(request(task_options=options))).is_ok()
    assert await connection.fetchval("SELECT max_retries FROM horsies_tasks") == retries


async def test_a_delay_counts_from_the_send_also_in_a_transaction_that_began_before(
    connection: asyncpg.Connection,
) -> None:
    async with connection.transaction():
        began = await connection.fetchval("SELECT now()")
        await until(connection, "clock_timestamp() > now() + interval '20 ms'")
        await enqueue_one(connection, request(delay_seconds=1.5))
        await enqueue_many(connection, [request(delay_seconds=1.5)])
    for due in await connection.fetch("SELECT enqueued_at FROM horsies_tasks"):
        assert timedelta(seconds=1.52) < due["enqueued_at"] - began < timedelta(seconds=11)


async def test_without_a_delay_a_task_is_due_at_once(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await broker.perform_async(broker.insertions([request()]))
    await broker.send_async(request())
    assert await connection.fetchval("SELECT bool_and(enqueued_at <= clock_timestamp()) FROM horsies_tasks")


def test_an_id_that_was_there_and_is_pruned_counts_as_sent() -> None:
    asked = request()
    steps = one(asked)
    next(steps)
    steps.send([])  # the insert did nothing
    with pytest.raises(StopIteration) as end:
        steps.send([NOTHING_FOUND])  # now the id is free
    assert end.value.value == Enqueued(asked.task_id, SAME)


def test_a_key_whose_holder_ended_in_between_is_taken() -> None:
    asked = request(unique_key="k")
    steps = one(asked)
    insert = next(steps)
    steps.send([])
    assert steps.send([NOTHING_FOUND]) == insert
    with pytest.raises(StopIteration) as end:
        steps.send([(asked.task_id,)])
    assert end.value.value == Enqueued(asked.task_id, CREATED)


@pytest.mark.parametrize("status", ["PENDING", "CLAIMED", "RUNNING"])
async def test_a_key_stands_for_the_live_task_that_has_it(
    broker: PostgresBroker, connection: asyncpg.Connection, status: str
) -> None:
    first = (await broker.send_async(request(unique_key="k"))).unwrap()
    await connection.execute("UPDATE horsies_tasks SET status = $1", status)
    assert await broker.send_async(request(unique_key="k")) == Ok(Enqueued(first.task_id, LIVE_DUPLICATE))
    assert (await broker.send_async(request(unique_key="another"))).unwrap().outcome is CREATED
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 2


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"])
async def test_a_key_is_free_when_its_task_is_final(
    broker: PostgresBroker, connection: asyncpg.Connection, status: str
) -> None:
    await broker.send_async(request(unique_key="k"))
    await connection.execute("UPDATE horsies_tasks SET status = $1", status)
    assert (await broker.send_async(request(unique_key="k"))).unwrap().outcome is CREATED


@pytest.mark.parametrize(("end", "expected"), [("COMMIT", LIVE_DUPLICATE), ("ROLLBACK", CREATED)])
async def test_a_key_in_an_open_transaction_makes_only_the_send_of_the_same_key_wait(
    broker: PostgresBroker,
    connection: asyncpg.Connection,
    other: asyncpg.Connection,
    end: str,
    expected: EnqueueOutcome,
) -> None:
    await other.execute("BEGIN")
    await enqueue_one(other, request(unique_key="k"))
    waiting = asyncio.create_task(broker.send_async(request(unique_key="k")))
    await until(connection, f"EXISTS (SELECT {PRODUCERS} AND wait_event_type = 'Lock')")
    assert (await broker.send_async(request())).unwrap().outcome is CREATED
    assert not waiting.done()
    await other.execute(end)
    assert (await waiting).unwrap().outcome is expected


async def test_many_requests_are_stored_all_or_none(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    error = broker.perform(broker.insertions([request(), request(args_json='["\0"]'), request()])).unwrap_err()
    assert (error.code, error.retryable) == (BrokerErrorCode.ENQUEUE_FAILED, False)
    assert await ids(connection) == []
    assert broker.perform(broker.insertions([])) == Ok([])


some_requests = st.lists(
    st.builds(
        request,
        st.sampled_from(["id1", "id2", "id3", "id4"]),
        enqueue_sha=st.sampled_from(["a", "b"]),
        unique_key=st.sampled_from([None, "k", "l"]),
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=some_requests, asked=some_requests)
async def test_many_at_once_come_to_the_same_as_one_after_the_other(
    connection: asyncpg.Connection, before: list[EnqueueRequest], asked: list[EnqueueRequest]
) -> None:
    asked = list({each.task_id: each for each in asked}.values())
    stored: list[list[Enqueued]] = []
    rows: list[list[Any]] = []
    for together in (True, False):
        await connection.execute("TRUNCATE horsies_tasks CASCADE")
        for earlier in before:
            await enqueue_one(connection, earlier)
        if together:
            stored.append(await enqueue_many(connection, asked))
        else:
            stored.append([await enqueue_one(connection, each) for each in asked])
        rows.append(await connection.fetch("SELECT id, enqueue_sha, unique_key FROM horsies_tasks ORDER BY id"))
    assert stored[0] == stored[1]
    assert rows[0] == rows[1]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=some_requests, asked=some_requests)
async def test_every_answer_is_true_also_where_the_requests_contradict_each_other(
    connection: asyncpg.Connection, before: list[EnqueueRequest], asked: list[EnqueueRequest]
) -> None:
    await connection.execute("TRUNCATE horsies_tasks CASCADE")
    await enqueue_many(connection, before)
    known = set(await ids(connection))
    answers = await enqueue_many(connection, asked)
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM horsies_tasks")}
    assert sorted(a.task_id for a in answers if a.outcome is CREATED) == sorted(rows.keys() - known)
    for each, answer in zip(asked, answers, strict=True):
        row = rows[answer.task_id]
        same = row["enqueue_sha"] == each.enqueue_sha
        match answer.outcome:
            case EnqueueOutcome.CREATED:
                assert (row["id"], same, row["unique_key"]) == (each.task_id, True, each.unique_key)
            case EnqueueOutcome.SAME | EnqueueOutcome.MISMATCH:
                assert (row["id"], same) == (each.task_id, answer.outcome is SAME)
            case EnqueueOutcome.LIVE_DUPLICATE:
                assert row["id"] != each.task_id
                assert row["unique_key"] == each.unique_key is not None


async def test_sends_at_the_same_moment_share_statements(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    asked = [request() for _ in range(200)]
    answers = await asyncio.gather(*(broker.send_async(each) for each in asked))
    assert answers == [Ok(Enqueued(each.task_id, CREATED)) for each in asked]
    assert await connection.fetchval("SELECT count(DISTINCT created_at) FROM horsies_tasks") < 50


@pytest.mark.parametrize(
    ("poison", "words"),
    [
        ({"args_json": '["\0"]'}, "0x00"),
        ({"queue_name": "q" * 53}, "channel name too long"),
        ({"task_name": "n" * 256}, "too long"),
        ({"task_options": "{"}, "not valid JSON"),
        ({"priority": 2**40}, "int32"),
    ],
)
async def test_a_request_that_is_refused_takes_no_neighbour_with_it(
    broker: PostgresBroker, connection: asyncpg.Connection, poison: dict[str, Any], words: str
) -> None:
    asked = [request() for _ in range(20)]
    asked[7:7] = [request(**poison)]
    answers = await asyncio.gather(*(broker.send_async(each) for each in asked))
    error = answers.pop(7).unwrap_err()
    assert (error.code, error.retryable) == (BrokerErrorCode.ENQUEUE_FAILED, False)
    assert words in error.message
    assert all(answer.unwrap().outcome is CREATED for answer in answers)
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 20


async def test_a_blocking_connection_fits_the_async_form(broker: PostgresBroker, database: str) -> None:
    with psycopg.connect(database) as blocking:
        assert (await broker.send_async(request(), connection=blocking)).unwrap().outcome is CREATED
        assert blocking.execute("SELECT count(*) FROM horsies_tasks").fetchone() == (1,)


async def test_parts_of_a_task_can_be_enqueued_without_a_request(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    sha = "a" * 64
    assert await broker.enqueue_async("demo.add", task_id="one", enqueue_sha=sha) == Ok("one")
    assert broker.enqueue("demo.add", "mail", task_id="one", enqueue_sha=sha, sent_at=NOON) == Ok("one")
    assert broker.enqueue("demo.add", "mail", task_id="two", enqueue_sha=sha, enqueue_delay_seconds=60) == Ok("two")
    assert broker.enqueue("x", task_id="one", enqueue_sha="b").unwrap_err().code is BrokerErrorCode.PAYLOAD_MISMATCH
    rows = await connection.fetch("SELECT queue_name, enqueued_at - sent_at AS wait FROM horsies_tasks ORDER BY id")
    assert [row["queue_name"] for row in rows] == ["default", "mail"]
    assert timedelta(seconds=50) < rows[1]["wait"] < timedelta(seconds=70)


def test_times_that_make_no_sense_are_refused_before_anything_is_stored(broker: PostgresBroker) -> None:
    later = datetime.now(UTC) + timedelta(seconds=30)
    for columns, words in (
        ({"good_until": NOON.replace(tzinfo=None)}, "good_until=2026-01-02 12:00:00 has no time zone"),
        ({"enqueued_at": later, "enqueue_delay_seconds": 5}, "pass one of them"),
        ({"sent_at": later}, "in the future"),
    ):
        error = broker.enqueue("demo.add", task_id="one", enqueue_sha="a", **columns).unwrap_err()
        assert (error.code, error.retryable) == (BrokerErrorCode.ENQUEUE_FAILED, False)
        assert words in error.message
    assert broker.enqueue("demo.add", task_id="one", enqueue_sha="a", sent_at=later, enqueued_at=later) == Ok("one")


def test_names_that_cannot_be_printed_are_refused_before_anything_is_stored(broker: PostgresBroker) -> None:
    for names in (("demo\n.add",), ("demo.add", "mail\n"), ("demo.add", "q" * 53)):
        error = broker.enqueue(*names, task_id="one", enqueue_sha="a").unwrap_err()
        assert (error.code, error.retryable) == (BrokerErrorCode.ENQUEUE_FAILED, False)
        assert "cannot be printed or stored" in error.message or "has 53 bytes" in error.message


def test_a_password_is_in_no_part_of_an_error() -> None:
    for url in ("postgresql://bob:hunter2@localhost:1/shop", "postgresql://bob@localhost:1/shop?password=hunter2"):
        broker = PostgresBroker(PostgresConfig(database_url=url))
        error = broker.send(request()).unwrap_err()
        broker.close()
        assert (error.code, error.retryable) == (BrokerErrorCode.ENQUEUE_FAILED, True)
        assert "localhost:1" in error.message
        assert "start PostgreSQL there" in error.message
        told = [repr(error), str(error.exception), repr(broker.config), *traceback.format_exception(error.exception)]
        assert not [text for text in told if "hunter2" in text]
