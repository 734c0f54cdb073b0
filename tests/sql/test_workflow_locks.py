"""A family locked by another session is skipped and retried; it delays no other family."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from advance_steps import advancer_alone, end_task, grow, states, task_of
from blackhole_proxy import BlackholeProxy
from until import until
from workflow_plans import node, plan

from horsies.config.url import DatabaseUrl
from horsies.lifecycle import advancing
from horsies.lifecycle.advancing import FamilyLockedError, advance, follow
from horsies.lifecycle.controlling import pause
from horsies.lifecycle.create_workflow import start_child
from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import end_silent_sessions
from horsies.run.worker.advancer import Advancer
from horsies.store.connect import Database, is_transient
from horsies.store.dedicated_connection import DedicatedConnection

OTHERS = 60
STOPPED = """
EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'horsies worker advance' AND datname = current_database()
                                      AND state = 'active' AND wait_event = 'ClientRead')
"""
ROOT = "SELECT FROM horsies_workflows WHERE id = $1 FOR UPDATE"
BELOW = "SELECT FROM horsies_workflow_tasks WHERE workflow_id = $1 FOR UPDATE"


@asynccontextmanager
async def dedicated_to(database: str, role: str) -> AsyncIterator[DedicatedConnection]:
    dedicated = DedicatedConnection(Database(DatabaseUrl.parse(database), "in a test", None), role, behind_pooler=False)
    yield dedicated
    await dedicated.close()


@pytest.fixture
async def foreign(database: str) -> AsyncIterator[asyncpg.Connection]:
    """The session of an operator who has forgotten a transaction."""
    connected = await asyncpg.connect(database, server_settings={"application_name": "a forgotten psql"})
    yield connected
    await connected.close()


async def test_a_session_that_is_stopped_within_a_statement_loses_its_locks(
    database: str, connection: asyncpg.Connection
) -> None:
    """Its server has parsed the statement and waits for the parameters: no timeout of PostgreSQL 16 applies there."""
    workflow_id = await grow(connection, node(0))
    async with BlackholeProxy(database) as proxy:
        stopped = await Database(DatabaseUrl.parse(proxy.url), "in a test", None).connect("worker advance")
        transaction = stopped.transaction()
        await transaction.start()
        await stopped.execute(ROOT, workflow_id)
        proxy.swallow_replies()
        asked = asyncio.create_task(stopped.fetchval("SELECT 1 + $1::integer", 1))
        await until(connection, STOPPED)
        assert await end_silent_sessions(connection) == []  # not before it has been silent for 5 s
        assert await end_silent_sessions(connection, 0) == ["horsies worker advance"]
        await connection.execute(f"{ROOT} NOWAIT", workflow_id)
        proxy.cut()
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await asked
        stopped.terminate()


@pytest.fixture
async def advancer(database: str) -> AsyncIterator[Advancer]:
    async with dedicated_to(database, "worker advance") as dedicated:
        yield advancer_alone(dedicated)


async def steps_until(advancer: Advancer, pending: int, patience_s: float = 10.0) -> None:
    """Run the loop as the supervisor does."""
    async with asyncio.timeout(patience_s):
        while advancer.pending > pending:
            await advancer.wake.wait(5.0)
            await advancer.step()


@pytest.mark.parametrize("lock", [ROOT, BELOW], ids=["its root", "a node"])
async def test_one_locked_family_holds_up_none_of_sixty_others(
    advancer: Advancer, connection: asyncpg.Connection, foreign: asyncpg.Connection, lock: str
) -> None:
    flows = [await grow(connection, node(0), node(1, 0)) for _ in range(OTHERS + 1)]
    ended = [await end_task(connection, flow, 0) for flow in flows]
    async with foreign.transaction():
        await foreign.fetch(lock, flows[30])
        for task_id in ended:
            advancer.ended(task_id)
        await steps_until(advancer, 1)
        told = [await states(connection, flow) for flow in flows]
        assert told.count("RUNNING: completed enqueued") == OTHERS
        assert told[30] == "RUNNING: enqueued pending"
    await steps_until(advancer, 0)
    assert await states(connection, flows[30]) == "RUNNING: completed enqueued"


async def test_a_locked_family_is_asked_for_again_without_spinning(
    advancer: Advancer, connection: asyncpg.Connection, foreign: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0), node(1, 0), node(2))
    statements: list[str] = []
    (await advancer.dedicated.ready()).add_query_logger(lambda query: statements.append(query.query))
    async with foreign.transaction():
        await foreign.fetch(ROOT, flow)
        advancer.ended(await end_task(connection, flow, 0))
        with pytest.raises(TimeoutError):
            await steps_until(advancer, 0, 0.5)
        tried = sum(each.startswith("-- advance_try_tasks\n") for each in statements)
        assert 4 <= tried <= 10
        # Tasks that end there meanwhile wait with it.
        advancer.ended(await end_task(connection, flow, 2))
        await advancer.step()
        assert advancer.pending == 2
    await steps_until(advancer, 0)
    assert await states(connection, flow) == "RUNNING: completed enqueued completed"


async def test_a_node_of_a_locked_family_is_marked_running_later(
    advancer: Advancer, connection: asyncpg.Connection, foreign: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0))
    task_id = (await task_of(connection, flow, 0))["id"]
    await connection.execute("UPDATE horsies_tasks SET status = 'RUNNING' WHERE id = $1", task_id)
    async with foreign.transaction():
        await foreign.fetch(ROOT, flow)
        advancer.started(task_id)
        await advancer.wake.wait(5.0)
        await advancer.step()
        assert await states(connection, flow) == "RUNNING: enqueued"
    async with asyncio.timeout(30):
        while await states(connection, flow) != "RUNNING: running":
            await advancer.wake.wait(5.0)
            await advancer.step()


@pytest.mark.parametrize("lock", [ROOT, BELOW], ids=["its root", "a node"])
async def test_a_sweep_names_what_is_locked_and_repairs_the_others(
    database: str, connection: asyncpg.Connection, foreign: asyncpg.Connection, lock: str
) -> None:
    flows = [await grow(connection, node(0)) for _ in range(5)]
    for flow in flows:
        await end_task(connection, flow, 0)
    async with dedicated_to(database, "worker recovery") as dedicated, foreign.transaction():
        await foreign.fetch(lock, flows[1])
        done = await reconcile_all(await dedicated.ready(), 0)
    assert (done.workflows, done.locked, done.refused) == (4, (flows[1],), ())
    assert done.report()["locked_workflows"] == [flows[1]]
    assert (await reconcile_all(connection, 0)).locked == ()
    assert await states(connection, flows[1]) == "COMPLETED: completed"


@pytest.mark.parametrize("lock", [ROOT, BELOW], ids=["its root", "a node"])
async def test_what_follows_from_swept_tasks_steps_over_a_locked_family(
    database: str, connection: asyncpg.Connection, foreign: asyncpg.Connection, lock: str
) -> None:
    flows = [await grow(connection, node(0)) for _ in range(3)]
    ended = [await end_task(connection, flow, 0) for flow in flows]
    async with dedicated_to(database, "worker recovery") as dedicated, foreign.transaction():
        await foreign.fetch(lock, flows[1])
        refused = await follow(await dedicated.ready(), ended)
    assert [(one.item, one.error) for one in refused] == [(ended[1], f"its workflow {flows[1]} is locked")]
    assert [await states(connection, flows[place]) for place in (0, 2)] == ["COMPLETED: completed"] * 2


async def test_a_child_is_not_started_while_its_family_is_locked(
    connection: asyncpg.Connection, foreign: asyncpg.Connection
) -> None:
    parent = await grow(connection, node(0, sub_definition_key="child"))
    async with foreign.transaction():
        await foreign.fetch(ROOT, parent)
        with pytest.raises(FamilyLockedError) as caught:
            await start_child(connection, parent, 0, plan(node(0)))
    assert is_transient(caught.value)
    assert await start_child(connection, parent, 0, plan(node(0))) is not None


async def test_an_operator_is_told_who_has_locked_the_workflow(
    connection: asyncpg.Connection, foreign: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advancing, "_LOCK_TIMEOUT", "200ms")
    flow = await grow(connection, node(0))
    async with foreign.transaction():
        await foreign.fetch(ROOT, flow)
        with pytest.raises(FamilyLockedError) as caught:
            await pause(connection, flow)
    assert f"pid {foreign.get_server_pid()} (a forgotten psql, role " in str(caught.value)
    assert "idle in transaction" in str(caught.value)
    assert await pause(connection, flow)


async def test_a_workflow_whose_root_was_deleted_is_not_taken_for_locked(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0))
    await connection.execute("UPDATE horsies_workflows SET root_workflow_id = 'gone' WHERE id = $1", flow)
    assert (await advance(connection, [await end_task(connection, flow, 0)])).locked == ()


async def test_every_session_of_a_worker_has_its_limits(database: str) -> None:
    wanted = {"default_transaction_isolation": "read committed", "idle_in_transaction_session_timeout": "5s"}
    for role, lock_timeout in (("worker advance", "300ms"), ("worker recovery", "1s"), ("worker finish", "500ms")):
        async with dedicated_to(database, role) as dedicated:
            connection = await dedicated.ready()
            assert await connection.fetchval("SHOW lock_timeout") == lock_timeout
            assert {name: await connection.fetchval(f"SHOW {name}") for name in wanted} == wanted
