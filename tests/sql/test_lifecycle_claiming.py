"""A claim takes due tasks, in order, once, and leaves those that must not run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest
from lifecycle_steps import (
    HOT_PATH,
    LEASE_MS,
    ME,
    OTHER,
    claim_some,
    claim_tokens,
    enqueue,
    everything,
    start_tokens,
    statuses,
    take_over,
    task,
)

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimRequest, claim, large_arguments, release


async def ids_of_claim(conn: asyncpg.Connection, limit: int = 100) -> list[str]:
    return [claimed.token.task_id for claimed in await claim_some(conn, limit=limit)]


async def reclaim(conn: asyncpg.Connection, worker: str = OTHER, limit: int = 100) -> list[Token]:
    tasks = await take_over(conn, worker_id=worker, queue="default", limit=limit, lease_ms=LEASE_MS, task_names=None)
    return [claimed.token for claimed in tasks]


async def run_out(conn: asyncpg.Connection) -> None:
    await conn.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s' WHERE status = 'CLAIMED'")


async def test_a_claim_tells_what_it_takes_to_run_the_task(connection: asyncpg.Connection) -> None:
    await enqueue(
        connection,
        "t",
        priority="7",
        args="'[1]'",
        kwargs="""'{"a":2}'""",
        task_options="'{}'",
        retry_count="1",
        max_retries="3",
        is_workflow_task="true",
    )
    (claimed,) = await claim_some(connection)
    assert claimed.token == Token("t", ME, claimed.token.claimed_at)
    assert (claimed.task_name, claimed.queue_name, claimed.priority) == ("demo.add", "default", 7)
    assert (claimed.args, claimed.kwargs, claimed.large) == ("[1]", '{"a":2}', False)
    assert (claimed.task_options, claimed.retry_count, claimed.max_retries) == ("{}", 1, 3)
    assert claimed.is_workflow_task


async def test_a_claim_is_written_with_owner_token_and_lease(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (token,) = await claim_tokens(connection, lease_ms=90_000)
    row = await task(connection, "t")
    assert (row["status"], row["claimed"], row["claimed_by_worker_id"]) == ("CLAIMED", True, ME)
    assert row["claimed_at"] == token.claimed_at == row["updated_at"]
    assert row["claim_expires_at"] - row["claimed_at"] == timedelta(seconds=90)
    assert row["started_at"] is None


async def test_tasks_come_by_priority_then_age_then_id(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "c", "b", "a", enqueued_at="now() - interval '1 min'")
    await enqueue(connection, "old", enqueued_at="now() - interval '1 h'")
    await enqueue(connection, "urgent", priority="1")
    assert await ids_of_claim(connection, limit=3) == ["urgent", "old", "a"]
    assert await ids_of_claim(connection) == ["b", "c"]


@pytest.mark.parametrize(
    "columns",
    [
        {"enqueued_at": "now() + interval '1 h'"},
        {"next_retry_at": "now() + interval '1 h'"},
        {"good_until": "now()"},
        {"queue_name": "'other'"},
        *({"status": f"'{status}'"} for status in ("RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED")),
        {"status": "'CLAIMED'", "claim_expires_at": "now() - interval '1 h'"},
    ],
    ids=lambda columns: " ".join(columns.values()),
)
async def test_what_is_not_waiting_here_or_not_due_is_left(
    connection: asyncpg.Connection, columns: dict[str, str]
) -> None:
    await enqueue(connection, "t", **columns)
    before = await everything(connection)
    assert await claim_some(connection) == []
    assert await everything(connection) == before


async def test_only_tasks_with_the_names_asked_for_are_claimed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", task_name="'demo.add'")
    await enqueue(connection, "b", task_name="'demo.gone'")
    names = ["demo.add", "demo.sum"]
    claimed = await claim(connection, ME, ClaimRequest("default", 9, LEASE_MS, names))
    assert [one.task_name for one in claimed] == ["demo.add"]
    assert await claim(connection, ME, ClaimRequest("default", 9, LEASE_MS, [])) == []
    assert await statuses(connection) == {"a": "CLAIMED", "b": "PENDING"}


async def test_a_paused_queue_yields_nothing_until_it_is_resumed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", "u")
    await claim_some(connection, limit=1)
    await run_out(connection)
    await connection.execute("INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('default', now())")
    assert await claim_some(connection) == []
    assert await reclaim(connection) == []
    await connection.execute("UPDATE horsies_queue_state SET paused_at = NULL")
    assert await ids_of_claim(connection) == ["t", "u"]


async def test_a_claim_takes_256_at_most(connection: asyncpg.Connection) -> None:
    await enqueue(connection, *(f"{n:03}" for n in range(300)))
    assert len(await claim_some(connection, limit=1000)) == 256
    assert await claim_some(connection, limit=0) == []
    assert len(await claim_some(connection, limit=1000)) == 44


async def test_large_arguments_stay_in_the_table_until_asked_for(connection: asyncpg.Connection) -> None:
    limit = 65_536
    await enqueue(connection, "fits", args=f"repeat('x', {limit - 10})", kwargs="repeat('y', 10)")
    await enqueue(connection, "larger", args=f"repeat('x', {limit - 9})", kwargs="repeat('y', 10)")
    await enqueue(connection, "huge", args="NULL", kwargs="repeat('ä', 5000000)")
    small, larger, huge = sorted(await claim_some(connection), key=lambda one: one.large)
    assert (small.large, len(small.args or ""), small.kwargs) == (False, limit - 10, "y" * 10)
    assert [(one.args, one.kwargs) for one in (larger, huge)] == [(None, None)] * 2
    assert await large_arguments(connection, larger.token) == ("x" * (limit - 9), "y" * 10)
    assert await large_arguments(connection, huge.token) == (None, "ä" * 5_000_000)


async def test_large_arguments_are_read_before_and_after_the_start_but_not_by_a_stale_token(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t", args="'[1]'")
    (token,) = await claim_tokens(connection)
    await start_tokens(connection, [token])
    assert await large_arguments(connection, token) == ("[1]", None)
    stale = Token("t", ME, token.claimed_at - timedelta(microseconds=1))
    assert await large_arguments(connection, stale) is None
    await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED'")
    assert await large_arguments(connection, token) is None


async def test_every_claim_of_a_task_has_another_token_even_inside_one_transaction(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "t")
    tokens = []
    async with connection.transaction():
        for _ in range(5):
            (token,) = await claim_tokens(connection)
            tokens.append(token)
            assert await release(connection, ME, [token]) == {token}
    assert all(earlier.claimed_at < later.claimed_at for earlier, later in pairwise(tokens))


async def test_an_expired_claim_gets_a_new_owner_and_token(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (old,) = await claim_tokens(connection, lease_ms=0)
    (new,) = await reclaim(connection)
    row = await task(connection, "t")
    assert (row["status"], row["claimed"], row["claimed_by_worker_id"]) == ("CLAIMED", True, OTHER)
    assert row["claimed_at"] == new.claimed_at > old.claimed_at
    assert await reclaim(connection) == []


@pytest.mark.parametrize("column", ["enqueued_at", "next_retry_at"])
async def test_an_expired_claim_that_is_not_due_or_too_late_is_left(
    connection: asyncpg.Connection, column: str
) -> None:
    await enqueue(connection, "t", "u")
    await claim_tokens(connection, lease_ms=0)
    await connection.execute(f"UPDATE horsies_tasks SET {column} = now() + interval '1 h' WHERE id = 't'")
    await connection.execute("UPDATE horsies_tasks SET good_until = now() WHERE id = 'u'")
    assert await reclaim(connection) == []


async def test_expired_claims_come_in_the_order_of_the_queue(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "b", "a", enqueued_at="now() - interval '1 min'")
    await enqueue(connection, "urgent", priority="1")
    await claim_tokens(connection, lease_ms=0)
    assert [token.task_id for token in await reclaim(connection, limit=2)] == ["urgent", "a"]


async def test_a_released_task_is_as_if_it_had_never_been_claimed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", "u", retry_count="1")
    before = [await task(connection, name) for name in "tu"]
    first, second = await claim_tokens(connection)
    assert await release(connection, ME, [second, first]) == {first, second}
    for row in before:
        now = await task(connection, row["id"])
        assert now.pop("updated_at") > row.pop("updated_at")
        assert now == row


async def test_what_runs_is_not_released(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    await start_tokens(connection, tokens)
    assert await release(connection, ME, tokens) == set()
    assert await statuses(connection) == {"t": "RUNNING"}


async def test_eight_claimers_at_once_share_all_tasks_and_none_twice(
    database: str, connection: asyncpg.Connection
) -> None:
    await enqueue(connection, *(f"{n:04}" for n in range(600)))
    claimers = [await asyncpg.connect(database, server_settings=HOT_PATH) for _ in range(8)]

    async def claim_until_dry(number: int, conn: asyncpg.Connection) -> list[str]:
        taken = []
        while some := await claim_some(conn, f"w-{number}", limit=number + 1):
            taken += [one.token.task_id for one in some]
        return taken

    taken = await asyncio.gather(*(claim_until_dry(number, conn) for number, conn in enumerate(claimers)))
    everybody = [name for one in taken for name in one]
    assert len(everybody) == len(set(everybody)) == 600
    for conn in claimers:
        await conn.close()


async def test_a_claim_steps_over_a_row_that_another_session_has_locked(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b", "c")
    async with other.transaction():
        await other.execute("SELECT FROM horsies_tasks WHERE id = 'a' FOR UPDATE")
        assert await ids_of_claim(connection, limit=2) == ["b", "c"]
    assert await ids_of_claim(connection) == ["a"]


async def test_a_claim_leaves_the_next_statement_durable(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    assert await connection.fetchval("SHOW synchronous_commit") == "on"
    await claim_tokens(connection)
    assert await connection.fetchval("SHOW synchronous_commit") == "on"
