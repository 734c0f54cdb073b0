"""Tasks that a worker holds without knowing it, because a reply was lost, go back into the queue unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from lifecycle_steps import (
    HOT_PATH,
    LEASE_MS,
    ME,
    OTHER,
    attempts,
    claim_some,
    claim_tokens,
    ended,
    enqueue,
    everything,
    running,
    start_tokens,
    statuses,
    take_over,
    task,
    waits_for_a_lock,
)

from horsies.lifecycle.claim_token import Token, Verdict
from horsies.lifecycle.claiming import take_back
from horsies.lifecycle.finishing import Finished, OutcomeKind, finish


@pytest.fixture
async def worker(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings=HOT_PATH)
    yield connected
    await connected.close()


async def test_what_is_claimed_or_runs_unknown_to_its_worker_is_as_if_it_had_never_been_claimed(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "claimed", "running", max_retries="3", retry_count="1")
    before = [await task(connection, name) for name in ("claimed", "running")]
    claimed, started = sorted(await claim_tokens(connection), key=lambda token: token.task_id)
    await start_tokens(connection, [started])
    assert await take_back(connection, ME, []) == [claimed, started]
    after = [await task(connection, name) for name in ("claimed", "running")]
    for row in (*before, *after):
        del row["updated_at"]
    assert after == before
    assert await attempts(connection, "running") == []


async def test_what_the_worker_holds_stays_with_it(connection: asyncpg.Connection) -> None:
    held = await running(connection, "a", "b")
    await enqueue(connection, "c", "d")
    more = await claim_tokens(connection)
    before = await everything(connection)
    assert await take_back(connection, ME, [*held, *more]) == []
    assert await everything(connection) == before
    kept = [held[1], more[0]]
    assert await take_back(connection, ME, kept) == [held[0], more[1]]
    assert (await start_tokens(connection, kept)).started == frozenset(kept)


async def test_it_is_the_token_that_is_held_not_the_task(connection: asyncpg.Connection) -> None:
    """An old claim of the worker, expired in a stall, is still in memory; the reply of the new one was lost."""
    await enqueue(connection, "t")
    (old,) = await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'")
    (again,) = await take_over(connection, worker_id=ME, queue="default", limit=1, lease_ms=LEASE_MS, task_names=None)
    assert await take_back(connection, ME, [old]) == [again.token]
    assert await statuses(connection) == {"t": "PENDING"}


async def test_what_others_have_and_what_has_ended_is_left_alone(connection: asyncpg.Connection) -> None:
    await running(connection, "theirs", worker=OTHER)
    mine = await running(connection, "done", "failed", "again", max_retries="1")
    kinds = (OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.RETRY)
    await finish(connection, ME, [ended(token, kind) for token, kind in zip(mine, kinds, strict=True)])
    await enqueue(connection, "waiting")
    before = await everything(connection)
    assert await take_back(connection, ME, []) == []
    assert await everything(connection) == before


async def test_the_lost_token_changes_nothing_any_more(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    await take_back(connection, ME, [])
    (again,) = await claim_some(connection, OTHER)
    assert again.token.task_id == "t"
    before = await everything(connection)
    assert await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED)]) == {token: Finished(Verdict.STALE)}
    assert (await start_tokens(connection, [token])).stale == frozenset([token])
    assert await everything(connection) == before


async def test_it_waits_for_the_start_whose_reply_was_lost_and_takes_back_what_that_started(
    connection: asyncpg.Connection, worker: asyncpg.Connection, database: str
) -> None:
    await enqueue(connection, "t")
    (token,) = await claim_tokens(connection)
    lost = await asyncpg.connect(database)
    transaction = lost.transaction()
    await transaction.start()
    assert (await start_tokens(lost, [token])).started == frozenset([token])
    waiting = await waits_for_a_lock(connection, worker, take_back(worker, ME, []))
    assert not waiting.done()
    await transaction.commit()
    async with asyncio.timeout(10):
        assert await waiting == [token]
    await lost.close()
    assert await statuses(connection) == {"t": "PENDING"}


async def test_it_waits_for_a_finish_and_leaves_what_that_has_ended(
    connection: asyncpg.Connection, worker: asyncpg.Connection, database: str
) -> None:
    (token,) = await running(connection, "t")
    lost = await asyncpg.connect(database)
    transaction = lost.transaction()
    await transaction.start()
    await finish(lost, ME, [ended(token, OutcomeKind.COMPLETED)])
    waiting = await waits_for_a_lock(connection, worker, take_back(worker, ME, []))
    await transaction.commit()
    async with asyncio.timeout(10):
        assert await waiting == []
    await lost.close()
    assert await statuses(connection) == {"t": "COMPLETED"}


async def test_two_that_take_back_at_once_do_not_wait_for_each_other_in_a_circle(
    connection: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    tokens: list[Token] = await running(connection, *(f"{number:02}" for number in range(50)))
    async with asyncio.timeout(10):
        first, second = await asyncio.gather(take_back(connection, ME, []), take_back(worker, ME, []))
    assert sorted([*first, *second], key=lambda token: token.task_id) == tokens
