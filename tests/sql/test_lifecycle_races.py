"""Concurrent writes to one row: the second one waits, finds that it has lost, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from lifecycle_steps import (
    LEASE_MS,
    ME,
    OTHER,
    claim_some,
    claim_tokens,
    ended,
    enqueue,
    everything,
    start_tokens,
    take_over,
    waits_for_a_lock,
)

from horsies.lifecycle.claim_token import Token, Verdict, renew
from horsies.lifecycle.claiming import StartVerdicts, claim_capped, release
from horsies.lifecycle.finishing import OutcomeKind, finish, mark_finalizing

Write = Callable[[asyncpg.Connection, list[Token]], Awaitable[None]]
LostWrite = Callable[[asyncpg.Connection, list[Token]], Awaitable[bool]]
K = OutcomeKind


async def starts(conn: asyncpg.Connection, tokens: list[Token]) -> None:
    assert (await start_tokens(conn, tokens)).started == frozenset(tokens)


async def expires(conn: asyncpg.Connection, tokens: list[Token]) -> None:
    await conn.execute("UPDATE horsies_tasks SET good_until = now() - interval '1 s'")
    assert (await start_tokens(conn, tokens)).expired == frozenset(tokens)


async def releases(conn: asyncpg.Connection, tokens: list[Token]) -> None:
    assert await release(conn, ME, tokens) == set(tokens)


async def is_claimed_by_another(conn: asyncpg.Connection, tokens: list[Token]) -> None:
    await conn.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'")
    taken = await take_over(conn, worker_id=OTHER, queue="default", limit=9, lease_ms=LEASE_MS, task_names=None)
    assert len(taken) == len(tokens)


def finishes(kind: OutcomeKind) -> Write:
    async def write(conn: asyncpg.Connection, tokens: list[Token]) -> None:
        finished = await finish(conn, ME, [ended(token, kind) for token in tokens])
        assert {one.verdict for one in finished.values()} == {Verdict.ACCEPTED}

    write.__name__ = f"finishes as {kind.value}"
    return write


def by_hand(name: str, change: str) -> Write:
    async def write(conn: asyncpg.Connection, _: list[Token]) -> None:
        await conn.execute(f"UPDATE horsies_tasks SET {change}")

    write.__name__ = f"operator {name}"
    return write


HAND = [
    by_hand(
        "requeues",
        "status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL",
    ),
    by_hand("cancels", "status = 'CANCELLED', claimed = false, claim_expires_at = NULL"),
    by_hand("fails", "status = 'FAILED', claimed = false, failed_at = now(), error_code = 'OPERATOR_FAILED'"),
]


async def start_is_lost(conn: asyncpg.Connection, tokens: list[Token]) -> bool:
    return await start_tokens(conn, tokens) == StartVerdicts(frozenset(), frozenset(), frozenset(tokens))


async def release_is_lost(conn: asyncpg.Connection, tokens: list[Token]) -> bool:
    return await release(conn, ME, tokens) == set()


async def mark_is_lost(conn: asyncpg.Connection, tokens: list[Token]) -> bool:
    return await mark_finalizing(conn, ME, tokens) == set(tokens)


def finish_is_lost(kind: OutcomeKind) -> LostWrite:
    async def write(conn: asyncpg.Connection, tokens: list[Token]) -> bool:
        finished = await finish(conn, ME, [ended(token, kind) for token in tokens])
        return {one.verdict for one in finished.values()} == {Verdict.STALE}

    write.__name__ = f"finish_as_{kind.value}_is_lost"
    return write


def named(write: object) -> str:
    return getattr(write, "__name__", str(write))


async def race(
    winner: Write, loser: LostWrite, tokens: list[Token], *connections: asyncpg.Connection, waits: bool = True
) -> None:
    rival, worker, observer = connections
    transaction = rival.transaction()
    await transaction.start()
    await winner(rival, tokens)
    running = await waits_for_a_lock(observer, worker, loser(worker, tokens))
    assert running.done() is not waits
    await transaction.commit()
    after = await everything(observer)
    assert await running
    assert await everything(observer) == after


@pytest.mark.parametrize("loser", [start_is_lost, release_is_lost], ids=named)
@pytest.mark.parametrize("winner", [expires, releases, *HAND], ids=named)
async def test_who_comes_second_to_a_claim_waits_and_changes_nothing(
    connection: asyncpg.Connection,
    rival: asyncpg.Connection,
    worker: asyncpg.Connection,
    winner: Write,
    loser: LostWrite,
) -> None:
    await enqueue(connection, "a", "b")
    tokens = await claim_tokens(connection)
    await race(winner, loser, tokens, rival, worker, connection)


@pytest.mark.parametrize("winner", [starts, is_claimed_by_another], ids=named)
async def test_a_release_that_comes_second_to_the_start_or_to_another_claim_changes_nothing(
    connection: asyncpg.Connection, rival: asyncpg.Connection, worker: asyncpg.Connection, winner: Write
) -> None:
    await enqueue(connection, "a", "b")
    await race(winner, release_is_lost, await claim_tokens(connection), rival, worker, connection)


async def test_a_start_whose_lease_ran_out_does_not_even_wait(
    connection: asyncpg.Connection, rival: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b")
    tokens = await claim_tokens(connection, lease_ms=0)
    await race(is_claimed_by_another, start_is_lost, tokens, rival, worker, connection, waits=False)


@pytest.mark.parametrize("loser", [*(finish_is_lost(kind) for kind in K), mark_is_lost], ids=named)
@pytest.mark.parametrize("winner", [*(finishes(kind) for kind in K), *HAND], ids=named)
async def test_who_comes_second_to_an_execution_waits_and_changes_nothing(
    connection: asyncpg.Connection,
    rival: asyncpg.Connection,
    worker: asyncpg.Connection,
    winner: Write,
    loser: LostWrite,
) -> None:
    await enqueue(connection, "a", "b", max_retries="5")
    tokens = await claim_tokens(connection)
    await starts(connection, tokens)
    # A mark skips a locked row: beats must not be delayed.
    await race(winner, loser, tokens, rival, worker, connection, waits=loser is not mark_is_lost)


async def test_a_start_that_waited_past_the_lease_is_no_start(
    connection: asyncpg.Connection, rival: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    """The lease is checked when the row is unlocked, not when the statement began."""
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    async with rival.transaction():
        await rival.execute("UPDATE horsies_tasks SET claim_expires_at = clock_timestamp() + interval '50 ms'")
        running = await waits_for_a_lock(connection, worker, start_tokens(worker, tokens))
        await rival.execute("SELECT pg_sleep(0.06)")
    assert (await running).stale == frozenset(tokens)


@pytest.mark.parametrize("winner", [starts, releases, *HAND], ids=named)
async def test_claims_and_renewals_never_wait_for_a_row(
    connection: asyncpg.Connection, rival: asyncpg.Connection, worker: asyncpg.Connection, winner: Write
) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    transaction = rival.transaction()
    await transaction.start()
    await winner(rival, tokens)
    before = await everything(connection)
    await worker.execute("SET lock_timeout = 1")
    limits = {"worker_id": OTHER, "lease_ms": LEASE_MS, "task_names": None}
    assert await claim_some(worker, OTHER) == []
    assert await take_over(worker, queue="default", limit=9, **limits) == []
    under_caps = await claim_capped(worker, queues=[("default", 9)], budget=9, cluster_cap=9, hard=True, **limits)
    assert under_caps.tasks == []
    assert await renew(worker, ME, LEASE_MS, LEASE_MS, hostname="host", pid=1) == set()
    assert await everything(connection) == before
    await transaction.rollback()
    assert {token.task_id for token in await renew(worker, ME, LEASE_MS, LEASE_MS, hostname="host", pid=1)} == {"t"}


async def test_of_two_that_claim_one_expired_task_only_one_gets_it(
    connection: asyncpg.Connection, rival: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    await enqueue(connection, "t")
    await claim_tokens(connection, lease_ms=0)
    limits = {"queue": "default", "limit": 9, "lease_ms": LEASE_MS, "task_names": None}
    async with rival.transaction():
        assert len(await take_over(rival, worker_id="w-1", **limits)) == 1
        assert await take_over(worker, worker_id="w-2", **limits) == []
    assert await take_over(worker, worker_id="w-2", **limits) == []


@pytest.mark.parametrize("statistics", ["VACUUM ANALYZE", "SELECT 1"], ids=["of an empty table", "none"])
@pytest.mark.parametrize("batch", ["start", "release", *K], ids=str)
async def test_a_batch_locks_its_rows_in_one_order_so_that_no_two_batches_deadlock(
    connection: asyncpg.Connection,
    rival: asyncpg.Connection,
    worker: asyncpg.Connection,
    batch: str | OutcomeKind,
    statistics: str,
) -> None:
    """Statistics decide which side of the join leads: the rows, in the order of their index, or the tokens as given."""
    await connection.execute(statistics)
    await enqueue(connection, "a", "b", "c", max_retries="1")
    tokens = await claim_tokens(connection)
    if isinstance(batch, OutcomeKind):
        await starts(connection, tokens)
    backwards = tokens[::-1]
    if batch == "start":
        step: Awaitable[object] = start_tokens(worker, backwards)
    elif batch == "release":
        step = release(worker, ME, backwards)
    else:
        step = finish(worker, ME, [ended(token, batch) for token in backwards])
    async with rival.transaction():
        await rival.execute("SELECT FROM horsies_tasks WHERE id = 'b' FOR UPDATE")
        running = await waits_for_a_lock(connection, worker, step)
        free = await connection.fetch("SELECT id FROM horsies_tasks ORDER BY id FOR UPDATE SKIP LOCKED")
    assert [row["id"] for row in free] == ["c"]
    await running
