"""The fault triggers of tests/faults.py: the database itself blocks, fails or kills a chosen statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from faults import FaultAction, FaultMoment, FaultPoint, fault
from lifecycle_steps import ME, claim_tokens, ended, enqueue, running, start_tokens, statuses

from horsies.lifecycle.finishing import OutcomeKind, finish

START = FaultPoint.status("CLAIMED", "RUNNING")
FINISH = FaultPoint.status("RUNNING", "COMPLETED", "FAILED")
HISTORY = FaultPoint("horsies_task_attempts", "INSERT")


@pytest.fixture
async def victim(database: str) -> AsyncIterator[asyncpg.Connection]:
    """The connection whose statements are hit."""
    connected = await asyncpg.connect(database, server_settings={"application_name": "victim"})
    yield connected
    await connected.close()


def at(point: FaultPoint, moment: FaultMoment) -> FaultPoint:
    return FaultPoint(point.table, point.event, point.when, moment)


@pytest.mark.parametrize("moment", FaultMoment)
async def test_a_blocked_statement_stands_still_until_it_is_released(
    connection: asyncpg.Connection, victim: asyncpg.Connection, moment: FaultMoment
) -> None:
    await enqueue(victim, "a")
    tokens = await claim_tokens(victim)
    async with fault(connection, at(START, moment), FaultAction.BLOCK) as blocked:
        starting = asyncio.create_task(start_tokens(victim, tokens))
        (backend,) = await blocked.reached()
        assert (backend.pid, backend.application_name) == (victim.get_server_pid(), "victim")
        assert backend.query.startswith("-- start\n" if moment is not FaultMoment.COMMIT else "")
        assert await statuses(connection) == {"a": "CLAIMED"}
        await blocked.release()
        assert (await starting).started == frozenset(tokens)
    assert await statuses(connection) == {"a": "RUNNING"}


@pytest.mark.parametrize("moment", FaultMoment)
async def test_a_killed_statement_has_changed_nothing(
    connection: asyncpg.Connection, victim: asyncpg.Connection, moment: FaultMoment
) -> None:
    tokens = await running(victim, "a", "b")
    async with fault(connection, at(FINISH, moment), FaultAction.KILL):
        with pytest.raises((asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError)):
            await finish(victim, ME, [ended(token, OutcomeKind.COMPLETED) for token in tokens])
    assert victim.is_closed()
    assert await statuses(connection) == {"a": "RUNNING", "b": "RUNNING"}
    assert await connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == 0


async def test_a_blocked_backend_can_be_killed_where_it_stands(
    connection: asyncpg.Connection, victim: asyncpg.Connection
) -> None:
    tokens = await running(victim, "a")
    async with fault(connection, HISTORY, FaultAction.BLOCK) as blocked:
        finishing = asyncio.create_task(finish(victim, ME, [ended(tokens[0], OutcomeKind.FAILED)]))
        await blocked.kill()
        with pytest.raises((asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError)):
            await finishing
    assert await statuses(connection) == {"a": "RUNNING"}


async def test_a_failing_statement_gets_the_chosen_error_and_the_next_one_passes(
    connection: asyncpg.Connection, victim: asyncpg.Connection
) -> None:
    tokens = await running(victim, "a")
    outcomes = [ended(tokens[0], OutcomeKind.COMPLETED)]
    async with fault(connection, FINISH, FaultAction.FAIL, sqlstate="53100"):
        with pytest.raises(asyncpg.DiskFullError, match="a fault of the test"):
            await finish(victim, ME, outcomes)
        await finish(victim, ME, outcomes)
    assert await statuses(connection) == {"a": "COMPLETED"}


async def test_only_the_rows_from_the_nth_on_are_struck(
    connection: asyncpg.Connection, victim: asyncpg.Connection
) -> None:
    tokens = await running(victim, "a", "b", "c", "d")
    async with fault(connection, FINISH, FaultAction.FAIL, nth=2, times=2) as failing:
        failed = []
        for token in tokens:
            try:
                await finish(victim, ME, [ended(token, OutcomeKind.COMPLETED)])
            except asyncpg.PostgresIOError:
                failed.append(token.task_id)
        assert (failed, await failing.hits()) == (["b", "c"], 4)


async def test_a_condition_chooses_the_row(connection: asyncpg.Connection, victim: asyncpg.Connection) -> None:
    point = FaultPoint("horsies_tasks", "INSERT", "NEW.id = 'b'")
    async with fault(connection, point, FaultAction.FAIL):
        await enqueue(victim, "a")
        with pytest.raises(asyncpg.PostgresIOError):
            await enqueue(victim, "b")
        await enqueue(victim, "c")
    assert await statuses(connection) == {"a": "PENDING", "c": "PENDING"}


async def test_rows_can_be_deleted_past_a_fault_that_spares_them(
    connection: asyncpg.Connection, victim: asyncpg.Connection
) -> None:
    await enqueue(victim, "a", "b")
    point = FaultPoint("horsies_tasks", "DELETE", moment=FaultMoment.BEFORE)
    async with fault(connection, point, FaultAction.FAIL, nth=2):
        await victim.execute("DELETE FROM horsies_tasks WHERE id = 'a'")
        with pytest.raises(asyncpg.PostgresIOError):
            await victim.execute("DELETE FROM horsies_tasks WHERE id = 'b'")
    assert await statuses(connection) == {"b": "PENDING"}


LEFT = """
SELECT (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'horsies_fault%')
     + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'horsies_fault%')
     + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


async def test_nothing_is_left_of_a_fault_even_where_its_test_fails(connection: asyncpg.Connection) -> None:
    async def test() -> None:
        async with fault(connection, START, FaultAction.BLOCK), fault(connection, FINISH, FaultAction.KILL):
            assert await connection.fetchval(LEFT) == 5
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await test()
    assert await connection.fetchval(LEFT) == 0


async def test_a_fault_that_cannot_be_placed_leaves_nothing(connection: asyncpg.Connection) -> None:
    point = FaultPoint("horsies_tasks", "UPDATE", "NEW.no_such_column IS NULL")
    with pytest.raises(asyncpg.UndefinedColumnError):
        async with fault(connection, point, FaultAction.BLOCK):
            raise AssertionError("unreachable")
    assert await connection.fetchval(LEFT) == 0
