"""After a lock timeout: which rows are locked and by which session, and that other rows are not delayed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from lifecycle_steps import (
    HOT_PATH,
    ME,
    OTHER,
    attempts,
    claim_tokens,
    ended,
    enqueue,
    running,
    statuses,
    task,
    waits_for_a_lock,
)

from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.lifecycle.claim_token import LockHolder, Token, locked_rows
from horsies.lifecycle.claiming import take_back_unlocked
from horsies.lifecycle.finishing import OutcomeKind, finish, mark_finalizing
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection

LOCK = "SELECT FROM horsies_tasks WHERE id = ANY ($1) FOR UPDATE"


@pytest.fixture
async def stranger(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={"application_name": "a stranger"})
    yield connected
    await connected.close()


@pytest.fixture
async def worker(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={**HOT_PATH, "lock_timeout": "100"})
    yield connected
    await connected.close()


async def test_locked_rows_are_told_with_the_session_that_holds_them(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    tokens = await running(connection, "a", "b", "c")
    holder = LockHolder(stranger.get_server_pid(), "a stranger")
    async with stranger.transaction():
        await stranger.execute(LOCK, ["a", "c"])
        assert await locked_rows(worker, ME, tokens) == {tokens[0]: holder, tokens[2]: holder}
    assert await locked_rows(worker, ME, tokens) == {}
    assert str(holder) == f"pid {holder.pid} (a stranger)"


async def test_an_update_that_is_not_committed_counts_as_a_lock(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    (token,) = await running(connection, "a")
    async with stranger.transaction():
        await stranger.execute("UPDATE horsies_tasks SET status = 'CANCELLED'")
        assert set(await locked_rows(worker, ME, [token])) == {token}
    assert await locked_rows(worker, ME, [token]) == {}


async def test_a_lock_that_several_sessions_share_names_none_of_them(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    (token,) = await running(connection, "a")
    async with stranger.transaction(), connection.transaction():
        for session in (stranger, connection):
            await session.execute("SELECT FROM horsies_tasks FOR SHARE")
        assert await locked_rows(worker, ME, [token]) == {token: LockHolder(None, None)}
    assert str(LockHolder(None, None)) == "unknown"


async def test_a_row_that_the_token_does_not_fit_is_not_waited_for_and_not_told(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    (token,) = await running(connection, "a")
    stale = Token("a", OTHER, token.claimed_at)
    async with stranger.transaction():
        await stranger.execute(LOCK, ["a"])
        assert await locked_rows(worker, OTHER, [stale]) == {}
        assert await finish(worker, OTHER, [ended(stale, OutcomeKind.COMPLETED)])  # at once, not after the lock


@pytest.mark.parametrize("kind", OutcomeKind, ids=str)
async def test_what_is_not_locked_is_stored_beside_what_is(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection, kind: OutcomeKind
) -> None:
    tokens = await running(connection, "a", "b", "c", max_retries="5")
    async with stranger.transaction():
        await stranger.execute(LOCK, ["b"])
        with pytest.raises(asyncpg.LockNotAvailableError):
            await finish(worker, ME, [ended(token, kind) for token in tokens])
        assert set((await statuses(connection)).values()) == {"RUNNING"}
        free = set(tokens) - set(await locked_rows(worker, ME, tokens))
        await finish(worker, ME, [ended(token, kind) for token in free])
        found = await statuses(connection)
        assert [found[name] == "RUNNING" for name in "abc"] == [False, True, False]
    await finish(worker, ME, [ended(tokens[1], kind)])
    assert len(set((await statuses(connection)).values())) == 1
    assert len(await attempts(connection, "b")) == (kind is not OutcomeKind.NOT_BEGUN)


async def test_a_mark_is_set_beside_a_locked_row_and_beside_a_finish_that_waits_for_it(
    database: str, connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    """The finish has locked `a` and waits for `b`; it has not reached `c`."""
    tokens = await running(connection, "a", "b", "c")
    patient = await asyncpg.connect(database, server_settings=HOT_PATH)
    async with stranger.transaction():
        await stranger.execute(LOCK, ["b"])
        outcomes = [ended(token, OutcomeKind.COMPLETED) for token in tokens]
        waiting = await waits_for_a_lock(connection, patient, finish(patient, ME, outcomes))
        unmarked = await mark_finalizing(worker, ME, tokens)
        assert unmarked == set(tokens[:2])
        assert (await task(connection, "c"))["finalizing_by_worker_id"] == ME
    assert len(await waiting) == 3
    assert set((await statuses(connection)).values()) == {"COMPLETED"}
    await patient.close()


async def test_claims_are_given_back_but_for_those_in_locked_rows(
    connection: asyncpg.Connection, stranger: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b", "c")
    tokens = await claim_tokens(connection)
    by_id = {token.task_id: token for token in tokens}
    async with stranger.transaction():
        await stranger.execute(LOCK, ["b", "c"])
        returned, locked = await take_back_unlocked(worker, ME, [by_id["c"]])
        assert (returned, list(locked)) == ([by_id["a"]], [by_id["b"]])
    assert await take_back_unlocked(worker, ME, [by_id["c"]]) == ([by_id["b"]], ())
    assert await statuses(connection) == {"a": "PENDING", "b": "PENDING", "c": "CLAIMED"}


@pytest.mark.parametrize("behind_pooler", [False, True], ids=["direct", "behind a pooler"])
@pytest.mark.parametrize("role", ["claim", "start", "finish", "beat"])
async def test_a_dedicated_connection_waits_for_no_lock_for_long_and_goes_on_with_its_connection(
    database: str, connection: asyncpg.Connection, stranger: asyncpg.Connection, role: str, behind_pooler: bool
) -> None:
    (token,) = await running(connection, "a")
    choice = DatabaseChoice(DatabaseUrl.parse(database), "for the test")
    async with open_database(choice) as found:
        dedicated = DedicatedConnection(found, f"worker {role}", behind_pooler=behind_pooler)
        session = await dedicated.ready()
        async with stranger.transaction():
            await stranger.execute(LOCK, ["a"])
            with pytest.raises(asyncpg.LockNotAvailableError):
                async with dedicated.briefly():
                    await finish(session, ME, [ended(token, OutcomeKind.COMPLETED)])
            assert set(await locked_rows(session, ME, [token])) == {token}
        await finish(session, ME, [ended(token, OutcomeKind.COMPLETED)])
        assert await dedicated.ready() is session
        await dedicated.close()
    assert await statuses(connection) == {"a": "COMPLETED"}
