"""The question of an operator to the worker of a running task, and the worker's answer."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg
import pytest
from lifecycle_steps import ME, enqueue, running
from order_steps import OPS, heard, snapshot
from statements import statement

from horsies.operations.looking import answer_to, ask_again, close, look_at
from horsies.operations.target import OperationError
from horsies.run.worker.looks import CHANNEL

STACK = {"how": "python", "frames": [], "threads": []}


async def asked(conn: asyncpg.Connection, worker: str = ME) -> list[asyncpg.Record]:
    return await conn.fetch(statement("looks_asked"), worker)


async def answer(conn: asyncpg.Connection, *looks: asyncpg.Record) -> None:
    columns = [look["look_id"] for look in looks], [look["asked_at"] for look in looks]
    await conn.execute(statement("looks_answer"), *columns, [json.dumps(STACK)] * len(looks))


async def test_a_question_reaches_the_worker_that_holds_the_claim(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    told = await heard(connection, CHANNEL)
    look = await look_at(connection, OPS, "t", "stack", with_locals=True, reason="slow")
    assert (look.task_id, look.worker_id, look.claimed_at) == ("t", ME, token.claimed_at)
    (question,) = await asked(connection)
    assert (question["task_id"], question["claimed_at"], question["with_locals"]) == ("t", token.claimed_at, True)
    assert await asked(connection, "another") == []
    assert told == [ME]
    row = await connection.fetchrow(
        "SELECT verb, target_id, outcome, reason, after_state FROM horsies_operator_actions"
    )
    assert tuple(row)[:4] == ("look", "t", "applied", "slow")
    assert json.loads(row["after_state"]) == {"worker_id": ME, "kind": "stack", "with_locals": True}


async def test_each_question_is_answered_once(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    look = await look_at(connection, OPS, "t", "stack")
    (first,) = await asked(connection)
    await answer(connection, first)
    found = await answer_to(connection, look, 0)
    assert (found.found, found.holds, found.status) == (STACK, True, "RUNNING")
    assert await asked(connection) == []
    await ask_again(connection, look)
    await ask_again(connection, look)
    (second,) = await asked(connection)
    await answer(connection, first)
    assert (await answer_to(connection, look, 0)).found is None, "that was the answer to the last question"
    await answer(connection, second)
    assert (await answer_to(connection, look, 0)).found == STACK
    await close(connection, look)
    await ask_again(connection, look)
    assert await asked(connection) == []


async def test_no_answer_says_how_long_the_worker_has_been_silent(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    look = await look_at(connection, OPS, "t", "stack")
    assert (await answer_to(connection, look, 0)).silent_for is None
    await snapshot(connection, ME)
    await connection.execute("UPDATE horsies_worker_states SET snapshot_at = now() - interval '90 s'")
    found = await answer_to(connection, look, 0)
    assert found.silent_for is not None
    assert 89 < found.silent_for.total_seconds() < 95


@pytest.mark.parametrize("status", ["PENDING", "CLAIMED", "COMPLETED"])
async def test_only_a_running_task_is_asked_for(connection: asyncpg.Connection, status: str) -> None:
    await enqueue(connection, "t", status=f"'{status}'")
    with pytest.raises(OperationError, match=f"task t is {status}: only a running task has a stack or output to show"):
        await look_at(connection, OPS, "t", "stack")
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0
    with pytest.raises(OperationError, match="no task has the id nope"):
        await look_at(connection, OPS, "nope", "stack")


async def test_a_request_that_is_too_old_is_not_answered_and_is_pruned(connection: asyncpg.Connection) -> None:
    rows = [(uuid4(), age) for age in ("10 s", "2 min", "2 h")]
    for look_id, age in rows:
        await connection.execute(
            "INSERT INTO horsies_looks (look_id, task_id, worker_id, claimed_at, kind, asked_at)"
            f" VALUES ($1, 't', $2, now(), 'stack', now() - interval '{age}')",
            look_id,
            ME,
        )
    assert [row["look_id"] for row in await asked(connection)] == [rows[0][0]]
    await connection.execute(statement("looks_prune"))
    left = await connection.fetch("SELECT look_id FROM horsies_looks ORDER BY asked_at DESC")
    assert [row["look_id"] for row in left] == [rows[0][0], rows[1][0]]


async def test_a_role_that_may_not_write_gets_the_grant(connection: asyncpg.Connection, role: str) -> None:
    await running(connection, "t")
    await connection.execute(f"GRANT SELECT, INSERT, UPDATE ON horsies_tasks, horsies_task_attempts TO {role}")
    await connection.execute(f"GRANT SELECT, INSERT ON horsies_operator_actions TO {role}")
    await connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}; SET ROLE {role}")
    with pytest.raises(OperationError, match="lacks SELECT ON horsies_looks"):
        await look_at(connection, OPS, "t", "stack")
    await connection.execute("RESET ROLE")
