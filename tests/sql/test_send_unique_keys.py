"""Sends with a unique key: one live task of each name, told duplicates, and a count that nothing waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from statements import statement
from view_steps import every_id, every_row, insert, wanted

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
from horsies.views import GROUPINGS, Sort, matching, task_counts, task_detail, task_groups, task_page

SENDS = "SELECT COALESCE(sum(sends), 0) FROM horsies_duplicate_sends WHERE task_id = $1"


def pay(order: int, lines: dict[str, int] | None = None) -> TaskResult[int, TaskError]:
    return TaskResult(ok=order)


def ship(order: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=order)


@pytest.fixture
def app(database: str) -> Iterator[Horsies]:
    made = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
    made.task("pay", pay)
    made.task("ship", ship)
    yield made
    made.get_broker().close()


async def test_a_key_is_of_one_name(app: Horsies, connection: asyncpg.Connection) -> None:
    paid = app.tasks["pay"].with_options(unique_key="order 7").send(7).unwrap()
    shipped = app.tasks["ship"].with_options(unique_key="order 7").send(7).unwrap()
    assert (paid.duplicate, shipped.duplicate) == (False, False)
    again = app.tasks["ship"].with_options(unique_key="order 7").send(7).unwrap()
    assert (again.task_id, again.duplicate, again.arguments_differ) == (shipped.task_id, True, False)
    assert [await connection.fetchval(SENDS, each.task_id) for each in (paid, shipped)] == [0, 1]
    assert repr(again) == f"TaskHandle('{shipped.task_id}', duplicate=True, arguments_differ=False)"


async def test_many_at_once_are_told_and_counted_each(
    app: Horsies, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = app.tasks["pay"].with_options(unique_key="k")
    calls = [keyed.to_send(1), keyed.to_send(1), app.tasks["pay"].to_send(1), keyed.to_send(2), keyed.to_send(2)]
    with caplog.at_level(logging.WARNING, "horsies"):
        sent = [result.unwrap() for result in app.send_many(calls)]
    assert [(one.duplicate, one.arguments_differ) for one in sent] == [
        *((False, False), (True, False), (False, False), (True, True), (True, True))
    ]
    assert await connection.fetchval(SENDS, sent[0].task_id) == 3
    (record,) = caplog.records
    words = f"task 'pay' was not sent: the live task {sent[0].task_id} has its unique key 'k' and other arguments"
    assert record.getMessage().startswith(f"{words}; see handle.arguments_differ, 2 times, at ")


@pytest.mark.parametrize(
    ("args", "kwargs", "differ"),
    [
        ((7, {"a": 1, "b": 2}), {}, False),
        ((7, {"b": 2, "a": 1}), {}, False),
        ((7,), {"lines": {"a": 1, "b": 2}}, False),
        ((), {"lines": {"a": 1, "b": 2}, "order": 7}, False),
        ((8, {"a": 1, "b": 2}), {}, True),
        ((7, {"a": 1, "b": 3}), {}, True),
        ((7,), {}, True),
    ],
)
def test_arguments_are_compared_by_value(
    app: Horsies, caplog: pytest.LogCaptureFixture, args: Any, kwargs: Any, differ: bool
) -> None:
    keyed = app.tasks["pay"].with_options(unique_key="k")
    keyed.send(7, {"a": 1, "b": 2}).unwrap()
    with caplog.at_level(logging.WARNING, "horsies"):
        assert keyed.send(*args, **kwargs).unwrap().arguments_differ is differ
    assert len(caplog.records) == differ


async def test_a_live_row_of_another_program_differs_and_is_no_error(
    app: Horsies, connection: asyncpg.Connection
) -> None:
    await insert(connection, "t", task_name="'pay'", unique_key="'k'", args="'{no json'")
    again = app.tasks["pay"].with_options(unique_key="k").send(1).unwrap()
    assert (again.task_id, again.duplicate, again.arguments_differ) == ("t", True, True)


async def test_a_repetition_of_the_same_send_is_no_duplicate(app: Horsies, connection: asyncpg.Connection) -> None:
    """The reply to the first one was lost."""
    keyed = app.tasks["pay"].with_options(unique_key="k")
    request = keyed.to_send(1).prepare(suppressed=False, sent_at=await connection.fetchval("SELECT now()")).unwrap()
    for _ in range(2):
        app.get_broker().send(request).unwrap()
    assert await connection.fetchval(SENDS, request.task_id) == 0


async def test_no_send_waits_for_a_transaction_that_was_told_of_a_duplicate_nor_does_the_worker(
    app: Horsies, connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    keyed = app.tasks["pay"].with_options(unique_key="k")
    first = keyed.send(1).unwrap()
    transaction = other.transaction()
    await transaction.start()
    bound = app.tasks["pay"].with_options(unique_key="k", connection=other)
    assert (await bound.send_async(1)).unwrap().duplicate
    await connection.execute("SET lock_timeout = 1")
    async with asyncio.timeout(10):
        assert (await keyed.send_async(1)).unwrap().duplicate
        claim = "UPDATE horsies_tasks SET status = 'CLAIMED' WHERE id = $1"
        assert await connection.execute(claim, first.task_id) == "UPDATE 1"
    assert await other.fetchval("SHOW synchronous_commit") == "on"
    await transaction.rollback()
    assert await connection.fetchval(SENDS, first.task_id) == 1


async def test_producers_that_send_one_key_at_the_same_moment_are_all_counted(
    app: Horsies, connection: asyncpg.Connection
) -> None:
    keyed = app.tasks["pay"].with_options(unique_key="k")
    sent = [one.unwrap() for one in await asyncio.gather(*(keyed.send_async(1) for _ in range(60)))]
    (task_id,) = {one.task_id for one in sent}
    assert await connection.fetchval(SENDS, task_id) == sum(one.duplicate for one in sent) == 59


@pytest.fixture
async def counted(connection: asyncpg.Connection) -> asyncpg.Connection:
    """`many` has swallowed 12 sends of two sessions, `one` a single one; `none` and `plain` none."""
    for name, key in (("many", "'a'"), ("one", "'b'"), ("none", "'c'"), ("plain", "NULL")):
        await insert(connection, name, unique_key=key, status="'FAILED'", error_code="'E'", failed_at="now()")
    await connection.execute(
        "INSERT INTO horsies_duplicate_sends VALUES ('many', 1, 5, now() - interval '1 h'), ('many', 2, 7, now()),"
        " ('one', 1, 1, now())"
    )
    return connection


@pytest.mark.parametrize(
    ("text", "ids"),
    [("dup:>0", {"many", "one"}), ("dup:>1", {"many"}), ("dup:0", {"none", "plain"}), ("dup:1..11", {"one"})],
)
async def test_tasks_are_found_by_how_many_sends_they_swallowed(
    counted: asyncpg.Connection, text: str, ids: set[str]
) -> None:
    assert set(await every_id(counted, text)) == ids
    assert {seen.task_id for seen in await matching(counted, wanted(text), 10)} == ids
    assert (await task_counts(counted, wanted(text))).total.number == len(ids)


async def test_a_task_tells_how_many_sends_it_swallowed(counted: asyncpg.Connection) -> None:
    found = {row.id: row.duplicates and row.duplicates.sends for row in await every_row(counted)}
    assert found == {"many": 12, "one": 1, "none": None, "plain": None}
    detail = await task_detail(counted, "many")
    assert detail.row.duplicates.words == "12 sends with its key stored nothing"
    assert detail.row.duplicates.last_at == await counted.fetchval("SELECT max(last_at) FROM horsies_duplicate_sends")


async def test_without_the_table_no_task_has_swallowed_any(counted: asyncpg.Connection) -> None:
    await counted.execute("ALTER TABLE horsies_duplicate_sends RENAME TO away")
    assert await every_id(counted, "dup:>0") == []
    assert len(await every_id(counted, "dup:0")) == 4
    for by in GROUPINGS[1:]:
        assert (await task_groups(counted, wanted("dup:>0"), by=by)).groups == ()
    for sort in Sort:
        await task_page(counted, wanted("dup:>0"), sort=sort)


async def test_the_counts_are_deleted_with_their_task(app: Horsies, connection: asyncpg.Connection) -> None:
    keyed = app.tasks["pay"].with_options(unique_key="k")
    first = keyed.send(1).unwrap()
    keyed.send(1).unwrap()
    old = "UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now() - interval '90 days' WHERE id = $1"
    await connection.execute(old, first.task_id)
    assert await connection.fetchval(SENDS, first.task_id) == 1
    await connection.fetchrow(statement("prune_tasks"), 86_400.0, [first.task_id])
    assert await connection.fetchval(SENDS, first.task_id) == 0
