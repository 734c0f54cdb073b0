"""No value becomes code: texts of every kind, in every parameter that a caller's connection gets, by every driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from caller_steps import ATTACK, STATEMENTS, STORED, TEXTS, expected, fail_with_all, request, run_all, use_django
from django.db import transaction as django_transaction
from forked_commands import Program
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from test_send_transactions import AWAITED, BLOCKING, UndoError, psycopg2_transaction

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
from horsies.broker import PostgresBroker
from horsies.store.callers import CallerConnectionError, on_callers, on_callers_blocking
from horsies.store.enqueue import EnqueueOutcome, drive, many, one

DJANGO_ON_PSYCOPG2 = """
import sys
sys.modules["psycopg"] = None  # so Django takes psycopg2
sys.path.append(sys.argv[2])
from caller_steps import STATEMENTS, fail_with_all, run_all, use_django
from django.db import transaction
from horsies.broker import PostgresBroker
from horsies.store.callers import on_callers_blocking

mine = use_django(sys.argv[1])
with transaction.atomic():
    names = on_callers_blocking(mine, run_all)
assert type(mine.connection).__module__ == "psycopg2.extensions"
mine.set_autocommit(False)
names |= on_callers_blocking(mine, fail_with_all)
mine.rollback()
assert names == STATEMENTS, names ^ STATEMENTS
"""


def psycopg_with(cursor: Any) -> Any:
    @contextmanager
    def transaction(database: str) -> Iterator[tuple[Any, Any]]:
        with closing(psycopg.connect(database, cursor_factory=cursor)) as mine, mine:
            yield mine, mine.execute

    return transaction


def async_psycopg_with(cursor: Any) -> Any:
    @asynccontextmanager
    async def transaction(database: str) -> AsyncIterator[tuple[Any, Any]]:
        mine = await psycopg.AsyncConnection.connect(database, cursor_factory=cursor)
        try:
            async with mine:
                yield mine, mine.execute
        finally:
            await mine.close()

    return transaction


@contextmanager
def sqlalchemy_with_client_cursor(database: str) -> Iterator[tuple[Any, Any]]:
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(database, cursor_factory=psycopg.ClientCursor),
        poolclass=NullPool,
    )
    with engine.begin() as mine:
        yield mine, mine.exec_driver_sql


@asynccontextmanager
async def async_sqlalchemy_with_client_cursor(database: str) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(
        "postgresql+psycopg_async://",
        async_creator=lambda: psycopg.AsyncConnection.connect(database, cursor_factory=psycopg.AsyncClientCursor),
        poolclass=NullPool,
    )
    async with engine.begin() as mine:
        yield mine, mine.exec_driver_sql


@contextmanager
def django_with_server_side_binding(database: str) -> Iterator[tuple[Any, Any]]:
    with closing(use_django(database, server_side_binding=True)) as mine, django_transaction.atomic():
        yield mine, mine.cursor().execute


ALL_BLOCKING = BLOCKING | {
    "psycopg, client cursor": psycopg_with(psycopg.ClientCursor),
    "psycopg, raw cursor": psycopg_with(psycopg.RawCursor),
    "sqlalchemy, psycopg, client cursor": sqlalchemy_with_client_cursor,
    "django, server-side binding": django_with_server_side_binding,
}
ALL_AWAITED = AWAITED | {
    "psycopg, client cursor": async_psycopg_with(psycopg.AsyncClientCursor),
    "psycopg, raw cursor": async_psycopg_with(psycopg.AsyncRawCursor),
    "sqlalchemy, psycopg, client cursor": async_sqlalchemy_with_client_cursor,
}
# These bind as another one in the list does.
LONG = {"django proxy", "sqlalchemy scoped session", *(name for name in BLOCKING | AWAITED if "connection, " in name)}


def every(transactions: dict[str, Any]) -> list[Any]:
    marks = {name: [pytest.mark.chaos] for name in LONG}
    return [pytest.param(each, id=name, marks=marks.get(name, [])) for name, each in transactions.items()]


blocking = pytest.mark.parametrize("transaction", every(ALL_BLOCKING))
awaited = pytest.mark.parametrize("transaction", every(ALL_AWAITED))


@pytest.fixture
async def users(connection: asyncpg.Connection) -> None:
    """The application's own table, which the texts try to empty."""
    await connection.execute("CREATE TABLE app_users (name text); INSERT INTO app_users VALUES ('Ada')")


async def compare(connection: asyncpg.Connection) -> None:
    """The tables hold what was meant, and nothing else."""
    assert await connection.fetch("SELECT * FROM app_users") == [("Ada",)]
    found = [tuple(row) for row in await connection.fetch(STORED)]
    assert found == sorted(expected(), key=lambda row: row[0].encode())
    stored = await connection.fetch(
        "SELECT id, name, on_error, definition_key, success_policy::text FROM horsies_workflows"
    )
    assert sorted(row[0] for row in stored) == sorted(TEXTS)
    assert all(set(row[:4]) == {row["id"]} for row in stored)
    nodes = await connection.fetch(
        "SELECT workflow_id, task_name, queue_name, node_id, task_index, sub_definition_key, workflow_ctx_from,"
        " args_from ? workflow_id IS TRUE AS takes FROM horsies_workflow_tasks"
    )
    assert len(nodes) == 3 * len(TEXTS)
    for text, name, queue, node_id, index, key, context, takes in nodes:
        assert (name, queue, node_id, key) == (text, text, f"{text}{index}", text if index == 2 else None)
        assert (context, takes) == (([text, f"{text}1"], True) if index == 0 else (context, False))
    of_nodes = 'SELECT task_name FROM horsies_tasks WHERE is_workflow_task ORDER BY task_name COLLATE "C"'
    assert [row[0] for row in await connection.fetch(of_nodes)] == sorted(2 * TEXTS, key=str.encode)


@blocking
@pytest.mark.usefixtures("users")
async def test_a_blocking_connection_stores_texts_as_texts(
    transaction: Any, database: str, connection: asyncpg.Connection
) -> None:
    def work() -> set[str]:
        with transaction(database) as (mine, _):
            names = on_callers_blocking(mine, run_all)
        with suppress(UndoError), transaction(database) as (mine, _):
            names |= on_callers_blocking(mine, fail_with_all)
            raise UndoError
        with suppress(UndoError), transaction(database) as (mine, _):
            with pytest.raises(CallerConnectionError):
                on_callers_blocking(mine, lambda callers: drive(callers, one(request("nul\0", "x"))))
            raise UndoError
        with suppress(UndoError), transaction(database) as (mine, _):
            with pytest.raises(CallerConnectionError):
                on_callers_blocking(mine, lambda callers: drive(callers, many([request("nul\0", "x")])))
            raise UndoError
        return names

    assert await asyncio.to_thread(work) == STATEMENTS
    await compare(connection)


@awaited
@pytest.mark.usefixtures("users")
async def test_an_awaited_connection_stores_texts_as_texts(
    transaction: Any, database: str, connection: asyncpg.Connection
) -> None:
    async with transaction(database) as (mine, _):
        names = await on_callers(mine, run_all)
    with suppress(UndoError):
        async with transaction(database) as (mine, _):
            names |= await on_callers(mine, fail_with_all)
            raise UndoError
    for steps in (one(request("nul\0", "x")), many([request("nul\0", "x")])):
        with suppress(UndoError):
            async with transaction(database) as (mine, _):
                with pytest.raises(CallerConnectionError):
                    await on_callers(mine, lambda callers, steps=steps: drive(callers, steps))
                raise UndoError
    assert names == STATEMENTS
    await compare(connection)


async def test_a_connection_that_binds_on_the_client_prepares_nothing(database: str) -> None:
    """It may be so because its pooler has no prepared statements; psycopg prepares what it executes the sixth time."""

    def work() -> list[tuple[int]]:
        with psycopg_with(psycopg.ClientCursor)(database) as (mine, execute):
            for number in range(7):
                on_callers_blocking(mine, lambda callers, number=number: drive(callers, one(request("a", f"{number}"))))
            return execute("SELECT count(*) FROM pg_prepared_statements").fetchall()  # type: ignore[no-any-return]

    assert await asyncio.to_thread(work) == [(0,)]


@pytest.mark.usefixtures("users")
async def test_django_on_psycopg2_stores_texts_as_texts(database: str, connection: asyncpg.Connection) -> None:
    program: Program[bytes] = Program(DJANGO_ON_PSYCOPG2, database, Path(__file__).parent)
    assert await asyncio.to_thread(program.wait) == 0
    await compare(connection)


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("transaction", [psycopg2_transaction, ALL_BLOCKING["django"]], ids=["psycopg2", "django"])
async def test_a_key_that_was_an_attack_is_a_key(
    transaction: Any, database: str, connection: asyncpg.Connection
) -> None:
    """It emptied the table where the driver binds on the client, with the second send of the key."""
    broker = PostgresBroker(PostgresConfig(database_url=database))

    def work() -> list[EnqueueOutcome]:
        with transaction(database) as (mine, _):
            sends = [request(f"k\n{ATTACK}", task_id) for task_id in "ab"]
            return [broker.send(each, connection=mine).unwrap().outcome for each in sends]

    outcomes = await asyncio.to_thread(work)
    assert await connection.fetch("SELECT * FROM app_users") == [("Ada",)]
    assert outcomes == [EnqueueOutcome.CREATED, EnqueueOutcome.LIVE_DUPLICATE]
    assert await connection.fetchval("SELECT unique_key FROM horsies_tasks") == f"k\n{ATTACK}"
    broker.close()


def add(a: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a)


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("end", ["\n", "\r", "\u2028"])
async def test_the_names_that_an_application_gives_cannot_run(
    end: str, database: str, connection: asyncpg.Connection
) -> None:
    """They obey the rule of names, so that none gets as far as the database."""
    broker = PostgresConfig(database_url=database)
    app = Horsies(AppConfig(broker=broker, failed_send_aborts=False))
    task: Any = app.task("add", add)
    attack = f"k{end}{ATTACK}"

    def work() -> list[Any]:
        with psycopg2_transaction(database) as (mine, _):
            started = app.workflow("w", [task.node()(a=1)], definition_key="w").start(attack, connection=mine)
            keyed = task.with_options(unique_key=attack)
            sent = task.with_options(unique_key=attack, connection=mine).send(1)
            return [sent, *app.send_many([keyed.to_send(1), keyed.to_send(2)], connection=mine), started]

    results = await asyncio.to_thread(work)
    assert all("cannot be printed or stored" in result.unwrap_err().message for result in results)
    for names in ({"name": attack}, {"definition_key": attack}):
        with pytest.raises(Exception, match=r"HRS-|possible|cannot be the name"):
            app.workflow(**{"name": "w", "definition_key": "w", **names}, tasks=[task.node()(a=1)])
    assert await connection.fetch("SELECT * FROM app_users") == [("Ada",)]
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 0
    app.get_broker().close()
