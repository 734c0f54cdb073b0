"""A family that is pruned and opened again at the same time: it stays whole, or is deleted whole."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from control_steps import ends, planted, planted_below, states
from lifecycle_steps import waits_for_a_lock
from operation_steps import OPS
from workflow_plans import node, plan

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle import retention
from horsies.lifecycle.controlling import retry_from_failed
from horsies.lifecycle.reopening import CannotReopenError
from horsies.lifecycle.retention import ages_of, prunable, prune
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

AGES = ages_of(RecoveryConfig())
PARENT = plan(node(0, sub_definition_key="child.v1"), node(1, sub_definition_key="child.v1"), name="parent")
AGED = """
UPDATE horsies_workflows SET completed_at = completed_at - interval '31 days', updated_at = now() - interval '31 days',
       created_at = now() - interval '31 days';
UPDATE horsies_tasks SET completed_at = completed_at - interval '31 days', failed_at = failed_at - interval '31 days';
"""


async def old_family(conn: asyncpg.Connection) -> None:
    """A root that failed with one of its two children; the other completed."""
    await planted(conn, PARENT, "root")
    await planted_below(conn, plan(node(0)), "root", 0, "good")
    await planted_below(conn, plan(node(0), node(1, 0)), "root", 1, "bad")
    await ends(conn, "good", 0)
    await ends(conn, "bad", 0, status="FAILED")
    await conn.execute(AGED)
    assert await states(conn, "root") == "FAILED: COMPLETED FAILED"


async def workflows_of(conn: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await conn.fetch("SELECT id FROM horsies_workflows ORDER BY id")]


async def is_whole_again(conn: asyncpg.Connection) -> None:
    assert await workflows_of(conn) == ["bad", "good", "root"]
    assert await states(conn, "root") == "RUNNING: COMPLETED RUNNING"
    assert await states(conn, "good") == "COMPLETED: COMPLETED"
    assert await states(conn, "bad") == "RUNNING: ENQUEUED PENDING"
    assert (
        await conn.fetchval(
            "SELECT bool_and(sub_workflow_id IS NOT NULL) FROM horsies_workflow_tasks WHERE is_subworkflow"
        )
        is True
    )
    await ends(conn, "bad", 0, 1)
    assert await states(conn, "root") == "COMPLETED: COMPLETED COMPLETED"


@pytest.mark.parametrize("retried", ["root", "bad"])
async def test_of_a_family_that_is_being_opened_nothing_is_pruned(
    database: str, connection: asyncpg.Connection, retried: str
) -> None:
    await old_family(connection)
    pruner = await asyncpg.connect(database)
    await pruner.execute("SET lock_timeout = '1s'")
    async with connection.transaction(isolation="read_committed"):
        await retry_from_failed(connection, retried)
        done = await prune(pruner, AGES)
    await pruner.close()
    assert (done.rows["workflows"], done.rows["workflow_tasks"], done.refused) == (0, 0, ())
    await is_whole_again(connection)


async def test_what_was_opened_after_it_was_found_old_is_not_pruned(connection: asyncpg.Connection) -> None:
    await old_family(connection)
    (part,) = [part for part, _ in retention._due(AGES) if part.families]
    (page,) = [page async for page in retention._pages(connection, part, 86_400)]
    assert {old.id for old in page} == {"bad", "good", "root"}
    await retry_from_failed(connection, "bad")
    gone = await retention._delete(connection, part, 86_400, [old.id for old in page])
    assert gone == {"workflows": 0, "workflow_tasks": 0}
    await is_whole_again(connection)


async def test_a_family_that_is_being_pruned_cannot_be_opened_again(
    database: str, connection: asyncpg.Connection
) -> None:
    await old_family(connection)
    operator, other = await asyncpg.connect(database), await asyncpg.connect(database)
    looked = await preview(operator, VERBS["workflow", "retry"], Selection.of_ids(["bad"]))
    assert len(looked.eligible) == 1
    async with connection.transaction(isolation="read_committed"):
        assert (await prune(connection, AGES)).rows["workflows"] == 3
        running = await waits_for_a_lock(other, operator, apply(operator, looked, OPS, None))
        assert not running.done()
    (refused,) = (await running).refused
    assert refused.detail == "its row was deleted"
    with pytest.raises(CannotReopenError, match="its row was deleted"):
        await retry_from_failed(operator, "root")
    assert await workflows_of(connection) == []
    await operator.close()
    await other.close()


async def test_a_family_stays_whole_or_goes_whole_in_either_order(
    database: str, connection: asyncpg.Connection
) -> None:
    pruner = await asyncpg.connect(database)
    ends_seen = set()
    for turn in range(30):
        await connection.execute("TRUNCATE horsies_workflows, horsies_workflow_tasks, horsies_tasks CASCADE")
        await old_family(connection)

        async def opens() -> bool:
            try:
                await retry_from_failed(connection, "bad")
            except CannotReopenError:
                return False
            return True

        steps = [opens(), prune(pruner, AGES)]
        done = await asyncio.gather(*(steps if turn % 2 else reversed(steps)))
        opened = done[0 if turn % 2 else 1]
        assert await workflows_of(connection) == (["bad", "good", "root"] if opened else [])
        ends_seen.add(opened)
        assert set((await prunable(connection, AGES)).values()) == {0}
    await pruner.close()
    assert True in ends_seen
