"""Concurrent, killed and late advances of one workflow, and families that another session has locked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from advance_steps import advancer_alone, complete, end_task, everything, grow, ok, states, task_of
from blackhole_proxy import BlackholeProxy
from lifecycle_steps import claim_some, start_tokens
from until import until
from workflow_plans import node, plan

from horsies.config.url import DatabaseUrl
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowTaskStatus
from horsies.lifecycle import advancing
from horsies.lifecycle.advancing import (
    Advanced,
    FamilyLockedError,
    advance,
    end_node,
    follow,
    lock_families,
    nodes_started,
    update_workflows,
)
from horsies.lifecycle.claiming import release_expired
from horsies.lifecycle.controlling import pause
from horsies.lifecycle.create_workflow import fail_child, start_child
from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import end_silent_sessions
from horsies.run.worker.advancer import Advancer
from horsies.store.connect import Database, is_transient
from horsies.store.dedicated_connection import DedicatedConnection


@pytest.fixture
async def observer(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database)
    yield connected
    await connected.close()


async def test_the_last_two_to_end_at_once_enqueue_what_waits_for_both_once(
    connection: asyncpg.Connection, other: asyncpg.Connection, observer: asyncpg.Connection
) -> None:
    """Upstream does not lock: each of the two reads the other's node as still running, and the third waits for ever."""
    flow = await grow(connection, node(0), node(1), node(2, 0, 1))
    left, right = await end_task(observer, flow, 0), await end_task(observer, flow, 1)
    async with connection.transaction():
        await lock_families(connection, [flow])
        assert await advance(other, [right]) == Advanced(locked=((right, flow),))
        await _advance_within(connection, left)
    assert len((await advance(other, [right])).enqueued) == 1
    assert await states(observer, flow) == "RUNNING: completed completed enqueued"


async def _until_free(conn: asyncpg.Connection, task_ids: list[str]) -> list[Advanced]:
    """As the worker's loop does: locked workflows are tried again."""
    done = []
    while task_ids:
        done.append(await advance(conn, task_ids))
        task_ids = [task_id for task_id, _ in done[-1].locked]
    return done


async def _advance_within(conn: asyncpg.Connection, task_id: str) -> None:
    """What advance() does, in the transaction that holds the lock already."""
    async with conn.transaction():
        await advance(conn, [task_id])


async def test_two_that_are_told_of_the_same_task_write_one_end(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    for _ in range(10):
        flow = await grow(connection, node(0), node(1, 0))
        task_id = await end_task(connection, flow, 0)
        done = await asyncio.gather(_until_free(connection, [task_id]), _until_free(other, [task_id]))
        assert sum(len(one.enqueued) for each in done for one in each) == 1
        assert await states(connection, flow) == "RUNNING: completed enqueued"


async def test_advances_of_many_workflows_in_any_order_come_to_their_end(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    flows = [await grow(connection, *(node(index) for index in range(6))) for _ in range(8)]
    tasks = [await end_task(connection, flow, index) for index in range(6) for flow in flows]

    async def half(conn: asyncpg.Connection, ids: list[str]) -> None:
        for first in range(0, len(ids), 6):
            await _until_free(conn, ids[first : first + 6])

    await asyncio.gather(half(connection, tasks[::2]), half(other, tasks[1::2][::-1]))
    assert {(await states(connection, flow)).split(":")[0] for flow in flows} == {"COMPLETED"}


async def test_children_of_one_family_that_end_at_once_end_their_parent_once(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    parent = await grow(connection, *(node(index, sub_definition_key="child") for index in range(2)))
    children = [await start_child(connection, parent, index, plan(node(0), output_index=0)) for index in range(2)]
    tasks = [await end_task(connection, str(child), 0, result=ok(number)) for number, child in enumerate(children)]
    await asyncio.gather(_until_free(connection, tasks[:1]), _until_free(other, tasks[1:]))
    assert await states(connection, parent) == "COMPLETED: completed completed"


async def test_an_advance_that_dies_before_its_commit_has_done_nothing(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    task_id = await end_task(connection, flow, 0)
    before = await everything(connection)
    transaction = other.transaction()
    await transaction.start()
    await _advance_within(other, task_id)
    await connection.execute("SELECT pg_terminate_backend($1, 5000)", other.get_server_pid())
    assert await everything(connection) == before
    assert len((await advance(connection, [task_id])).enqueued) == 1


async def test_a_late_start_of_a_dead_worker_does_not_bring_an_ended_node_back(connection: asyncpg.Connection) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    task = await task_of(connection, flow, 0)
    await complete(connection, flow, 0)
    before = await everything(connection)
    assert (await nodes_started(connection, [task["id"]])).nodes == 0
    assert await everything(connection) == before


async def test_two_who_build_the_same_child_make_one(connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
    for _ in range(10):
        parent = await grow(connection, node(0, sub_definition_key="child"))
        made = await asyncio.gather(
            *(start_child(conn, parent, 0, plan(node(0))) for conn in (connection, other)), return_exceptions=True
        )
        assert sorted(one is None or isinstance(one, FamilyLockedError) for one in made) == [False, True]
        assert (
            await connection.fetchval("SELECT count(*) FROM horsies_workflows WHERE parent_workflow_id = $1", parent)
            == 1
        )


async def test_a_child_that_one_has_built_is_not_failed_by_another_who_could_not(
    connection: asyncpg.Connection,
) -> None:
    """One worker knows the definition, another one does not, or no longer."""
    parent = await grow(connection, node(0, sub_definition_key="child"))
    child = await start_child(connection, parent, 0, plan(node(0), output_index=0))
    assert (await fail_child(connection, parent, 0, ok(None))).ended == ()
    await complete(connection, str(child), 0, 7)
    assert await states(connection, parent) == "COMPLETED: completed"


async def test_a_workflow_that_is_paused_or_cancelled_while_a_child_is_built_gets_none(
    connection: asyncpg.Connection,
) -> None:
    for status in ("PAUSED", "CANCELLED"):
        parent = await grow(connection, node(0, sub_definition_key=MAP_DEFINITION))
        await connection.execute("UPDATE horsies_workflows SET status = $1 WHERE id = $2", status, parent)
        assert await start_child(connection, parent, 0, plan(node(0))) is None


async def test_an_advance_that_meets_a_cancel_leaves_what_was_cancelled(
    connection: asyncpg.Connection, other: asyncpg.Connection, observer: asyncpg.Connection
) -> None:
    """Upstream turns a CANCELLED workflow into a COMPLETED one when its last running node ends."""
    flow = await grow(connection, node(0))
    task_id = await end_task(observer, flow, 0)
    async with connection.transaction():
        await lock_families(connection, [flow])
        await connection.execute("UPDATE horsies_workflows SET status = 'CANCELLED'")
        await connection.execute("UPDATE horsies_workflow_tasks SET status = 'SKIPPED'")
        assert (await advance(other, [task_id])).locked == ((task_id, flow),)
    assert (await advance(other, [task_id])).ended == ()
    assert await states(observer, flow) == "CANCELLED: skipped"


async def test_a_node_that_was_completed_by_hand_keeps_its_value_when_its_task_ends_late(
    connection: asyncpg.Connection,
) -> None:
    flow = await grow(connection, node(0), node(1, 0))
    async with connection.transaction():
        await lock_families(connection, [flow])
        await end_node(connection, flow, 0, WorkflowTaskStatus.COMPLETED, ok("by hand"))
        await update_workflows(connection, [flow])
    await complete(connection, flow, 0, "late")
    result = await connection.fetchval("SELECT result FROM horsies_workflow_tasks WHERE task_index = 0")
    assert result == ok("by hand")


async def test_a_claim_or_start_never_waits_for_a_workflow(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    flow = await grow(connection, node(0), node(1))
    async with connection.transaction():
        await lock_families(connection, [flow])
        await connection.execute("UPDATE horsies_workflows SET updated_at = now()")
        await connection.execute("UPDATE horsies_workflow_tasks SET completed_at = now()")
        async with asyncio.timeout(30):
            tokens = [task.token for task in await claim_some(other)]
            verdicts = await start_tokens(other, tokens)
    assert len(verdicts.started) == 2


async def test_paused_tasks_are_neither_claimed_nor_started_and_go_back_as_they_were(
    connection: asyncpg.Connection,
) -> None:
    flow = await grow(connection, node(0), node(1))
    (first,) = await claim_some(connection, limit=1)
    linked = await connection.fetch("SELECT task_index, task_id FROM horsies_workflow_tasks ORDER BY 1")
    await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    assert await claim_some(connection) == []
    verdicts = await start_tokens(connection, [first.token])
    assert (verdicts.paused, verdicts.started) == (frozenset([first.token]), frozenset())
    rows = await connection.fetch("SELECT status, claimed_by_worker_id, claimed FROM horsies_tasks")
    assert {tuple(row) for row in rows} == {("PENDING", None, False)}
    assert await connection.fetch("SELECT task_index, task_id FROM horsies_workflow_tasks ORDER BY 1") == linked
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    assert len(await claim_some(connection)) == 2
    assert await states(connection, flow) == "RUNNING: enqueued enqueued"


@pytest.mark.parametrize("paused", [1, 100, 101, 150])
async def test_a_claim_passes_by_paused_tasks_however_many_workflows_are_paused(
    connection: asyncpg.Connection, paused: int
) -> None:
    """With more than a hundred it does not read all at once, but checks each task that it meets."""
    await grow(connection, node(0), node(1))
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status)"
        " SELECT n::text, 'idle', 'PAUSED' FROM generate_series(2, $1) n",
        paused,
    )
    await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    running = await grow(connection, node(0))
    (claimed,) = await claim_some(connection)
    assert claimed.token.task_id == (await task_of(connection, running, 0))["id"]


@pytest.mark.parametrize("how", ["expired", "capped"])
async def test_other_ways_to_claim_leave_paused_tasks_too(connection: asyncpg.Connection, how: str) -> None:
    await grow(connection, node(0))
    await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    if how == "expired":
        await connection.execute(
            "UPDATE horsies_tasks SET status = 'CLAIMED', claimed_at = now(), claim_expires_at = now() - interval '1 s'"
        )
        assert await release_expired(connection, ["default"]) == 1
    asked = "SELECT count(*) FROM horsies_claim_capped('w', '{default}', '{NULL}', 9, NULL, true, '60 s', NULL)"
    assert await connection.fetchval(asked) == 0
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    assert await connection.fetchval(asked) == 1


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
