"""The fault triggers of tests/faults.py: the database itself blocks or fails a chosen statement."""

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


LEFT = """
SELECT (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'horsies_fault%')
     + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'horsies_fault%')
     + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


async def test_nothing_is_left_of_a_fault_even_where_its_test_fails(connection: asyncpg.Connection) -> None:
    async def test() -> None:
        async with fault(connection, START, FaultAction.BLOCK), fault(connection, FINISH, FaultAction.FAIL):
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
