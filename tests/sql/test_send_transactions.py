"""Sends and starts inside the caller's transaction, on the connections of every library that users have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from typing import Any, TypeAlias

import asyncpg
import psycopg
import psycopg2
import pytest
from caller_steps import use_django
from database_server import url_with
from django.db import connection as django_db_connection, transaction as django_transaction
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult, TaskSendErrorCode, is_err

ORDERS = "CREATE TABLE orders (id integer)"
ORDER = "INSERT INTO orders VALUES (1)"
NOT_COMMITTED = "not committed, because task 'add' was not sent: .* \\[VALIDATION_FAILED\\]"


def add(a: int, b: str = "50 % off") -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"{a}{b}")


def grow(total: TaskResult[str, TaskError]) -> TaskResult[str, TaskError]:
    return total


@pytest.fixture
def app(database: str) -> Iterator[Horsies]:
    made = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
    made.task("add", add)
    made.task("grow", grow)
    yield made
    made.get_broker().close()


Stored: TypeAlias = Callable[[], Awaitable[tuple[int, int, int]]]


@pytest.fixture
async def stored(connection: asyncpg.Connection) -> Stored:
    """How many orders, tasks and workflows are committed."""
    await connection.execute(ORDERS)

    async def counted() -> tuple[int, int, int]:
        return tuple(  # type: ignore[return-value]
            await connection.fetchrow(
                "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM horsies_tasks),"
                " (SELECT count(*) FROM horsies_workflows)"
            )
        )

    return counted


Execute = Callable[[str], object]


@contextmanager
def psycopg_transaction(database: str) -> Iterator[tuple[Any, Execute]]:
    # Rows of the caller's own kind make no difference. psycopg closes no connection whose COMMIT raised.
    with closing(psycopg.connect(database, row_factory=psycopg.rows.dict_row)) as mine, mine:
        yield mine, mine.execute


@contextmanager
def psycopg2_transaction(database: str) -> Iterator[tuple[Any, Execute]]:
    with closing(psycopg2.connect(database)) as mine, mine, mine.cursor() as cursor:
        yield mine, cursor.execute


@contextmanager
def django_connection(database: str) -> Iterator[tuple[Any, Execute]]:
    with closing(use_django(database)) as mine, django_transaction.atomic():
        yield mine, mine.cursor().execute


@contextmanager
def django_proxy(database: str) -> Iterator[tuple[Any, Execute]]:
    with django_connection(database) as (_, execute):
        yield django_db_connection, execute


def by_sqlalchemy(driver: Any, kind: str) -> Callable[[str], AbstractContextManager[tuple[Any, Execute]]]:
    @contextmanager
    def transaction(database: str) -> Iterator[tuple[Any, Execute]]:
        engine = create_engine(
            f"postgresql+{driver.__name__}://", creator=lambda: driver.connect(database), poolclass=NullPool
        )
        with engine.begin() if kind == "connection" else sessionmaker(engine).begin() as mine:
            yield mine, lambda sql: mine.execute(text(sql))

    return transaction


@contextmanager
def scoped_sqlalchemy(database: str) -> Iterator[tuple[Any, Execute]]:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database), poolclass=NullPool)
    mine = scoped_session(sessionmaker(engine))
    try:
        with mine.begin():
            yield mine, lambda sql: mine.execute(text(sql))
    finally:
        mine.remove()


BLOCKING = {
    "psycopg": psycopg_transaction,
    "psycopg2": psycopg2_transaction,
    "django": django_connection,
    "django proxy": django_proxy,
    "sqlalchemy session, psycopg": by_sqlalchemy(psycopg, "session"),
    "sqlalchemy session, psycopg2": by_sqlalchemy(psycopg2, "session"),
    "sqlalchemy scoped session": scoped_sqlalchemy,
    "sqlalchemy connection, psycopg": by_sqlalchemy(psycopg, "connection"),
    "sqlalchemy connection, psycopg2": by_sqlalchemy(psycopg2, "connection"),
}


@asynccontextmanager
async def asyncpg_transaction(database: str) -> AsyncIterator[tuple[Any, Any]]:
    mine = await asyncpg.connect(database)
    try:
        async with mine.transaction():
            yield mine, mine.execute
    finally:
        await mine.close()


@asynccontextmanager
async def async_psycopg_transaction(database: str) -> AsyncIterator[tuple[Any, Any]]:
    mine = await psycopg.AsyncConnection.connect(database)
    try:
        async with mine:
            yield mine, mine.execute
    finally:
        await mine.close()


def by_async_sqlalchemy(driver: str, kind: str) -> Callable[[str], AbstractAsyncContextManager[tuple[Any, Any]]]:
    connect = {"asyncpg": asyncpg.connect, "psycopg_async": psycopg.AsyncConnection.connect}[driver]

    @asynccontextmanager
    async def transaction(database: str) -> AsyncIterator[tuple[Any, Any]]:
        engine = create_async_engine(
            f"postgresql+{driver}://", async_creator=lambda: connect(database), poolclass=NullPool
        )
        async with engine.begin() if kind == "connection" else async_sessionmaker(engine).begin() as mine:
            yield mine, lambda sql: mine.execute(text(sql))

    return transaction


AWAITED = {
    "asyncpg": asyncpg_transaction,
    "psycopg": async_psycopg_transaction,
    "sqlalchemy session, asyncpg": by_async_sqlalchemy("asyncpg", "session"),
    "sqlalchemy session, psycopg": by_async_sqlalchemy("psycopg_async", "session"),
    "sqlalchemy connection, asyncpg": by_async_sqlalchemy("asyncpg", "connection"),
    "sqlalchemy connection, psycopg": by_async_sqlalchemy("psycopg_async", "connection"),
}

blocking = pytest.mark.parametrize("transaction", BLOCKING.values(), ids=BLOCKING)
awaited = pytest.mark.parametrize("transaction", AWAITED.values(), ids=AWAITED)


class UndoError(Exception):
    """Ends a transaction that must not be committed."""


def chain(app: Horsies) -> Any:
    first = app.tasks["add"].node()(a=2)
    second = app.tasks["grow"].node(waits_for=[first], args_from={"total": first})()
    return app.workflow("chain", [first, second], definition_key="chain")


@blocking
async def test_a_blocking_transaction_stores_all_or_nothing(
    transaction: Any, app: Horsies, database: str, stored: Stored
) -> None:
    def work(undo: bool) -> None:
        with transaction(database) as (mine, execute):
            execute(ORDER)
            sent = [task.with_options(connection=mine, unique_key="k%s").send(1).unwrap() for _ in range(2)]
            assert [one.duplicate for one in sent] == [False, True]
            for result in app.send_many([task.to_send(2), task.to_send(3, b="%(x)s")], connection=mine):
                result.unwrap()
            chain(app).start(connection=mine).unwrap()
            if undo:
                raise UndoError

    task = app.tasks["add"]
    with pytest.raises(UndoError):
        await asyncio.to_thread(work, True)
    assert await stored() == (0, 0, 0)
    await asyncio.to_thread(work, False)
    assert await stored() == (1, 4, 1)


@awaited
async def test_an_awaited_transaction_stores_all_or_nothing(
    transaction: Any, app: Horsies, database: str, stored: Stored
) -> None:
    async def work(undo: bool) -> None:
        async with transaction(database) as (mine, execute):
            # The first statement of the transaction: SQLAlchemy begins one when it executes, not before.
            keyed = task.with_options(connection=mine, unique_key="k%s")
            sent = [(await keyed.send_async(1)).unwrap() for _ in range(2)]
            assert [one.duplicate for one in sent] == [False, True]
            await execute(ORDER)
            for result in await app.send_many_async([task.to_send(2), task.to_send(3)], connection=mine):
                result.unwrap()
            (await chain(app).start_async(connection=mine)).unwrap()
            if undo:
                raise UndoError

    task = app.tasks["add"]
    with pytest.raises(UndoError):
        await work(True)
    assert await stored() == (0, 0, 0)
    await work(False)
    assert await stored() == (1, 4, 1)


@blocking
async def test_a_failed_send_makes_a_blocking_transaction_fail(
    transaction: Any, app: Horsies, database: str, stored: Stored
) -> None:
    def work() -> None:
        with transaction(database) as (mine, execute):
            execute(ORDER)
            results.append(app.tasks["add"].with_options(connection=mine).send("one"))
            execute(ORDER)

    results: list[Any] = []
    with pytest.raises(Exception, match=NOT_COMMITTED):
        await asyncio.to_thread(work)
    assert results[0].err_value.code is TaskSendErrorCode.VALIDATION_FAILED
    assert await stored() == (0, 0, 0)


@awaited
async def test_a_failed_send_makes_an_awaited_transaction_fail(
    transaction: Any, app: Horsies, database: str, stored: Stored
) -> None:
    async def work() -> None:
        async with transaction(database) as (mine, execute):
            await execute(ORDER)
            results.append(await app.tasks["add"].with_options(connection=mine).send_async("one"))

    results: list[Any] = []
    with pytest.raises(Exception, match=NOT_COMMITTED):
        await work()
    assert results[0].err_value.code is TaskSendErrorCode.VALIDATION_FAILED
    assert await stored() == (0, 0, 0)


async def test_failed_batches_and_starts_make_the_transaction_fail_too(
    app: Horsies, database: str, stored: Stored
) -> None:
    async def send() -> None:
        async with asyncpg_transaction(database) as (mine, execute):
            await execute(ORDER)
            results.extend(await app.send_many_async([task.to_send(1), task.to_send("two")], connection=mine))

    async def start() -> None:
        async with asyncpg_transaction(database) as (mine, execute):
            await execute(ORDER)
            results.append(await chain(app).start_async("", connection=mine))

    task = app.tasks["add"]
    results: list[Any] = []
    with pytest.raises(asyncpg.RaiseError, match=NOT_COMMITTED):
        await send()
    with pytest.raises(asyncpg.RaiseError, match="not committed, because workflow 'chain' was not started"):
        await start()
    assert [is_err(result) for result in results] == [False, True, True]
    assert await stored() == (0, 0, 0)


async def test_an_application_may_keep_the_transaction_of_a_failed_send(database: str, stored: Stored) -> None:
    config = AppConfig(broker=PostgresConfig(database_url=database), failed_send_aborts=False)
    task: Any = Horsies(config).task("add", add)
    async with asyncpg_transaction(database) as (mine, execute):
        await execute(ORDER)
        assert is_err(await task.with_options(connection=mine).send_async("one"))
    assert await stored() == (1, 0, 0)


async def test_a_savepoint_takes_a_failed_send_back_and_further_ones_do_no_harm(
    app: Horsies, database: str, stored: Stored
) -> None:
    task: Any = app.tasks["add"]
    async with asyncpg_transaction(database) as (mine, execute):
        await execute(ORDER)
        savepoint = mine.transaction()
        await savepoint.start()
        await task.with_options(connection=mine).send_async("one")
        await task.with_options(connection=mine).send_async("two")
        await savepoint.rollback()
        (await task.with_options(connection=mine).send_async(1)).unwrap()
    assert await stored() == (1, 1, 0)


async def test_a_role_without_temporary_tables_has_its_transaction_fail_at_once(
    app: Horsies, database: str, connection: asyncpg.Connection, role: str, stored: Stored
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
    await connection.execute(f"GRANT INSERT ON orders TO {role}")
    async with asyncpg_transaction(url_with(database, role=role)) as (mine, execute):
        await execute(ORDER)
        await app.tasks["add"].with_options(connection=mine).send_async("one")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await execute(ORDER)
    assert await stored() == (0, 0, 0)


async def test_a_send_that_is_suppressed_on_purpose_lets_the_transaction_be(
    app: Horsies, database: str, stored: Stored
) -> None:
    app.suppress_sends()
    async with asyncpg_transaction(database) as (mine, execute):
        await execute(ORDER)
        assert is_err(await app.tasks["add"].with_options(connection=mine).send_async(1))
    assert await stored() == (1, 0, 0)


async def test_errors_of_a_library_do_not_show_the_arguments(app: Horsies, database: str) -> None:
    """SQLAlchemy's own text has the parameters of the statement in it."""
    task: Any = app.tasks["add"]
    with suppress(Exception):
        async with by_async_sqlalchemy("asyncpg", "session")(database) as (mine, execute):
            await execute("SET LOCAL search_path TO pg_catalog")
            error = (await task.with_options(connection=mine).send_async(1, b="secret")).unwrap_err()
    assert "horsies_tasks" in error.message
    assert "secret" not in error.message


async def test_other_drivers_of_sqlalchemy_are_refused(app: Horsies) -> None:
    with create_engine("sqlite://").begin() as mine:
        error = app.tasks["add"].with_options(connection=mine).send(1).unwrap_err()
    assert error.message.endswith("this is SQLAlchemy with sqlite+pysqlite")


async def test_an_awaited_session_does_not_fit_the_blocking_form(app: Horsies, database: str) -> None:
    async with by_async_sqlalchemy("asyncpg", "session")(database) as (mine, _):
        error = app.tasks["add"].with_options(connection=mine).send(1).unwrap_err()
    assert "an async connection of sqlalchemy works only with the async form" in error.message
